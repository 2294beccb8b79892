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
from torch import Tensor

from mteb_longembed.encoders.engine.batching import CHARS_PER_TOKEN, TOKENS, TOKENS_ELSEWHERE
from mteb_longembed.encoders.model import LongMultiVectorEncoder, LongSentenceTransformer
from mteb_longembed.encoders.spans import document_prompt
from mteb_longembed.encoders.tokenizing import prefix_tokenizer_of
from mteb_longembed.retrieval.passages import CutText, pools_vectors, tokens_of_vectors
from mteb_longembed.tasks.cutting import counter_of
from mteb_longembed.tasks.scoring import texts_of

#: How often the speed of every candidate is measured. Below that, two speeds never count as different.
ROUNDS = 3
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
    """The cost of a candidate, counted with its own tokenizer over all documents."""

    #: tokens that are read in each split, special tokens and prompts included; by `TASK/SPLIT`.
    tokens: Mapping[str, int] = field(default_factory=dict)
    share_read: float = 1.0  # the share of the documents' tokens that is read, from 0 to 1
    vectors: float | None = None  # mean number of vectors of a document, None if that is not known
    enough_len: int = 1  # the smallest power of two, in tokens, at which `ENOUGH` of the text is read
    #: lengths of documents in tokens: the quarter, the half, three quarters.
    length_quartiles: Sequence[float] = ()
    #: tokens of documents encoded in a second, once for each round; empty if nothing is encoded here.
    speeds: Sequence[float] = ()
    bytes: float | None = None  # mean bytes of a document's vectors, as they are stored
    measured: str = ""  # when the speeds were measured. Only speeds of one measurement are compared

    @property
    def tokens_per_second(self) -> float | None:
        """The median speed, None if there is none."""
        return median(self.speeds) if self.speeds else None

    def tokens_of(self, splits: Iterable[Key]) -> int:
        """The tokens that are read in these splits."""
        return sum(self.tokens.get("/".join(key), 0) for key in splits)

    def is_faster_than(self, other: Cost) -> bool:
        """Whether the slowest round is faster than the other one's fastest round."""
        both = (self, other)
        together = self.measured == other.measured and all(len(cost.speeds) >= ROUNDS for cost in both)
        return together and min(self.speeds) > max(other.speeds)


def sample(corpora: Sequence[Dataset], device_type: str) -> list[str]:
    """The documents with which speeds are measured: drawn with a seed, about as many as a device runs at a time.

    On a CPU that is one batch, often one long document: each further batch would cost 3 passes of every candidate, and
    the rounds show how much a speed varies. A document is never cut, because strategies differ most at full length.
    """
    rows = [(corpus, index) for corpus in corpora for index in range(len(corpus))]
    limit = CHARS_PER_TOKEN * TOKENS.get(device_type, TOKENS_ELSEWHERE)
    texts: dict[str, None] = {}
    for corpus, index in random.Random(0).sample(rows, len(rows)):
        ((text,),) = texts_of(corpus.select([index]))
        if text:
            texts[text] = None
        if sum(map(len, texts)) >= limit:
            break
    return list(texts)


def speed(model: LongModel, texts: Sequence[str], *, is_new: bool = True) -> tuple[float, int]:
    """Tokens of documents that a model encodes in a second, and the bytes of one vector.

    The time to tokenise is not in it: a comparison tokenises each text once for all candidates of a base.
    The first call of a new model makes things that are made only once, so a text that is a little longer than the
    trained length runs before the clock starts.
    """
    rows = model.first.token_ids(texts, document_prompt(model))
    n_tokens = sum(map(len, [text.split() for text in texts] if rows is None else rows))
    store, model.store = model.store, None  # embeddings that are stored already would say nothing about speed
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
    vector = np.atleast_2d(first.cpu() if isinstance(first, Tensor) else first)[0]
    return n_tokens / seconds, vector.nbytes


def chunk_texts(texts: Sequence[str], cut: CutText) -> list[str]:
    """The texts of all chunks."""
    return [text[start:end] for text in texts for start, end in cut(text)]


def count(
    model: LongModel | None,
    corpora: Mapping[Key, Sequence[Dataset]],
    target_len: int | None,
    cut: CutText | None = None,
) -> Cost:
    """Count tokens and vectors of all documents, or of their chunks. What is tokenised here is not tokenised again."""
    has_ids = model is not None and model.first.token_ids(["a"]) is not None
    cutter = prefix_tokenizer_of(model.first.tokenizer) if model is not None and has_ids else None
    words = counter_of(model, "")
    prompt = document_prompt(model) if model is not None and cutter else ""
    n_prompt = len(cutter.contents([prompt], sys.maxsize)[0]) if cutter else 0
    n_added = n_prompt + (len(cutter.prefix_ids) + len(cutter.suffix_ids) if cutter else 0)
    tokens = {"/".join(key): 0 for key in corpora}
    lengths: list[int] = []  # content tokens of each document
    n_read = n_vectors = 0
    for key, parts in corpora.items():
        for texts in (texts for part in parts for texts in texts_of(part)):
            if cutter is None or model is None:
                contents = [words.ends(text, [])[0] for text in texts]
                read = [min(n, target_len or n) for n in contents]
            else:
                prompted = [prompt + text for text in texts]
                contents = [len(ids) - n_prompt for ids in cutter.contents(prompted, sys.maxsize)]
                rows = model.first.token_ids(chunk_texts(texts, cut) if cut else texts, prompt or None) or []
                read = [len(row) for row in rows]
                n_vectors += sum(map(len, tokens_of_vectors(model, rows, prompt or None)))
            lengths += contents
            n_read += min(sum(max(n - n_added, 0) for n in read), sum(contents))
            tokens["/".join(key)] += sum(read)
    total = sum(lengths)
    enough_len = 1
    while sum(min(n, max(enough_len - n_added, 0)) for n in lengths) < ENOUGH * total:
        enough_len *= 2
    vectors = n_vectors / len(lengths) if cutter and not pools_vectors(model) else None
    quartiles = [float(length) for length in np.quantile(lengths, [0.25, 0.5, 0.75])]
    return Cost(tokens, n_read / total if total else 1.0, vectors, enough_len, quartiles)
