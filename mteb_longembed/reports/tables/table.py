"""A table: a DataFrame of cells with a caption. A cell has a text to show, and a number for programs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_UP, Decimal
from itertools import chain
from typing import Any

import pandas as pd

from mteb_longembed.reports.safe_files import printable, slug
from mteb_longembed.reports.scores.base_groups import shortened
from mteb_longembed.reports.scores.published_numbers import COLUMNS
from mteb_longembed.reports.scores.scoreboard import AVERAGE, Line, Score
from mteb_longembed.statistics.intervals import Interval, difference_of_intervals
from mteb_longembed.statistics.sensitivity import Sensitivity

MISSING = "-"
SCORE_HEADER = tuple(column.key for column in COLUMNS) + (AVERAGE,)
PARTIAL_NOTE = (
    "Partial results show (done/all): lengths in a column, columns in the average; they are not ranked."
)
INTERVAL_NOTE = (
    "[low,high]: 95 % interval over queries. Right answers of one split (Acc@1 of 50 queries at each length, or of the "
    "predictions): Wilson's interval. Means over splits and nDCG@10: bootstrap; nDCG@10 needs --predictions."
)


@dataclass(frozen=True)
class Cell:
    """One cell.

    Args:
        text: what is shown.
        number: for programs and for sorting; None for words and for partial results.
        is_best: whether it is the best whole result of its column.
        is_partial: whether it is a mean with missing parts.
        interval: both ends of the number's 95 % interval.
        marked: the characters of the text that a page marks.
    """

    text: str
    number: float | None = None
    is_best: bool = False
    is_partial: bool = False
    interval: tuple[float, float] | None = None
    marked: tuple[int, int] | None = None

    @property
    def bounds(self) -> str:
        """The interval in whole numbers, such as `[36,41]`; empty if there is none."""
        if self.interval is None:
            return ""
        low, high = (rounded(end, 0) for end in self.interval)
        return f"[{low},{high}]"

    def end(self, index: int) -> float | None:
        """The lower (0) or the upper (1) end of the interval."""
        if self.interval is None:
            return None
        return self.interval[index]

    @property
    def shown(self) -> str:
        """The text and the interval."""
        return f"{self.text} {self.bounds}".rstrip()

    @property
    def value(self) -> float | str | None:
        """What a program reads: the number, or else the text."""
        if self.text == MISSING:
            return None
        if self.number is None or math.isinf(self.number):
            return self.text
        return self.number


@dataclass(frozen=True)
class Table:
    """A DataFrame of cells with a caption. Its texts have no control characters, whatever a result file says.

    Args:
        key: a short name; it is made fit for file names, LaTeX labels and ids.
        caption: the title.
        cells: the columns in order, the rows in order.
        notes: sentences below the table.
        is_folded: whether a page shows the rows only if one asks for them.
        optional: columns that a narrow terminal may leave out, the first one first.
        classes: a word for each row that a page may colour by; empty for none.
    """

    key: str
    caption: str
    cells: pd.DataFrame
    notes: tuple[str, ...] = ()
    is_folded: bool = False
    optional: tuple[str, ...] = ()
    classes: tuple[str, ...] = field(default=())

    @classmethod
    def of(
        cls, key: str, caption: str, header: Sequence[str], rows: Iterable[Sequence[Cell]], **more: Any
    ) -> Table:
        """A table from rows, each with as many cells as the header."""
        safe_rows = []
        for row in rows:
            safe_rows.append([replace(cell, text=printable(cell.text)) for cell in row])
        cells = pd.DataFrame(safe_rows, columns=[printable(title) for title in header], dtype=object)
        notes = tuple(printable(note) for note in more.pop("notes", ()))
        return cls(slug(key), printable(caption), cells, notes, **more)

    @property
    def header(self) -> list[str]:
        """The titles of the columns."""
        return list(self.cells.columns)

    @property
    def rows(self) -> list[list[Cell]]:
        """The cells of each row."""
        return [list(row) for row in self.cells.itertuples(index=False)]

    def shown(self) -> pd.DataFrame:
        """The texts, with their intervals."""
        return self.cells.map(lambda cell: cell.shown)

    def data(self) -> pd.DataFrame:
        """The numbers, with columns for the ends of intervals; partial results are texts."""
        columns: dict[str, list[float | str | None]] = {}
        for title, cells in self.cells.items():
            columns[str(title)] = [cell.value for cell in cells]
            if any(cell.interval for cell in cells):
                for index, end in enumerate(("low", "high")):
                    columns[f"{title} {end}"] = [cell.end(index) for cell in cells]
        return pd.DataFrame(columns)

    def without_empty_columns(self) -> Table:
        """The same table without empty columns."""
        is_empty = self.cells.map(lambda cell: cell.text == MISSING).all()
        return self.without(list(is_empty.index[is_empty]))

    def without(self, titles: Sequence[str]) -> Table:
        """The same table without the columns with these titles."""
        return replace(self, cells=self.cells.drop(columns=list(titles)))

    def word_columns(self) -> list[bool]:
        """For each column, whether it has words: they are aligned left, and numbers, whole or partial, right."""
        has_words = self.cells.map(
            lambda cell: cell.number is None and not cell.is_partial and cell.text != MISSING
        )
        return [bool(column.any()) for _, column in has_words.items()]


def score_table(
    key: str,
    title: str,
    header: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    notes: Iterable[str] = (),
    best_from: int | None = None,
) -> Table:
    """A table with notes on partial results and intervals, if it has any; the best is marked from `best_from` on."""
    made = tuple(map(tuple, rows))
    if best_from is not None:
        made = mark_best(made, range(best_from, len(header)))
    cells = list(chain.from_iterable(made))
    shown_notes = list(notes)
    if any(cell.is_partial for cell in cells):
        shown_notes.append(PARTIAL_NOTE)
    if any(cell.interval for cell in cells):
        shown_notes.append(INTERVAL_NOTE)
    return Table.of(key, title, header, made, notes=shown_notes)


def rounded(value: float, digits: int = 1) -> Decimal:
    """A number of a table, a figure or a sentence, for a format such as `+.1f`; halves are rounded away from zero.

    The format of a float rounds halves to even digits. Means over eight lengths are often halves: 93.25, 93.75.
    """
    exact = Decimal(str(round(value, 6)))  # without the error of sums: 100 * 0.58 is 57.99999999999999
    if not exact.is_finite():
        return exact
    return exact.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP) + 0  # no -0.0


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


def difference_cell(cell: Cell, reference: Cell, mark: str = "") -> Cell:
    """The difference between two cells in points; a dash if one of them has no number.

    The interval is that of two independent scores, so it is never too narrow. A reference without an interval counts as
    a fixed number.
    """
    if cell.number is None or reference.number is None:
        return Cell(MISSING)
    difference = round(cell.number - reference.number, 6) + 0.0
    made = Cell(f"{rounded(difference):+f}{mark}", difference)
    if cell.interval is None:
        return made
    first = Interval(reference.number, *(reference.interval or (reference.number, reference.number)))
    ends = difference_of_intervals(first, Interval(cell.number, *cell.interval))
    return replace(made, interval=(ends.low, ends.high))


def score_cell(score: Score) -> Cell:
    """A cell with a score. A partial score shows how many parts are there, and has no number for sorting."""
    if score.complete:
        return interval_cell(score.complete)
    if score.n_done == 0:
        return Cell(MISSING, is_partial=True)
    done = f"({score.n_done}/{score.n_all})"
    if score.mean is not None:
        done = f"{rounded(score.mean.mean)} {done}"
    return Cell(done, is_partial=True)


def score_cells(line: Line) -> list[Cell]:
    """A line's six columns and their average."""
    return [score_cell(line.score(key)) for key in SCORE_HEADER]


