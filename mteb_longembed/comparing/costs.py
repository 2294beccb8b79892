"""The cost of a candidate: tokens per second, vectors and bytes per document, and the share of the text it reads."""

import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np
from numpy.typing import ArrayLike
from transformers import PreTrainedTokenizerBase

from mteb_longembed.encoders.batching import TOKENS, TOKENS_ELSEWHERE
from mteb_longembed.encoders.spans import vector_tokens
from mteb_longembed.encoders.tokens import CHARS_PER_TOKEN, cutter_of
from mteb_longembed.encoders.weights import document_prompt
from mteb_longembed.evaluation.split import Split
from mteb_longembed.retrieval.heads import LongModel
from mteb_longembed.retrieval.passages import CutText
from mteb_longembed.sentences import WORDS_PER_TOKEN, count_words
from mteb_longembed.word_borders import n_words, word_borders

#: Candidates are measured one after the other, so that other work on the machine may slow one of them: a speed must be
#: so many times as high to count as higher.
CLEARLY = 1.2
#: The share of the text that windows read by default.
COVERING = 0.95
#: Of a word that is read on its own, with what a tokenizer puts around it.
_TOKENS_OF_A_WORD = 4
#: Documents that are counted together.
_AT_ONCE = 64
#: So many characters of documents, drawn with a seed, say how long documents are.
_SAMPLED = 20_000_000


@dataclass(frozen=True)
class Cost:
    """The cost of a candidate, counted with its own tokenizer over all documents.

    Args:
        tokens: tokens of documents that are read, special tokens and prompts included.
        times_run: how many tokens go through the model, for each token of the documents. Each window has special tokens
            and the prompt of its own, and the last one moves back to be full; None if that is not known.
        share_read: the share of the documents' tokens that is read, from 0 to 1. Unknown tokens are not read.
        share_unknown: the share of the documents' tokens for which the tokenizer has only its unknown token.
        vectors: mean number of vectors of a document, None if that is not known.
        median_len, longest: lengths of documents in tokens, special tokens and prompts included.
        tokens_per_second: tokens of documents that are encoded in a second; None if nothing is encoded here.
        speed_spread: how far the rounds in which that was measured lay apart, as a share of it.
        bytes: mean bytes of a document's vectors, as they are stored.
        device: where the speeds were measured. Only speeds of one device are compared.
        share_encoded: the share of the documents that these queries had encoded, where words choose them; else None.
    """

    tokens: int = 0
    times_run: float | None = None
    share_read: float = 1.0
    share_unknown: float = 0.0
    vectors: float | None = None
    median_len: float | None = None
    longest: int = 0
    tokens_per_second: float | None = None
    speed_spread: float = 0.0
    bytes: float | None = None
    device: str = ""
    share_encoded: float | None = None


def sample(splits: Sequence[Split], device_type: str) -> list[str]:
    """The documents with which speeds are measured: drawn with a seed, about as many as a device runs at a time.

    On a CPU that is one batch, often one long document. A document is never cut, because strategies differ most at full
    length.
    """
    limit = CHARS_PER_TOKEN * TOKENS.get(device_type, TOKENS_ELSEWHERE)
    return _drawn_texts(splits, limit)


def _drawn_texts(splits: Sequence[Split], n_characters: float) -> list[str]:
    """Different documents with text, in a random order, until they have so many characters."""
    texts: dict[str, None] = {}
    left = n_characters
    numbers = [(split, number) for split in splits for number in range(len(split.corpus))]
    for split, number in random.Random(0).sample(numbers, len(numbers)):
        text = split.documents.texts[number]
        if text and text not in texts:
            texts[text] = None
            left -= len(text)
        if left <= 0:
            break
    return list(texts)


@dataclass(frozen=True)
class Lengths:
    """How long documents are.

    Args:
        drawn: lengths of drawn documents in tokens.
        scale: how many times as much text all documents have.
    """

    drawn: np.ndarray
    scale: float

    @property
    def longest(self) -> int:
        """The length of the longest one, in tokens."""
        return int(self.drawn.max())

    def read(self, target_len: int | None) -> int:
        """About how many tokens of all documents are read, if so many of each are; None: all."""
        return int(self.scale * self.drawn.clip(max=target_len or self.longest).sum())

    def covering(self) -> int:
        """The smallest power of two, in tokens, at which nearly all tokens of the documents are read.

        >>> Lengths(np.array([100, 300, 5000]), 1.0).covering()
        8192
        """
        length = 1
        while np.minimum(self.drawn, length).sum() < COVERING * self.drawn.sum():
            length *= 2
        return length


def document_lengths(splits: Sequence[Split], tokenizer: PreTrainedTokenizerBase | None) -> Lengths:
    """The lengths of documents by a tokenizer, without special tokens; without one by their words."""
    texts = _drawn_texts(splits, _SAMPLED)
    lengths = list(map(count_words, texts))
    if tokenizer is not None:
        options = {"add_special_tokens": False, "truncation": False, "verbose": False}
        lengths = [len(tokenizer(text, **options)["input_ids"]) for text in texts]
    n_all = sum(map(len, _texts(splits)))
    return Lengths(np.array(lengths or [0]), max(n_all / max(sum(map(len, texts)), 1), 1.0))


