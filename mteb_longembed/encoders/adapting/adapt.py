"""`adapt`: a model that is fitted on a user's own documents, without training: corpus weights, then whitening."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from sentence_transformers import MultiVectorEncoder, SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling
from torch import nn

from mteb_longembed.encoders.adapting.counting import MAX_TOKENS, count_tokens
from mteb_longembed.encoders.adapting.poolings import (
    Model,
    check_weighable,
    pooling_of,
    remade,
    unscaled,
    weighted,
)
from mteb_longembed.encoders.adapting.whitening import MAX_VECTORS, Whitening, fit
from mteb_longembed.encoders.building import load_base
from mteb_longembed.encoders.checkpoints.checkpoint import open_checkpoint
from mteb_longembed.encoders.checkpoints.spec import ModelSpec
from mteb_longembed.encoders.extend import load
from mteb_longembed.encoders.model import LongModelMixin
from mteb_longembed.encoders.modules.token_weights import RULES, TokenCounts, TokenWeights
from mteb_longembed.encoders.publishing.card import ADAPTED
from mteb_longembed.encoders.spans import document_prompt
from mteb_longembed.encoders.tokenizing.prefix_tokenizer import without_surrogates
from mteb_longembed.errors import InputError
from mteb_longembed.names.parameters import check_power

logger = logging.getLogger(__name__)

_CARD = """\
# {name}

[{base}](https://huggingface.co/{base}), fitted on one corpus without training: {how}. Search that corpus with this
model; for another corpus, fit again: `mteb_longembed.adapt("{base}", documents)`.

The folder has sentence-transformers' own modules and needs no other package; version 5.4 opens it, and what
`mteb_longembed.export` writes of this model opens in older ones too. Readers that know only the transformer and its
pooling (AutoModel, llama.cpp, text-embeddings-inference) leave the fitted parts out and give the base's vectors.

```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("{name}")
```
"""


def adapt(
    base: str | Path | Model,
    documents: Iterable[str],
    *,
    weights: Literal["idf", "sif"] | None = "idf",
    whiten: float = 0.5,
    queries: Iterable[str] | None = None,
    max_tokens: int = MAX_TOKENS,
    seed: int = 0,
    device: str | None = None,
    show_progress_bar: bool = True,
) -> Model:
    """Fit a model on the documents that it will search. Nothing is trained, and no label is needed.

    First each token counts by how rare it is in the documents (`weights`; only where the model averages its tokens).
    Then all vectors pass through an affine map, from mean and covariance of the documents' windows (`whiten`). Without
    a strategy the result has sentence-transformers' own modules (Transformer, WordWeights, Pooling, Dense, Normalize),
    and a saved folder opens without this package.

    Source: Arora et al. 2017, ICLR (weights); Su et al. 2021, arXiv:2103.15316 (whitening), here with the counts and
        the windows of the corpus that is searched.

    Args:
        base: a name such as `e5-base+ntk`, an alias, a hub id, a folder, or a loaded model, which is not changed (but
            moved, if `device` is given).
        documents: texts of the corpus, in any iterable.
        weights: `idf` (`ln((N + 1) / (n + 0.5))` of documents), `sif` (`a / (a + share of the token)`), or None.
        whiten: the power of the map, from 0 (no map) to 1 (full whitening).
        queries: at least 10 example queries without judgements, such as those of a log. Queries are then centred on
            their own mean. Never give queries that a score is computed on.
        max_tokens: documents are drawn until they have as many tokens.
        seed: of this draw.
        device: where the model goes. Default: the best device of this machine.
        show_progress_bar: show how many documents are counted and encoded.

    Returns:
        A new model.

    Raises:
        InputError: if a setting breaks its rule, a document is no text, or the documents have no token.
        NumberError: if a vector is not finite.
        LongEmbedError: for the same reasons as `load`.
    """
    if weights is not None and weights not in RULES:
        raise InputError(f"weights must be one of {', '.join(RULES)}, or None, got {weights!r}.")
    if whiten:
        whiten = check_power(whiten)
    texts = _whole("documents", documents)
    asked = None
    if queries is not None:
        asked = _whole("queries", queries)
    model = loaded(base, device)
    known_as = str(model.model_card_data.model_name or model.model_card_data.base_model or base)
    if whiten and isinstance(model, MultiVectorEncoder):
        raise InputError(
            "whiten makes a map for one vector a text, got a model with several: give whiten=0, or write whiten= into "
            "the name of a search."
        )
    counts: TokenCounts | None = None
    if weights is not None and _averages(model):
        counts = count_tokens(model, texts, max_tokens=max_tokens, seed=seed, show=show_progress_bar)
        model = weighted(model, counts, weights)
    made = model
    if whiten:
        encoder = cast("SentenceTransformer", unscaled(model))
        windows = _windows(encoder, texts, max_tokens, seed)
        vectors = encoder.encode(
            windows, prompt=document_prompt(encoder), show_progress_bar=show_progress_bar
        )
        of_queries = None
        if asked is not None:
            of_queries = np.asarray(encoder.encode_query(asked))
        made = _mapped(encoder, fit(np.asarray(vectors), whiten, of_queries))
    if not isinstance(made, LongModelMixin):
        modules = list(made)
        for place, module in enumerate(modules):
            if isinstance(module, TokenWeights):
                modules[place] = module.stock()  # sentence-transformers' own class
        made = remade(made, modules)
    else:
        made.checkpoint = None
        made.store = None
    _describe(made, known_as, weights if counts else None, whiten, len(texts))
    return made


def _averages(model: Model) -> bool:
    """Whether the tokens of a model can have weights. If not, say so once."""
    pooling = pooling_of(model)
    if isinstance(pooling, Pooling) and pooling.pooling_mode != "mean":
        logger.warning("the model has %s pooling, so tokens get no weights.", pooling.pooling_mode)
        return False
    check_weighable(model)
    return True


def _windows(model: SentenceTransformer, texts: list[str], max_tokens: int, seed: int) -> list[str]:
    """Pieces of the documents that fill the model's window, drawn with a seed."""
    tokenizer = model.tokenizer
    prompt = document_prompt(model)
    size = 512
    if model.max_seq_length is not None:
        size = model.max_seq_length
    room = max(size - len(tokenizer(prompt)["input_ids"]), 1)
    windows: list[str] = []
    n_tokens = 0
    for i in np.random.default_rng(seed).permutation(len(texts)):
        text = texts[i]
        read = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, truncation=False)
        offsets = read["offset_mapping"]
        for start in range(0, len(offsets), room):
            last = min(start + room, len(offsets)) - 1
            windows.append(text[offsets[start][0] : offsets[last][1]])
        n_tokens += len(offsets)
        if n_tokens >= max_tokens or len(windows) >= MAX_VECTORS:
            break
    return windows


