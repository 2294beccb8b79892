"""A table as data: cells with a text to show and a number to sort by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mteb_longembed.reports.columns import COLUMNS
from mteb_longembed.reports.scoreboard import AVERAGE, Line, Score

MISSING = "-"
SCORE_HEADER = tuple(column.key for column in COLUMNS) + (AVERAGE,)


@dataclass(frozen=True)
class Cell:
    """One cell.

    Args:
        text: What is shown.
        number: What CSV files carry and columns are sorted by; None for words and for partial results.
        is_best: The best whole result of its column.
        is_partial: A mean of which parts are missing.
    """

    text: str
    number: float | None = None
    is_best: bool = False
    is_partial: bool = False


@dataclass(frozen=True)
class Table:
    """A titled table.

    Args:
        key: A short name, legal in file names.
        title: The caption.
        header: One title per column.
        rows: Cells, as many per row as the header has.
        notes: Sentences below the table.
    """

    key: str
    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()

    def is_words(self, column: int) -> bool:
        """Whether a column holds words, which stand to the left; numbers, whole or partial, to the right."""
        cells = [row[column] for row in self.rows]
        return any(cell.number is None and not cell.is_partial and cell.text != MISSING for cell in cells)


def text_cell(text: str | int | None) -> Cell:
    """A cell of words or of a whole number."""
    if text is None:
        return Cell(MISSING)
    return Cell(f"{text:,}", float(text)) if isinstance(text, int) else Cell(text)


def number_cell(value: float | None, digits: int = 1) -> Cell:
    """A cell with a score in percent, or with a dash."""
    return Cell(MISSING) if value is None else Cell(f"{value:,.{digits}f}", float(value))


def difference_cell(value: float | None, reference: float | None, mark: str = "") -> Cell:
    """How many points a value lies above or below a reference; a dash unless both are there."""
    if value is None or reference is None:
        return Cell(MISSING)
    # Adding zero turns a rounded -0.0 into 0.0.
    difference = round(value - reference, 6) + 0.0
    return Cell(f"{round(difference, 1) + 0.0:+.1f}{mark}", difference)


def score_cell(score: Score) -> Cell:
    """A score; a partial one shows how many of its parts are there and carries no number."""
    if score.is_whole:
        return number_cell(score.value)
    if score.n_done == 0:
        return Cell(MISSING, is_partial=True)
    done = f"({score.n_done}/{score.n_all})"
    return Cell(done if score.value is None else f"{score.value:.1f} {done}", is_partial=True)


def score_cells(line: Line) -> list[Cell]:
    """A line's six columns and their average."""
    return [score_cell(line.scores[column.key]) for column in COLUMNS] + [score_cell(line.average)]


def mark_best(rows: Sequence[Sequence[Cell]], columns: Sequence[int]) -> tuple[tuple[Cell, ...], ...]:
    """Mark the highest number of each of these columns, ties included, where two rows or more have one."""
    marked = [list(row) for row in rows]
    for column in columns:
        numbers = [number for row in rows if (number := row[column].number) is not None]
        if len(numbers) < 2:
            continue
        # Compared as shown: 60.81 and 60.79 are both printed as 60.8 and both are the best.
        best = f"{max(numbers):.1f}"
        for row in marked:
            number = row[column].number
            if number is not None and f"{number:.1f}" == best:
                row[column] = replace(row[column], is_best=True)
    return tuple(tuple(row) for row in marked)