def tokens_of_words(splits: Sequence[Split]) -> int:
    """About how many tokens a model reads that encodes each word of all documents once, on its own."""
    words: set[str] = set()
    for text in _drawn_texts(splits, _SAMPLED):
        lowered = text.lower()
        words.update(lowered[start:end] for start, end in zip(*word_borders(lowered), strict=True))
    return _TOKENS_OF_A_WORD * len(words)


def chunk_texts(texts: Sequence[str], split_text: CutText) -> list[str]:
    """The texts of all chunks."""
    chunks = []
    for text in texts:
        chunks += [text[start:end] for start, end in split_text(text)]
    return chunks


def share_of_words(splits: Sequence[Split], target_len: int | None) -> float:
    """The share of the words of all documents that BM25 on their first tokens reads; all without a target."""
    if target_len is None:
        return 1.0
    counts = np.array(list(map(n_words, _texts(splits))), int)
    n_read = np.minimum(counts, int(target_len * WORDS_PER_TOKEN)).sum()
    return float(n_read / max(counts.sum(), 1))


def count(
    model: LongModel,
    splits: Sequence[Split],
    target_len: int | None = None,
    split_text: CutText | None = None,
) -> Cost:
    """Count tokens and vectors of all documents, or of their chunks. What is tokenised here is not tokenised again.

    Args:
        model: one of ours.
        splits: whose documents.
        target_len: how many tokens of a document the candidate reads, None for all; used if there are no token ids.
        split_text: a chunker of one's own.
    """
    cutter = cutter_of(model.trunk.tokenizer)
    if cutter is None or model.trunk.token_ids(["a"]) is None:
        return count_words_of(splits, target_len)
    tokenizer = model.trunk.tokenizer
    prompt = document_prompt(model)
    n_prompt = len(cutter.contents([prompt], sys.maxsize)[0])
    # every text gets these tokens too
    n_added = n_prompt + len(cutter.prefix_ids) + len(cutter.suffix_ids)
    unknown = getattr(tokenizer, "unk_token_id", None)
    lengths: list[int] = []
    n_tokens = 0
    n_run = 0
    n_known_read = 0
    n_unknown = 0
    n_vectors = 0
    for texts in _in_parts(splits):
        chunks = [[text] for text in texts]
        if split_text is not None:
            chunks = [chunk_texts([text], split_text) for text in texts]
        rows = model.trunk.token_ids(list(chain.from_iterable(chunks)), prompt or None) or []
        n_tokens += sum(map(len, rows))
        n_run += sum(
            _n_run(model, len(ids), n_prompt + len(cutter.prefix_ids), len(cutter.suffix_ids)) for ids in rows
        )
        n_vectors += sum(map(len, vector_tokens(model, rows, prompt or None)))
        whole = cutter.contents([prompt + text for text in texts], sys.maxsize)
        unknown_of_texts = np.array([_n_equal(ids, unknown) for ids in whole])
        lengths_of_texts = np.array([len(ids) - n_prompt for ids in whole])
        known_of_rows = [max(len(ids) - n_added, 0) - _n_equal(ids, unknown) for ids in rows]
        text_of_rows = np.repeat(np.arange(len(texts)), [len(own) for own in chunks])
        read = np.bincount(text_of_rows, weights=known_of_rows, minlength=len(texts))
        # chunks may overlap
        n_known_read += int(np.minimum(read, lengths_of_texts - unknown_of_texts).sum())
        n_unknown += int(unknown_of_texts.sum())
        lengths += lengths_of_texts.tolist()
    n_all = sum(lengths)
    if n_all == 0:
        return Cost(n_tokens, vectors=n_vectors / len(lengths), median_len=n_added, longest=n_added)
    return Cost(
        tokens=n_tokens,
        times_run=n_run / n_all,
        share_read=max(n_known_read, 0) / n_all,
        share_unknown=n_unknown / n_all,
        vectors=n_vectors / len(lengths),
        median_len=float(np.median(lengths)) + n_added,
        longest=max(lengths) + n_added,
    )


def _n_run(model: LongModel, n: int, prefix: int, suffix: int) -> int:
    """The tokens that go through a model for a text of `n` tokens: all those of its windows, where it cuts it."""
    strategy = model.trunk.strategy
    if not model.trunk.cuts or not strategy.changes(n):
        return n
    return strategy.windows(n, prefix, suffix).numel()


def count_words_of(splits: Sequence[Split], target_len: int | None) -> Cost:
    """The cost of a model whose tokenizer is not known: 0.75 words are one token."""
    lengths = np.array(list(map(count_words, _texts(splits))))
    n_read = int(lengths.clip(max=target_len or lengths.max()).sum())
    share_read = 1.0
    if n_read:
        share_read = n_read / int(lengths.sum())
    return Cost(
        n_read, share_read=share_read, median_len=float(np.median(lengths)), longest=int(lengths.max())
    )


def _n_equal(ids: ArrayLike, wanted: int | None) -> int:
    """How many ids are this one; none if there is no such id."""
    if wanted is None:
        return 0
    return int(np.sum(np.asarray(ids) == wanted))


def _texts(splits: Sequence[Split]) -> Iterator[str]:
    """All documents, one after the other."""
    return chain.from_iterable(split.documents.texts for split in splits)


def _in_parts(splits: Sequence[Split]) -> Iterator[list[str]]:
    """All documents, some at a time."""
    texts = _texts(splits)
    for first in texts:
        yield [first, *islice(texts, _AT_ONCE - 1)]
