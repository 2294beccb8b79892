"""The cost of a candidate: tokens per second, vectors and bytes per document, and the share of the text it reads."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

import numpy as np
from datasets import Dataset
from numpy.typing import ArrayLike
from torch import Tensor

from mteb_longembed.encoders.engine.batching import CHARS_PER_TOKEN, TOKENS, TOKENS_ELSEWHERE
from mteb_longembed.encoders.model import LongMultiVectorEncoder, LongSentenceTransformer
from mteb_longembed.encoders.spans import document_prompt
from mteb_longembed.encoders.tokenizing.prefix_tokenizer import prefix_tokenizer_of
from mteb_longembed.evaluation.scoring import texts_of
from mteb_longembed.retrieval.passages import CutText, tokens_of_vectors

from .token_count import count_tokens, tokenizer_of

#: How often the speed of every candidate is measured. Below that, two speeds never count as different.
ROUNDS = 3
#: Candidates are measured one after the other, so that other work on the machine may slow one of them: a speed must be
#: so many times as high to count as higher.
CLEARLY = 1.2
#: The text before the clock starts, in trained lengths.
_WARM = 1.25
#: The share of the text that a target length should read.
ENOUGH = 0.9

#: (task, split).
Key = tuple[str, str]
#: Our models: with one vector a document, or several.
LongModel = LongSentenceTransformer | LongMultiVectorEncoder


@dataclass(frozen=True)
class Cost:
    """The cost of a candidate, counted with its own tokenizer over all documents.

    Args:
        tokens: tokens that are read in each split, special tokens and prompts included; by `TASK/SPLIT`.
        share_read: the share of the documents' tokens that is read, from 0 to 1. Unknown tokens are not read.
        share_unknown: the share of the documents' tokens for which the tokenizer has only its unknown token.
        vectors: mean number of vectors of a document, None if that is not known.
        enough_len: the smallest power of two, in tokens, at which `ENOUGH` of the text is read.
        length_quartiles: lengths of documents in tokens: the quarter, the half, three quarters.
        longest: the longest document in tokens, special tokens and prompt included.
        speeds: tokens of documents encoded in a second, once for each round; empty if nothing is encoded here.
        bytes: mean bytes of a document's vectors, as they are stored.
        device: where the speeds were measured. Only speeds of one device are compared.
    """

    tokens: Mapping[str, int] = field(default_factory=dict)
    share_read: float = 1.0
    share_unknown: float = 0.0
    vectors: float | None = None
    enough_len: int = 1
    length_quartiles: Sequence[float] = ()
    longest: int = 0
    speeds: Sequence[float] = ()
    bytes: float | None = None
    device: str = ""

    @property
    def tokens_per_second(self) -> float | None:
        """The median speed, None if there is none."""
        return median(self.speeds) if self.speeds else None

    def tokens_of(self, splits: Iterable[Key]) -> int:
        """The tokens that are read in these splits."""
        return sum(self.tokens.get("/".join(key), 0) for key in splits)

    def is_faster_than(self, other: Cost) -> bool:
        """Whether the slowest round is faster than the other one's fastest round, by `CLEARLY`."""
        if self.device != other.device or min(len(self.speeds), len(other.speeds)) < ROUNDS:
            return False
        return min(self.speeds) > CLEARLY * max(other.speeds)


def measure(model: LongModel, texts: Sequence[str]) -> tuple[list[float], int]:
    """The speed of each round in tokens a second, and the bytes of one vector."""
    speeds = []
    n_bytes = 0
    for number in range(ROUNDS):
        rate, n_bytes = speed(model, texts, is_new=number == 0)
        speeds.append(rate)
    return speeds, n_bytes


def sample(corpora: Sequence[Dataset], device_type: str) -> list[str]:
    """The documents with which speeds are measured: drawn with a seed, about as many as a device runs at a time.

    On a CPU that is one batch, often one long document: each further batch would cost 3 passes of every candidate, and
    the rounds show how much a speed varies. A document is never cut, because strategies differ most at full length.

    Args:
        corpora: all documents.
        device_type: such as `cpu` or `cuda`.
    """
    rows = []
    for corpus in corpora:
        rows += [(corpus, index) for index in range(len(corpus))]
    limit = CHARS_PER_TOKEN * TOKENS.get(device_type, TOKENS_ELSEWHERE)
    texts: dict[str, None] = {}
    n_characters = 0
    for corpus, index in random.Random(0).sample(rows, len(rows)):
        ((text,),) = texts_of(corpus.select([index]))
        if text and text not in texts:
            texts[text] = None
            n_characters += len(text)
        if n_characters >= limit:
            break
    return list(texts)


