"""How much of the documents a model reads, and how much truncation to its longest input leaves out."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from tqdm.auto import tqdm  # type: ignore[import-untyped]

from mteb_longembed.encoders.engine.batching import CHARS_PER_TOKEN
from mteb_longembed.encoders.engine.tokenizing import Ids, cutter_of

logger = logging.getLogger(__name__)
#: How many texts, and how many characters of each, are used to measure the tokens for each character.
_SAMPLE_TEXTS, _SAMPLE_CHARS = 32, 20_000


@dataclass
class Reading:
    """How many tokens of documents were read, of how many (estimated if cut). `halved` ones lost more than half."""

    documents: int = 0
    read: int = 0
    whole: int = 0
    halved: int = 0

    def add(self, other: Reading) -> None:
        """Add the counts of other documents."""
        self.documents += other.documents
        self.read += other.read
        self.whole += other.whole
        self.halved += other.halved

    def __str__(self) -> str:
        """One line for people.

        >>> str(Reading(documents=2, read=1024, whole=26800))
        'read 512 of about 13,400 tokens a document on average, 4 %'
        >>> str(Reading(documents=2, read=600, whole=600))
        'read all 300 tokens a document on average'
        """
        read, whole = (round(n / max(self.documents, 1)) for n in (self.read, self.whole))
        if self.read >= self.whole:
            return f"read all {read:,} tokens a document on average"
        share = 100 * self.read / self.whole
        return f"read {read:,} of about {whole:,} tokens a document on average, {share:.{0 if share >= 1 else 1}f} %"


def reading_of(tokenizer: Any, texts: Sequence[str], ids: Sequence[Ids], max_len: int) -> Reading:
    """How much of the texts was read."""
    read = sum(map(len, ids))
    cut = [(text, len(row)) for text, row in zip(texts, ids, strict=True) if len(row) >= max_len]
    # a tokenizer without a cutter is too slow to measure it
    rate, cutter = 1 / CHARS_PER_TOKEN, cutter_of(tokenizer)
    if cut and cutter is not None:
        sample = [text[:_SAMPLE_CHARS] for text, _ in cut[:_SAMPLE_TEXTS]]
        found = cutter.contents(sample, max(map(len, sample)))
        rate = sum(map(len, found)) / max(sum(map(len, sample)), 1)
    lost = [(max(round(len(text) * rate) - n, 0), n) for text, n in cut]
    return Reading(len(texts), read, read + sum(n for n, _ in lost), sum(more > n for more, n in lost))


def warn_once(model: Any, reading: Reading, max_len: int) -> None:
    """Log a warning, once for each model, if more than half of a text is cut away."""
    if not reading.halved or model.__dict__.get("_told_of_cut"):
        return
    model.__dict__["_told_of_cut"] = True
    logger.warning(
        "%s texts lose more than half of their length, because the model reads only the first %s tokens; an extended "
        "model reads more (this warning appears once; logger %s).",
        f"{reading.halved:,} of {reading.documents:,}",
        f"{max_len:,}",
        __name__,
    )


#: The bar of a run with many calls. Calls inside it show no bar of their own but advance this one.
_WHOLE: ContextVar[Any] = ContextVar("_WHOLE", default=None)
#: Seconds between two lines of progress where there is no terminal.
_LINE_EVERY = 30.0


@contextmanager
def one_bar(total: int | None, label: str, *, show: bool = True) -> Iterator[None]:
    """Show one bar for all calls of `encode` inside, of any models. Without a terminal it is a line now and then."""
    look: dict[str, Any] = {"desc": label, "unit": " tokens", "unit_scale": True}
    if not sys.stderr.isatty():
        left = "" if total is None else " of {total_fmt}, {remaining} left"
        line = "{desc}: {n_fmt} tokens" + left + ", {elapsed} so far\n"
        look |= {"mininterval": _LINE_EVERY, "miniters": 1, "delay": _LINE_EVERY}
        look |= {"bar_format": line, "leave": False}
    with tqdm(total=total, disable=not show, **look) as bar, advanced(bar):
        yield


@contextmanager
def advanced(bar: Any) -> Iterator[None]:
    """Calls of `encode` inside show no bar of their own but advance this one, by their tokens."""
    token = _WHOLE.set(bar)
    try:
        yield
    finally:
        _WHOLE.reset(token)


class TokenBar(tqdm):  # type: ignore[misc]  # tqdm has no types
    """A bar of tokens, which also shows without a terminal. Inside `one_bar` it advances that bar instead."""

    def __init__(self, total: int, *, show: bool) -> None:
        self.total: float
        self.whole = _WHOLE.get()
        hidden = not show or self.whole is not None
        super().__init__(total=total, desc="Encoding", unit=" tokens", unit_scale=True, disable=hidden)

    def correct(self, difference: int) -> None:
        """Add to the expected total the difference between the real and the estimated number of tokens."""
        if not self.disable:
            self.total = max(self.total + difference, self.n)
            self.refresh()

    def update(self, n: float = 1) -> None:
        super().update(n)
        if self.whole is not None:
            self.whole.update(n)
