"""Late chunking for your own index: one vector for each span of characters."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from sentence_transformers.sentence_transformer.modules import WordWeights
from torch import Tensor

from mteb_longembed.errors import InputError
from mteb_longembed.given import without_surrogates
from mteb_longembed.sentences import Span
from mteb_longembed.values import Vectors

from .families import EmbeddingModel
from .model import LongModelMixin, LongSentenceTransformer
from .pooling import Pooling
from .tokens import Ids, document_prompt
from .vectors import BOUNDS, Features, check_averages, mean_of_groups, vectors_of, windows_of
from .vectors import spans as spans_of_tokens


@torch.inference_mode()
def encode_spans(
    model: EmbeddingModel,
    texts: Sequence[str],
    spans: Sequence[Sequence[Span]],
    *,
    prompt: str | None = None,
) -> list[np.ndarray]:
    """Encode each span of each text as one vector, with a transformer that has read the whole text.

    Source: late chunking, Günther et al. 2024, arXiv:2409.04701.

    Args:
        model: a model from `extend` or `load`, with a base with mean pooling and without `vectors`.
        texts: documents.
        spans: the spans of each text in characters, `(start, end)` with the end excluded. `spans_by_sentences` makes
            such a list.
        prompt: text before every document; it belongs to no span. Default: the model's prompt for documents.

    Returns:
        For each text a matrix `[spans, d]`. The vectors have passed through the base's remaining modules (Dense,
        Normalize), so they can be compared with the model's query embeddings.

    Raises:
        InputError: if a span is empty, has no token, or ends after the tokens that are read.
        IncompatibleError: if the base does not average tokens.
        ValueError: if there are more or fewer lists of spans than texts.

    Example:
        >>> from mteb_longembed import load
        >>> texts = ["The key is under the mat. The cat is on it."]
        >>> encode_spans(load("mini-ape+pi@1k"), texts, [[(0, 25), (26, 43)]])[0].shape
        (2, 192)
    """
    if not isinstance(model, LongSentenceTransformer):
        raise InputError(
            f"encode_spans takes what extend or load returned without vectors, got a {type(model).__name__}."
        )
    pooling = Pooling.of(model)
    check_averages("encode_spans", "the base", pooling.mode)
    if prompt is None:
        prompt = document_prompt(model)
    embeddings = []
    for index, (text, text_spans) in enumerate(zip(texts, spans, strict=True)):
        [tokens] = model.encode([text], prompt=prompt, output_value="token_embeddings")
        ids, offsets = tokens_read(model, prompt, text)
        groups = [tokens_of(span, offsets[: len(tokens)], index, text) for span in text_spans]
        means = tokens.new_zeros(0, tokens.shape[1])
        if groups:
            weights = None
            if isinstance(pooling.weights, WordWeights):
                # the vectors are multiplied by the weights already
                weights = pooling.weights.emb_layer(torch.from_numpy(ids).long().to(tokens.device))[:, 0]
            means = mean_of_groups(groups, tokens, weights)
        features: Features = {"sentence_embedding": means}
        for module in pooling.maps:
            features = module(features)
        embeddings.append(features["sentence_embedding"][:, : model.truncate_dim].float().cpu().numpy())
    return embeddings


def tokens_read(model: LongModelMixin, prompt: str, text: str) -> tuple[Ids, list[Span]]:
    """Return the ids of the tokens that are read, and their character offsets: (0, 0) for prompt and special tokens."""
    options = {"return_offsets_mapping": True, "truncation": True, "max_length": model.backbone.max_input_len}
    read = model.tokenizer(without_surrogates(prompt + text), return_special_tokens_mask=True, **options)
    # a token with characters of both prompt and text belongs to the prompt, as in windows
    shift = len(prompt)
    offsets = [
        (start - shift, end - shift) if not special and start >= shift else (0, 0)
        for (start, end), special in zip(read["offset_mapping"], read["special_tokens_mask"], strict=True)
    ]
    return np.array(read["input_ids"], np.int32), offsets


def vector_tokens(
    model: LongModelMixin, rows: Sequence[Ids], prompt: str | None, vectors: Vectors | None = None
) -> Iterator[list[Tensor]]:
    """Yield the indices of each vector's tokens for each row of token ids, special tokens and prompt included.

    A model with one vector per text has `vectors`, as in `Pooling`.
    """
    vectors = vectors_of(model) or vectors
    for row in rows:
        groups = [torch.arange(len(row))]
        bounds = model.backbone.features_of([row], prompt)[BOUNDS]
        if model.family == "late-interaction":
            groups = list(groups[0].split(1))
        elif vectors == "window":
            groups = list(windows_of(bounds, model.backbone.strategy).tokens)
        elif vectors is not None:
            groups = spans_of_tokens(bounds[0], vectors)
        yield groups


def run_lengths(model: LongModelMixin, rows: Sequence[Ids], prompt: str | None) -> np.ndarray:
    """Return the lengths in tokens of the sequences that run for rows of token ids: whole texts, or their windows."""
    strategy = model.backbone.strategy
    lengths: list[int] = []
    for row in rows:
        if not (model.backbone.cuts and strategy.changes(len(row))):
            lengths.append(len(row))
            continue
        bounds = model.backbone.features_of([row], prompt)[BOUNDS]
        lengths += windows_of(bounds, strategy).sizes.tolist()
    return np.array(lengths)


def tokens_of(span: Span, offsets: Sequence[Span], index: int, text: str) -> Tensor:
    """Return the indices of the tokens that overlap a span of characters; `index` names the text in messages."""
    start, end = span
    if not 0 <= start < end <= len(text):
        raise InputError(
            f"a span must be (start, end) with 0 <= start < end <= {len(text)} characters of text {index}, got "
            f"{span}."
        )
    last = max((stop for _, stop in offsets), default=0)
    indices = [i for i, (a, b) in enumerate(offsets) if a < end and b > start]
    if not indices or text[max(start, last) : end].strip():
        raise InputError(
            f"a span must hold tokens, and end within the {last} characters of text {index} that the model reads, "
            f"got {span}; use a longer target length if the text is longer."
        )
    return torch.tensor(indices)
