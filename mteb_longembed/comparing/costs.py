"""The cost of a candidate: operations, speed, vectors and bytes per document, and the share of the text it reads."""

import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedTokenizerBase

from mteb_longembed.encoders.model import LongModel
from mteb_longembed.encoders.spans import run_lengths, vector_tokens
from mteb_longembed.encoders.tokens import cutter_of, document_prompt
from mteb_longembed.evaluation.split import Split
from mteb_longembed.sentences import CHARS_PER_TOKEN, WORDS_PER_TOKEN, count_words
from mteb_longembed.values import Vectors
from mteb_longembed.word_borders import distinct_words, n_words

#: The share of the text that windows read by default.
COVERING = 0.95
#: Tokens of a term that is encoded on its own, special tokens included.
TOKENS_PER_TERM = 4
#: Documents that are tokenized together.
_AT_ONCE = 64
#: Characters of the sampled documents, from which lengths are estimated.
_SAMPLED = 20_000_000
#: Length of the warm-up text, in trained lengths.
_WARM = 1.25


@dataclass(frozen=True)
class Cost:
    """The cost of a candidate, counted with its own tokenizer over all documents.

    Args:
        tokens: tokens that are read of documents, special tokens and prompts included, and of terms for expansion.
        share_read: the share of the documents' tokens that is read, from 0 to 1. Unknown tokens are not read.
        share_unknown: the share of the documents' tokens for which the tokenizer has only its unknown token.
        vectors: mean number of vectors of a document, None if not known.
        median_len, longest: lengths of documents in tokens, special tokens and prompts included.
        flops: mean floating-point operations to encode a document, see `operations`; None if not known.
        tokens_per_second: document tokens encoded per second, on a machine that may be busy; None if nothing is
            encoded here.
        speed_spread: the range of the measured rounds, as a share of the fastest.
        bytes: mean bytes of a document's vectors, as stored.
        text_bytes: mean bytes of a document's text, None if not known.
        device: where the speed was measured.
    """

    tokens: int = 0
    share_read: float = 1.0
    share_unknown: float = 0.0
    vectors: float | None = None
    median_len: float | None = None
    longest: int = 0
    flops: float | None = None
    tokens_per_second: float | None = None
    speed_spread: float = 0.0
    bytes: float | None = None
    text_bytes: float | None = None
    device: str = ""


def sampled_texts(splits: Sequence[Split], n_characters: float) -> list[str]:
    """Sample distinct non-empty documents, with a fixed seed, until they reach a number of characters."""
    texts: dict[str, None] = {}
    left = n_characters
    indices = [(split, index) for split in splits for index in range(len(split.corpus))]
    for split, index in random.Random(0).sample(indices, len(indices)):
        text = split.documents.texts[index]
        if text and text not in texts:
            texts[text] = None
            left -= len(text)
        if left <= 0:
            break
    return list(texts)


@dataclass(frozen=True)
class Lengths:
    """Lengths of documents.

    Args:
        sampled: lengths of the sampled documents in tokens.
        scale: the ratio of all text to the sampled text.
    """

    sampled: np.ndarray
    scale: float

    @property
    def longest(self) -> int:
        """The length of the longest one, in tokens."""
        return int(self.sampled.max())

    def read(self, target_len: int | None) -> int:
        """Estimate the tokens read of all documents, at most `target_len` of each; None reads all."""
        return int(self.scale * self.sampled.clip(max=target_len or self.longest).sum())

    def covering(self) -> int:
        """Return the smallest power of two, in tokens, at which nearly all tokens of the documents are read.

        >>> Lengths(np.array([100, 300, 5000]), 1.0).covering()
        8192
        """
        length = 1
        while np.minimum(self.sampled, length).sum() < COVERING * self.sampled.sum():
            length *= 2
        return length


def document_lengths(splits: Sequence[Split], tokenizer: PreTrainedTokenizerBase | None) -> Lengths:
    """Return the lengths of documents by a tokenizer, without special tokens; without one, estimated from words."""
    texts = sampled_texts(splits, _SAMPLED)
    if tokenizer is None:
        lengths = list(map(count_words, texts))
    else:
        options = {"add_special_tokens": False, "truncation": False, "verbose": False}
        lengths = [len(tokenizer(text, **options)["input_ids"]) for text in texts]
    n_all = sum(map(len, _texts(splits)))
    return Lengths(np.array(lengths or [0]), max(n_all / max(sum(map(len, texts)), 1), 1.0))


def terms_of(splits: Sequence[Split]) -> set[str]:
    """Return the distinct terms of documents, of a sample of many; a model encodes each once, on its own."""
    return distinct_words(sampled_texts(splits, _SAMPLED))


def operations(model: LongModel, lengths: np.ndarray) -> float:
    """Return the floating-point operations of the backbone for sequences of these lengths, in tokens.

    Two for each weight and token, and `4 n^2 d` in the attention of each layer of width `d`. They follow from the
    configuration and do not depend on the machine. Embedding tables and modules after the backbone are left out, and
    sliding layers count as full ones.
    """
    backbone = model.backbone.model
    tables = {id(part.weight) for part in backbone.modules() if isinstance(part, nn.Embedding)}
    n_weights = sum(weight.numel() for weight in backbone.parameters() if id(weight) not in tables)
    config = backbone.config
    n = lengths.astype(float)
    attention = 4.0 * config.num_hidden_layers * config.hidden_size
    return float((2.0 * n_weights * n + attention * n**2).sum())


