"""A table: a DataFrame of cells with a caption. A cell has a text to show, and a number to sort by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pandas as pd

from mteb_longembed.files import printable, slug
from mteb_longembed.statistics.intervals import Interval

MISSING = "-"


@dataclass(frozen=True)
class Cell:
    """One cell: what is shown, and what a page sorts by."""

    text: str
    number: float | None = None  # None for words
    interval: tuple[float, float] | None = None  # both ends of the number's 95 % interval
    marked: tuple[int, int] | None = None  # the characters of the text that a page marks

    @property
    def bounds(self) -> str:
        """The interval in whole numbers, such as `[36,41]`; empty if there is none."""
        if self.interval is None:
            return ""
        low, high = (rounded(end, 0) for end in self.interval)
        return f"[{low},{high}]"


@dataclass(frozen=True)
class Table:
    """A DataFrame of cells with a caption. Its texts have no control characters, whatever a query says."""

    key: str  # a short name, fit for the ids of a page
    caption: str
    cells: pd.DataFrame
    notes: tuple[str, ...] = ()  # sentences below the table
    is_folded: bool = False  # a page shows the rows only if one asks for them
    optional: tuple[str, ...] = ()  # columns that a narrow terminal may leave out, the first one first
    classes: tuple[str, ...] = ()  # a word for each row that a page may colour by; empty for none

    @classmethod
    def of(
        cls,
        key: str,
        caption: str,
        header: Sequence[str],
        rows: Iterable[Sequence[Cell]],
        notes: Iterable[str] = (),
        **more: Any,
    ) -> Table:
        """A table from rows, each with as many cells as the header."""
        cells = pd.DataFrame(list(rows), columns=list(map(printable, header)), dtype=object)
        cells = cells.map(lambda cell: replace(cell, text=printable(cell.text)))
        return cls(slug(key), printable(caption), cells, tuple(map(printable, notes)), **more)

    @property
    def header(self) -> list[str]:
        """The titles of the columns."""
        return list(self.cells.columns)

    @property
    def rows(self) -> list[list[Cell]]:
        """The cells of each row."""
        return [list(row) for row in self.cells.itertuples(index=False)]

    def without_empty_columns(self) -> Table:
        """The same table without empty columns."""
        is_empty = self.cells.map(lambda cell: cell.text == MISSING).all()
        return self.without(list(is_empty.index[is_empty]))

    def without(self, titles: Sequence[str]) -> Table:
        """The same table without the columns with these titles."""
        return replace(self, cells=self.cells.drop(columns=list(titles)))

    def word_columns(self) -> list[bool]:
        """For each column, whether it has words: they are aligned left, and numbers right."""
        is_words = self.cells.map(lambda cell: cell.number is None and cell.text != MISSING)
        return [bool(column.any()) for _, column in is_words.items()]


def rounded(value: float, digits: int = 1) -> Decimal:
    """A number of a table, a figure or a sentence, for a format such as `+.1f`; halves are rounded away from zero.

    The format of a float rounds halves to even digits. Means over eight lengths are often halves: 93.25, 93.75.
    """
    exact = Decimal(str(round(value, 6)))  # without the error of sums: 100 * 0.58 is 57.99999999999999
    if not exact.is_finite():
        return exact
    return exact.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP) + 0  # no -0.0


def percent(share: float) -> str:
    """A share from 0 to 1 for a table or a sentence; what is not all or nothing is not written so.

    >>> percent(0.714), percent(0.9997), percent(0.0004), percent(1.0)
    ('71 %', '>99 %', '<1 %', '100 %')
    """
    if 0 < share < 0.005:
        return "<1 %"
    if 0.995 <= share < 1:
        return ">99 %"
    return f"{100 * share:.0f} %"


def text_cell(text: str | int | None) -> Cell:
    """A cell with words or a whole number."""
    if text is None:
        return Cell(MISSING)
    if isinstance(text, int):
        return Cell(f"{text:,}", float(text))
    return Cell(text)


def number_cell(value: float | None, digits: int = 1, interval: Interval | None = None) -> Cell:
    """A cell with a number; a dash if there is none."""
    if value is None:
        return Cell(MISSING)
    ends = None
    if interval is not None and interval.is_known:
        ends = (interval.low, interval.high)
    return Cell(f"{rounded(value, digits):,f}", float(value), interval=ends)


def interval_cell(score: Interval | None) -> Cell:
    """A cell with a number and its interval; a dash if there is none."""
    if score is None:
        return Cell(MISSING)
    return number_cell(score.mean, interval=score)