def speed(model: LongModel, texts: Sequence[str], *, is_new: bool = True) -> tuple[float, int]:
    """Tokens of documents that a model encodes in a second, and the bytes of one vector.

    The time to tokenise is not in it: a comparison tokenises each text once for all candidates of a base.

    Args:
        model: its store is not used here.
        texts: documents, or their chunks.
        is_new: whether it has not run yet. The first call of a new model makes things that are made only once, so a
            text that is a little longer than the trained length runs before the clock starts.
    """
    rows = model.first.token_ids(texts, document_prompt(model))
    if rows is None:
        n_tokens = sum(len(text.split()) for text in texts)
    else:
        n_tokens = sum(map(len, rows))
    store = model.store
    model.store = None  # embeddings that are stored already would say nothing about speed
    try:
        if is_new:
            n_chars = int(_WARM * CHARS_PER_TOKEN * model.first.strategy.trained_len)
            model.encode_document([max(texts, key=len)[:n_chars]], show_progress_bar=False)
        started = time.perf_counter()
        embeddings = model.encode_document(texts, show_progress_bar=False)
        seconds = time.perf_counter() - started
    finally:
        model.store = store
    first = embeddings[0]
    if isinstance(first, Tensor):
        first = first.cpu()
    return n_tokens / seconds, np.atleast_2d(first)[0].nbytes


def chunk_texts(texts: Sequence[str], split_text: CutText) -> list[str]:
    """The texts of all chunks."""
    chunks = []
    for text in texts:
        chunks += [text[start:end] for start, end in split_text(text)]
    return chunks


def count(
    model: LongModel | None,
    corpora: Mapping[Key, Sequence[Dataset]],
    target_len: int | None,
    split_text: CutText | None = None,
) -> Cost:
    """Count tokens and vectors of all documents, or of their chunks. What is tokenised here is not tokenised again.

    Args:
        model: None for a model that is not ours: then 0.75 words are one token.
        corpora: the documents of each split.
        target_len: how many tokens of a document the candidate reads, None for all; used if there are no token ids.
        split_text: a chunker of one's own.
    """
    counter = _TokenCounter(model, split_text, target_len)
    tokens = {}
    for key, parts in corpora.items():
        before = counter.n_tokens
        for part in parts:
            for texts in texts_of(part):
                counter.add(texts)
        tokens["/".join(key)] = counter.n_tokens - before
    return counter.cost(tokens)


class _TokenCounter:
    """Counts what a model reads of documents, batch by batch."""

    def __init__(self, model: LongModel | None, split_text: CutText | None, target_len: int | None) -> None:
        self.model: LongModel | None = None
        self.split_text = split_text
        self.target_len = target_len
        self.tokenizer = tokenizer_of(model)
        self.n_prompt = 0
        #: tokens that every text gets: the prompt, and special tokens.
        self.n_added = 0
        self.lengths: list[int] = []
        self.n_tokens = self.n_read = self.n_vectors = self.n_unknown = 0
        cutter = None
        if model is not None and model.first.token_ids(["a"]) is not None:
            cutter = prefix_tokenizer_of(model.first.tokenizer)
        if model is not None and cutter is not None:
            self.model = model
            self.cutter = cutter
            self.prompt = document_prompt(model)
            self.n_prompt = len(self.cutter.contents([self.prompt], sys.maxsize)[0])
            self.n_added = self.n_prompt + len(self.cutter.prefix_ids) + len(self.cutter.suffix_ids)

    def add(self, texts: Sequence[str]) -> None:
        """Count some documents."""
        if self.model is None:
            lengths = [count_tokens(text, self.tokenizer) for text in texts]
            read = [min(length, self.target_len or length) for length in lengths]
            n_unknown = 0
        else:
            ids = self.cutter.contents([self.prompt + text for text in texts], sys.maxsize)
            lengths = [len(row) - self.n_prompt for row in ids]
            unknown = getattr(self.model.first.tokenizer, "unk_token_id", None)
            self.n_unknown += sum(_n_equal(row, unknown) for row in ids)
            chunks = texts if self.split_text is None else chunk_texts(texts, self.split_text)
            rows = self.model.first.token_ids(chunks, self.prompt or None) or []
            read = [len(row) for row in rows]
            n_unknown = sum(_n_equal(row, unknown) for row in rows)
            for vectors in tokens_of_vectors(self.model, rows, self.prompt or None):
                self.n_vectors += len(vectors)
        self.lengths += lengths
        n_content = sum(max(n - self.n_added, 0) for n in read)
        self.n_read += max(min(n_content, sum(lengths)) - n_unknown, 0)
        self.n_tokens += sum(read)

    def cost(self, tokens: Mapping[str, int]) -> Cost:
        """The cost of all documents that were counted."""
        total = sum(self.lengths)
        enough_len = 1
        while sum(min(n, max(enough_len - self.n_added, 0)) for n in self.lengths) < ENOUGH * total:
            enough_len *= 2
        vectors = None
        if self.model is not None:
            vectors = self.n_vectors / len(self.lengths)
        share_read = 1.0
        share_unknown = 0.0
        if total:
            share_read = self.n_read / total
            share_unknown = self.n_unknown / total
        return Cost(
            tokens=tokens,
            share_read=share_read,
            share_unknown=share_unknown,
            vectors=vectors,
            enough_len=enough_len,
            length_quartiles=[float(length) for length in np.quantile(self.lengths, [0.25, 0.5, 0.75])],
            longest=max(self.lengths) + self.n_added,
        )


def _n_equal(ids: ArrayLike, wanted: int | None) -> int:
    """How many ids are this one; none if there is no such id."""
    if wanted is None:
        return 0
    return int(np.sum(np.asarray(ids) == wanted))