def share_read_by_bm25(splits: Sequence[Split], target_len: int | None) -> float:
    """Return the share of all words in the first `target_len` tokens of documents; 1 without a target."""
    if target_len is None:
        return 1.0
    counts = np.array(list(map(n_words, _texts(splits))), int)
    n_read = np.minimum(counts, int(target_len * WORDS_PER_TOKEN)).sum()
    return float(n_read / max(counts.sum(), 1))


def count(
    model: LongModel, splits: Sequence[Split], target_len: int | None = None, vectors: Vectors | None = None
) -> Cost:
    """Count tokens and vectors of all documents. Nothing is encoded.

    Args:
        model: an extended model.
        splits: the splits of the documents.
        target_len: how many tokens of a document the candidate reads, None for all; used if there are no token ids.
        vectors: `vectors` of the candidate's pooling. None: the model's own.
    """
    tokenizer = model.backbone.tokenizer
    cutter = cutter_of(tokenizer)
    if cutter is None or model.backbone.token_ids(["a"]) is None:
        return estimate(splits, target_len)
    prompt = document_prompt(model)
    n_prompt = len(cutter.contents([prompt], sys.maxsize)[0])
    # every text gets these tokens too
    n_added = n_prompt + len(cutter.prefix_ids) + len(cutter.suffix_ids)
    unknown = model.backbone.text_tokenizer.unk_token_id
    if unknown is None:
        unknown = -1
    lengths: list[int] = []
    n_tokens = 0
    n_known = 0
    n_unknown = 0
    n_vectors = 0
    n_operations = 0.0
    waiting = _texts(splits)
    for first in waiting:
        texts = [first, *islice(waiting, _AT_ONCE - 1)]
        rows = model.backbone.token_ids(texts, prompt or None) or []
        n_tokens += sum(map(len, rows))
        n_vectors += sum(map(len, vector_tokens(model, rows, prompt or None, vectors)))
        n_operations += operations(model, run_lengths(model, rows, prompt or None))
        whole = cutter.contents([prompt + text for text in texts], sys.maxsize)
        for row, ids in zip(rows, whole, strict=True):
            unknown_here = int(np.count_nonzero(np.equal(ids, unknown)))
            length = len(ids) - n_prompt
            read = max(len(row) - n_added, 0) - int(np.count_nonzero(np.equal(row, unknown)))
            n_known += min(read, length - unknown_here)
            n_unknown += unknown_here
            lengths.append(length)
    n_all = sum(lengths)
    share_read = 1.0
    if n_all:
        share_read = max(n_known, 0) / n_all
    return Cost(
        tokens=n_tokens,
        share_read=share_read,
        share_unknown=n_unknown / max(n_all, 1),
        vectors=n_vectors / len(lengths),
        flops=n_operations / len(lengths),
        median_len=float(np.median(lengths)) + n_added,
        longest=max(lengths) + n_added,
    )


def estimate(splits: Sequence[Split], target_len: int | None) -> Cost:
    """Estimate the cost of a model whose tokenizer is not known, at 0.75 words per token."""
    lengths = np.array(list(map(count_words, _texts(splits))))
    n_read = int(lengths.clip(max=target_len or lengths.max()).sum())
    share_read = n_read / max(int(lengths.sum()), 1)
    return Cost(n_read, share_read, median_len=float(np.median(lengths)), longest=int(lengths.max()))


def measure(model: LongModel, texts: Sequence[str]) -> tuple[float, int]:
    """Measure the document tokens that a model encodes per second on this machine, and the bytes of one vector.

    The first call of a model pays one-off costs, so a text slightly longer than the trained length is encoded before
    the clock starts. The model's embedding cache is not used. Words are counted if there are no token ids.
    """
    rows = model.backbone.token_ids(texts, document_prompt(model))
    n_tokens = sum(map(len, [text.split() for text in texts] if rows is None else rows))
    n_chars = int(_WARM * CHARS_PER_TOKEN * model.backbone.strategy.trained_len)
    cache = model.embedding_cache
    model.embedding_cache = None  # cached embeddings would say nothing about speed
    try:
        model.encode_document([max(texts, key=len)[:n_chars]], show_progress_bar=False)
        started = time.perf_counter()
        embeddings = model.encode_document(list(texts), show_progress_bar=False)
        speed = n_tokens / (time.perf_counter() - started)
    finally:
        model.embedding_cache = cache
    if isinstance(embeddings, torch.Tensor) and embeddings.is_sparse:
        # a weight and the id of its term
        return speed, 8 * embeddings._nnz() // len(texts)
    return speed, torch.atleast_2d(torch.as_tensor(embeddings[0]))[0].nbytes


def _texts(splits: Sequence[Split]) -> Iterator[str]:
    """Iterate over the texts of all documents."""
    return chain.from_iterable(split.documents.texts for split in splits)
