"""A table as data: each cell has a text to show and a number for sorting."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal
from itertools import compress, groupby
from statistics import fmean

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
    """One cell: a text to show, and a number for CSV files and for sorting."""

    text: str
    number: float | None = None  # None for words and for partial results
    is_best: bool = False  # the best whole result of its column
    is_partial: bool = False  # a mean with missing parts
    interval: tuple[float, float] | None = None  # both ends of the number's 95 % interval
    marked: tuple[int, int] | None = None  # the characters of the text that a page marks

    @property
    def bounds(self) -> str:
        """The interval in whole numbers, such as `[36,41]`; empty if there is none."""
        return "" if self.interval is None else "[{},{}]".format(*(rounded(end, 0) for end in self.interval))


@dataclass(frozen=True)
class Table:
    """A titled table. Its texts have no control characters, whatever a result file says."""

    key: str  # a short name; it is made fit for file names, LaTeX labels and ids
    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]  # each row has as many cells as the header
    notes: tuple[str, ...] = ()  # sentences below the table
    is_folded: bool = False  # whether a page shows the rows only if one asks for them
    optional: tuple[str, ...] = ()  # titles of columns that a narrow terminal may leave out, in this order

    def __post_init__(self) -> None:
        for name, value in (
            ("key", slug(self.key)),
            ("title", printable(self.title)),
            ("header", tuple(map(printable, self.header))),
            ("notes", tuple(map(printable, self.notes))),
            ("rows", tuple(tuple(replace(c, text=printable(c.text)) for c in row) for row in self.rows)),
        ):
            object.__setattr__(self, name, value)

    def without_empty_columns(self) -> Table:
        """The same table without empty columns."""
        columns = zip(self.header, *self.rows, strict=True)
        return self.without([title for title, *cells in columns if all(c.text == MISSING for c in cells)])

    def without(self, titles: Sequence[str]) -> Table:
        """The same table without the columns with these titles."""
        kept = [title not in titles for title in self.header]
        rows = tuple(tuple(compress(row, kept)) for row in self.rows)
        return replace(self, header=tuple(compress(self.header, kept)), rows=rows)

    def word_columns(self) -> list[bool]:
        """For each column, whether it has words: they are aligned left, and numbers, whole or partial, right."""
        return [
            any(cell.number is None and not cell.is_partial and cell.text != MISSING for cell in column)
            for column in (zip(*self.rows, strict=True) if self.rows else [()] * len(self.header))
        ]


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
    cells = [cell for row in made for cell in row]
    if best_from is not None:
        made = mark_best(made, range(best_from, len(header)))
    partial = (PARTIAL_NOTE,) if any(cell.is_partial for cell in cells) else ()
    known = (INTERVAL_NOTE,) if any(cell.interval for cell in cells) else ()
    return Table(key, title, tuple(header), made, (*notes, *partial, *known))


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
    return Cell(f"{text:,}", float(text)) if isinstance(text, int) else Cell(text)


def number_cell(value: float | None, digits: int = 1, interval: Interval | None = None) -> Cell:
    """A cell with a number; a dash if there is none."""
    if value is None:
        return Cell(MISSING)
    ends = None if interval is None or not interval.is_known else (interval.low, interval.high)
    return Cell(f"{rounded(value, digits):,f}", float(value), interval=ends)


def interval_cell(score: Interval | None) -> Cell:
    """A cell with a number and its interval; a dash if there is none."""
    return number_cell(None if score is None else score.mean, interval=score)


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
    return Cell(done if score.mean is None else f"{rounded(score.mean.mean)} {done}", is_partial=True)


def score_cells(line: Line) -> list[Cell]:
    """A line's six columns and their average."""
    return [score_cell(line.score(key)) for key in SCORE_HEADER]


def length_cells(line: Line, column: str, lengths: Sequence[int]) -> list[Cell]:
    """A line's accuracies at these context lengths, with their intervals."""
    values, intervals = line.by_length[column], line.length_intervals[column]
    return [number_cell(values.get(length), interval=intervals.get(length)) for length in lengths]


def size_cell(n_parameters: int | None) -> Cell:
    """A number of parameters in a short form."""
    if not n_parameters:  # BM25 has none
        return text_cell(None)
    short = f"{n_parameters / 1e9:.1f}B" if n_parameters >= 999_500_000 else f"{n_parameters / 1e6:.0f}M"
    return Cell(short, float(n_parameters))


def mark_best(rows: Sequence[Sequence[Cell]], columns: Iterable[int]) -> tuple[tuple[Cell, ...], ...]:
    """Mark the one highest number of each column with at least two; a tie has none, and 0.0 is never the best."""
    marked = [list(row) for row in rows]
    for column in columns:
        # We compare the printed numbers: 60.81 and 60.79 are both printed as 60.8, so they are equal.
        texts = [None if (n := row[column].number) is None else str(rounded(n)) for row in rows]
        known = [text for text in texts if text is not None]
        best = max(known, key=float, default="0.0")
        if len(known) >= 2 and best != "0.0" and texts.count(best) == 1:
            row = marked[texts.index(best)]
            row[column] = replace(row[column], is_best=True)
    return tuple(map(tuple, marked))


def run_table(scores: Sequence[tuple[str, str, str, float]]) -> Table:
    """The table after a run, in percent, from model, task, split and main score between 0 and 1.

    Scores of one model on one task are neighbours; then comes their mean.
    """
    rows: list[tuple[Cell, ...]] = []
    for names, group in groupby(scores, key=lambda scored: scored[:2]):
        lines = [(split, score) for _, _, split, score in group]
        if len(lines) > 1:
            lines.append(("mean", fmean(score for _, score in lines)))
        rows += [(*map(text_cell, (*names, split)), number_cell(100 * score)) for split, score in lines]
    return Table("run", "Main scores, in percent", ("model", "task", "split", "score"), tuple(rows))


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
    return Table("places", "Place of the answer", header, tuple(rows), _PLACES_NOTES)
