"""A table as data: each cell has a text to show and a number for sorting."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from mteb_longembed.reports.scores.columns import COLUMNS
from mteb_longembed.reports.scores.intervals import NOTE as INTERVAL_NOTE
from mteb_longembed.reports.scores.scoreboard import AVERAGE, Line, Score
from mteb_longembed.statistics.intervals import Interval, difference_of_intervals

MISSING = "-"
SCORE_HEADER = tuple(column.key for column in COLUMNS) + (AVERAGE,)


@dataclass(frozen=True)
class Cell:
    """One cell.

    Args:
        text: The text to show.
        number: The number for CSV files and for sorting; None for words and for partial results.
        is_best: Whether it is the best whole result of its column.
        is_partial: Whether it is a mean with missing parts.
        interval: The lower and the upper end of the number's 95 % interval.
    """

    text: str
    number: float | None = None
    is_best: bool = False
    is_partial: bool = False
    interval: tuple[float, float] | None = None

    @property
    def bounds(self) -> str:
        """The interval in whole numbers, such as `[36,41]`; empty if there is none."""
        return "" if self.interval is None else f"[{self.interval[0]:.0f},{self.interval[1]:.0f}]"

    @property
    def shown(self) -> str:
        """The text, and after it the interval."""
        return f"{self.text} {self.bounds}".rstrip()


@dataclass(frozen=True)
class Table:
    """A titled table.

    Args:
        key: A short name that is allowed in file names.
        title: The caption.
        header: One title for each column.
        rows: Rows of cells; each row has as many cells as the header.
        notes: Sentences below the table.
    """

    key: str
    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()

    def without_empty_columns(self) -> Table:
        """The same table without empty columns."""
        kept = [i for i in range(len(self.header)) if any(row[i].text != MISSING for row in self.rows)]
        return replace(
            self,
            header=tuple(self.header[i] for i in kept),
            rows=tuple(tuple(row[i] for i in kept) for row in self.rows),
        )

    def word_columns(self) -> list[bool]:
        """For each column, whether it has words."""
        return [self.is_words(i) for i in range(len(self.header))]

    def is_words(self, column: int) -> bool:
        """Whether a column has words, which are aligned left; numbers, whole or partial, are aligned right."""
        cells = [row[column] for row in self.rows]
        return any(cell.number is None and not cell.is_partial and cell.text != MISSING for cell in cells)


def text_cell(text: str | int | None) -> Cell:
    """A cell with words or a whole number."""
    if text is None:
        return Cell(MISSING)
    return Cell(f"{text:,}", float(text)) if isinstance(text, int) else Cell(text)


def number_cell(value: float | None, digits: int = 1, interval: Interval | None = None) -> Cell:
    """A cell with a number; a dash if there is none."""
    if value is None:
        return Cell(MISSING)
    ends = None if interval is None or not interval.is_known else (interval.low, interval.high)
    return Cell(f"{value:,.{digits}f}", float(value), interval=ends)


def difference_cell(value: float | None, reference: float | None, mark: str = "") -> Cell:
    """The difference between a value and a reference in points; a dash if one of them is missing."""
    if value is None or reference is None:
        return Cell(MISSING)
    # Adding zero turns a rounded -0.0 into 0.0.
    difference = round(value - reference, 6) + 0.0
    return Cell(f"{round(difference, 1) + 0.0:+.1f}{mark}", difference)


def difference_of_cells(cell: Cell, reference: Cell, mark: str = "") -> Cell:
    """As `difference_cell`, with an interval if the first cell has one.

    The interval is that of two independent scores, so it is never too narrow. A reference without an interval counts as
    a fixed number.
    """
    made = difference_cell(cell.number, reference.number, mark)
    if cell.number is None or reference.number is None or cell.interval is None:
        return made
    first = Interval(reference.number, *(reference.interval or (reference.number, reference.number)))
    found = difference_of_intervals(first, Interval(cell.number, *cell.interval))
    return replace(made, interval=(found.low, found.high))


def score_cell(score: Score) -> Cell:
    """A cell with a score. A partial score shows how many parts are there, and has no number for sorting."""
    if score.is_whole:
        return number_cell(score.value, interval=score.interval)
    if score.n_done == 0:
        return Cell(MISSING, is_partial=True)
    done = f"({score.n_done}/{score.n_all})"
    return Cell(done if score.value is None else f"{score.value:.1f} {done}", is_partial=True)


def score_cells(line: Line) -> list[Cell]:
    """A line's six columns and their average."""
    return [score_cell(line.scores[column.key]) for column in COLUMNS] + [score_cell(line.average)]


def mark_best(rows: Sequence[Sequence[Cell]], columns: Sequence[int]) -> tuple[tuple[Cell, ...], ...]:
    """Mark the highest number of each of these columns, if at least two rows have a number.

    If two numbers are equal, none is the best. A 0.0 is never the best.
    """
    marked = [list(row) for row in rows]
    for column in columns:
        numbers = [number for row in rows if (number := row[column].number) is not None]
        if len(numbers) < 2:
            continue
        # We compare the printed numbers: 60.81 and 60.79 are both printed as 60.8, so they are equal.
        shown = [f"{number:.1f}" for number in numbers]
        best = f"{max(numbers):.1f}"
        if best == "0.0" or shown.count(best) > 1:
            continue
        for row in marked:
            number = row[column].number
            if number is not None and f"{number:.1f}" == best:
                row[column] = replace(row[column], is_best=True)
    return tuple(tuple(row) for row in marked)


def length_cells(line: Line, column: str, lengths: Sequence[int]) -> list[Cell]:
    """A line's accuracies at these context lengths, with their intervals."""
    values, intervals = line.by_length[column], line.length_intervals[column]
    return [number_cell(values.get(length), interval=intervals.get(length)) for length in lengths]


def interval_notes(rows: Iterable[Sequence[Cell]]) -> tuple[str, ...]:
    """A note on the meaning of the brackets, if there are any."""
    return (INTERVAL_NOTE,) if any(cell.interval for row in rows for cell in row) else ()