def length_cells(line: Line, column: str, lengths: Sequence[int]) -> list[Cell]:
    """A line's accuracies at these context lengths, with their intervals."""
    values = line.by_length[column]
    intervals = line.length_intervals[column]
    return [number_cell(values.get(length), interval=intervals.get(length)) for length in lengths]


def size_cell(n_parameters: int | None) -> Cell:
    """A number of parameters in a short form."""
    if not n_parameters:  # BM25 has none
        return text_cell(None)
    short = f"{n_parameters / 1e6:.0f}M"
    if n_parameters >= 999_500_000:
        short = f"{n_parameters / 1e9:.1f}B"
    return Cell(short, float(n_parameters))


def mark_best(rows: Sequence[Sequence[Cell]], columns: Iterable[int]) -> tuple[tuple[Cell, ...], ...]:
    """Mark the one highest number of each column with at least two; a tie has none, and 0.0 is never the best."""
    marked = [list(row) for row in rows]
    for column in columns:
        # We compare the printed numbers: 60.81 and 60.79 are both printed as 60.8, so they are equal.
        shown = {}
        for index, row in enumerate(rows):
            number = row[column].number
            if number is not None:
                shown[index] = rounded(number)
        best = max(shown.values(), default=Decimal(0))
        first = [index for index, value in shown.items() if value == best]
        if len(shown) >= 2 and best != 0 and len(first) == 1:
            marked[first[0]][column] = replace(marked[first[0]][column], is_best=True)
    return tuple(map(tuple, marked))


_PLACES_NOTES = (
    "Answer in the first, middle and last third of the document, Acc@1 in percent, all lengths together. Sensitivity: "
    "1 - lowest / highest third, in percent, with its 95 % interval (arXiv:2505.13950); up to `noise` maybe chance.",
)


def sensitivity_table(sensitivities: Iterable[tuple[str, str, int, Sensitivity]]) -> Table:
    """One row for each model and task whose documents say the depth of their answers, with the number of queries."""
    rows = []
    for model, task, n_queries, sensitivity in sensitivities:
        cells = [number_cell(100 * third) for third in sensitivity.thirds]
        index = number_cell(100 * sensitivity.index.mean, interval=sensitivity.index.scaled(100))
        names = text_cell(shortened(model)), text_cell(task), text_cell(n_queries)
        rows.append((*names, *cells, index, number_cell(100 * sensitivity.noise)))
    header = ("Model", "Task", "Queries", "First", "Middle", "Last", "Sensitivity", "Noise")
    return Table.of("places", "Place of the answer", header, rows, notes=_PLACES_NOTES)