def _mapped(model: SentenceTransformer, whitening: Whitening) -> SentenceTransformer:
    """The model with the map as a Dense of sentence-transformers, and vectors of length 1.

    Where stock modules weight tokens, the map is applied to each token, which gives the same mean. The reason is that
    `WordWeights` counts a prompt in the sum of weights, although the pooling leaves its tokens out: a map of that
    shorter mean would turn it, and here the last module mends its length.
    """
    modules = list(model)
    is_stock = not isinstance(model, LongModelMixin)
    if is_stock and isinstance(modules[1], TokenWeights) and isinstance(modules[-1], Pooling):
        modules.insert(1, _map(whitening, "token_embeddings"))
    else:
        modules.append(_map(whitening, "sentence_embedding"))
    made = remade(model, [*modules, Normalize()])
    made.similarity_fn_name = "cosine"
    return cast("SentenceTransformer", made)


def _map(whitening: Whitening, feature: str) -> nn.Module:
    """A map of one of a text's features.

    The mean of example queries differs from that of documents, so it needs a Dense of its own: sentence-transformers'
    Router chooses by the kind of text.
    """
    of_documents = _dense(whitening.mean, whitening.matrix, feature)
    if whitening.query_mean is None:
        return of_documents
    from sentence_transformers.base.modules import Router

    of_queries = _dense(whitening.query_mean, whitening.matrix, feature)
    return Router.for_query_document(query_modules=[of_queries], document_modules=[of_documents])


def _dense(mean: np.ndarray, matrix: np.ndarray, feature: str) -> Dense:
    """`x -> (x - mean) matrix`."""
    width = len(matrix)
    module = Dense(width, width, bias=True, activation_function=nn.Identity(), module_input_name=feature)
    module.linear.load_state_dict(
        {"weight": torch.from_numpy(matrix.T.copy()), "bias": torch.from_numpy(-mean @ matrix)}
    )
    module.requires_grad_(False)
    return module


def _whole(what: str, texts: Iterable[str]) -> list[str]:
    """Texts as a list, without half characters. A dictionary is refused: are its keys meant, or its values?"""
    if isinstance(texts, Mapping):
        raise InputError(f"{what} must be texts in a list or another iterable, got a dict: use its values().")
    return [without_surrogates(text) for text in listed(what, texts)]


def listed(what: str, texts: Iterable[str]) -> list[str]:
    """Texts of any iterable as a list.

    Raises:
        InputError: if it is one text, no iterable, or holds something else than texts.
    """
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise InputError(
            f"{what} must be texts in a list or another iterable, got a {type(texts).__name__}: use a list."
        )
    found = list(texts)
    for place, text in enumerate(found):
        if not isinstance(text, str):
            raise InputError(
                f"{what} must be texts, got a {type(text).__name__} at place {place}: give a text."
            )
    return found


def loaded(base: str | Path | Model, device: str | None) -> Model:
    """The model: of sentence-transformers' own classes, unless its name asks for a strategy."""
    if isinstance(base, (SentenceTransformer, MultiVectorEncoder)):
        return base if device is None else base.to(device)
    if not isinstance(base, (str, Path)):
        raise InputError(
            f"adapt takes a name, a folder or a SentenceTransformer, got a {type(base).__name__}."
        )
    spec = ModelSpec.parse(str(base))
    checkpoint = open_checkpoint(spec)
    is_plain = ModelSpec(spec.base, revision=spec.revision) == spec and checkpoint.base.carried is None
    if is_plain:
        return cast("Model", load_base(checkpoint.base, None, device))
    return load(base, device=device)


def _describe(model: Model, base: str, rule: str | None, power: float, n_documents: int) -> None:
    """Say in the model's name and on its card what was fitted."""
    card = model.model_card_data
    short = base.replace("\\", "/").rstrip("/").rpartition("/")[2]
    parts = []
    if rule is not None:
        parts.append(f"tokens count by their rarity ({rule})")
    if power:
        parts.append(f"vectors are whitened (power {power:g})")
    how = f"{' and '.join(parts) or 'nothing was fitted'}, by {n_documents:,} documents"
    card.model_name = f"local/{short}-adapted"
    card.base_model = base
    card.add_tags([ADAPTED])
    if not isinstance(model, LongModelMixin):
        # what sentence-transformers writes instead of a card of its own
        cast("Any", model)._model_card_text = _CARD.format(name=card.model_name, base=base, how=how)
