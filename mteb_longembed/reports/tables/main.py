"""The paper's main table: models by tasks, with the average of the six."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from mteb_longembed.reports.scores.bases import labels
from mteb_longembed.reports.scores.columns import LENGTHS, PUBLISHED
from mteb_longembed.reports.scores.scoreboard import Line
from mteb_longembed.reports.tables.table import (
    SCORE_HEADER,
    Cell,
    Table,
    interval_notes,
    length_cells,
    mark_best,
    score_cells,
    text_cell,
)

PARTIAL_NOTE = (
    "Partial results show (done/all): lengths in a column, columns in the average; they are not ranked."
)
_METRIC_NOTE = "Passkey, Needle: Acc@1, mean over the eight lengths; others: nDCG@10; percent."


def data_key(data: str) -> str:
    """A kind of data, written so that it can be part of a file name."""
    return "-".join("".join(c if c.isalnum() else " " for c in data).split())


def data_words(data: str, what: str = "Passkey and Needle") -> str:
    """A kind of data in words.

    >>> data_words("generated, other revision: Passkey g2", "data")
    'generated data, other revision: Passkey g2'
    """
    kind, comma, other = data.partition(",")
    return f"{kind} {what}{comma}{other}"


def data_title(data: str) -> str:
    """A kind of data in words, with the names of its tasks."""
    return f"{data_words(data)} ({'LEMB*' if data == PUBLISHED else 'LongEmbed*'})"


def main_tables(lines: Iterable[Line]) -> list[Table]:
    """One table for each kind of data, with the best average first and partial lines last."""
    tables = []
    for data, group in groupby(lines, key=lambda line: line.data):
        members = sorted(group, key=_rank)
        names = labels(line.model for line in members)
        rows = [
            [
                text_cell(names[line.model]),
                size_cell(line.model.n_parameters),
                text_cell(line.model.name.target_len or line.model.max_tokens),
                *score_cells(line),
            ]
            for line in members
        ]
        tables.append(
            Table(
                f"main-{data_key(data)}",
                f"LongEmbed, {data_title(data)}",
                ("Model", "Size", "Tokens", *SCORE_HEADER),
                mark_best(rows, range(3, len(SCORE_HEADER) + 3)),
                (*_notes(members), *interval_notes(rows)),
            )
        )
    return tables


def length_tables(lines: Iterable[Line]) -> list[Table]:
    """Acc@1 by context length, one table for each of Passkey and Needle and each kind of data."""
    tables = []
    for data, group in groupby(lines, key=lambda line: line.data):
        members = sorted(group, key=_rank)
        names = labels(line.model for line in members)
        for column in members[0].by_length:
            done = [line for line in members if line.by_length[column]]
            # Lengths beyond those of the paper are shown, but they are not part of a mean.
            lengths = sorted({length for line in done for length in line.by_length[column]} | set(LENGTHS))
            rows = [[text_cell(names[line.model])] + length_cells(line, column, lengths) for line in done]
            if rows:
                title = f"{column} by context length in tokens, Acc@1 in percent, {data_words(data, 'data')}"
                header = ("Model", *(str(length) for length in lengths))
                marked = mark_best(rows, range(1, len(header)))
                tables.append(
                    Table(f"{column.lower()}-{data_key(data)}", title, header, marked, interval_notes(rows))
                )
    return tables


def _rank(line: Line) -> tuple[float, int, str]:
    n_done = sum(score.n_done for score in line.scores.values())
    return (-(line.average.value or 0), -n_done, line.model.name.full)


def size_cell(n_parameters: int | None) -> Cell:
    """A number of parameters in a short form."""
    if not n_parameters:  # BM25 has none
        return text_cell(None)
    short = f"{n_parameters / 1e9:.1f}B" if n_parameters >= 999_500_000 else f"{n_parameters / 1e6:.0f}M"
    return Cell(short, float(n_parameters))


def _notes(lines: Sequence[Line]) -> tuple[str, ...]:
    return (_METRIC_NOTE,) if all(line.average.is_whole for line in lines) else (_METRIC_NOTE, PARTIAL_NOTE)
