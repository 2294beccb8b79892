"""The paper's and the authors' numbers beside ours, with the difference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mteb_longembed.names.grammar import split_model_name
from mteb_longembed.reports.public.published import PublishedLine, published_lines, source, trained_len
from mteb_longembed.reports.scores.bases import labels
from mteb_longembed.reports.scores.columns import COLUMNS, LENGTHS, PUBLISHED
from mteb_longembed.reports.scores.intervals import share_interval
from mteb_longembed.reports.scores.scoreboard import Line
from mteb_longembed.reports.tables.main import PARTIAL_NOTE, data_key, data_title, data_words
from mteb_longembed.reports.tables.table import (
    SCORE_HEADER,
    Cell,
    Table,
    difference_of_cells,
    interval_notes,
    length_cells,
    number_cell,
    score_cells,
    text_cell,
)

# The mark of a difference between scores on different documents and queries.
OTHER_DATA = "†"
_OTHER_DATA_NOTE = (
    f"{OTHER_DATA} not the same data: ours is generated, theirs is the published set; "
    "so the difference also contains the change of data."
)

_DIFFERENCE_NOTE = (
    "The interval of a difference is that of two independent scores; "
    "a published mean without one counts as a fixed number."
)


def comparison_tables(lines: Iterable[Line]) -> list[Table]:
    """Our numbers, theirs and the difference: a table for each kind of data, and for each task by length."""
    by_data: dict[str, list[tuple[Line, list[PublishedLine]]]] = {}
    for line in lines:
        if theirs := matches(line):
            by_data.setdefault(line.data, []).append((line, theirs))
    tables = []
    for data, pairs in by_data.items():
        tables.append(_scores_table(data, pairs))
        for column in COLUMNS:
            if column.is_by_length and (table := _lengths_table(column.key, data, pairs)):
                tables.append(table)
    return tables


def matches(line: Line) -> list[PublishedLine]:
    """The published rows of the same base, strategy and target length; other parameters may differ."""
    ours = line.model.name
    found = []
    for theirs in published_lines():
        name = split_model_name(theirs.model)
        if name.base != ours.base or name.strategy != ours.strategy:
            continue
        if ours.is_base:
            # The paper names its base models without a length.
            if ours.target_len in (None, trained_len(ours.base)):
                found.append(theirs)
        elif name.target_len == ours.target_len:
            found.append(theirs)
    return found


def _scores_table(data: str, pairs: Sequence[tuple[Line, list[PublishedLine]]]) -> Table:
    names = labels(line.model for line, _ in pairs)
    rows: list[tuple[Cell, ...]] = []
    for line, published in pairs:
        ours = score_cells(line)
        rows.append((text_cell(names[line.model]), text_cell("ours"), *ours))
        for theirs in published:
            values = [theirs.scores[column.key] for column in COLUMNS] + [theirs.average]
            marks = [_mark(data, column.is_by_length) for column in COLUMNS] + [_mark(data, True)]
            cells = [number_cell(value) for value in values]
            rows.append((text_cell(names[line.model]), text_cell(theirs.origin), *cells))
            differences = [
                difference_of_cells(cell, reference, mark)
                for cell, reference, mark in zip(ours, cells, marks, strict=True)
            ]
            rows.append((text_cell(names[line.model]), text_cell(f"ours - {theirs.origin}"), *differences))
    notes = [f"{origin}: {source(origin)}." for origin in sorted({t.origin for _, ts in pairs for t in ts})]
    if data != PUBLISHED:
        notes.insert(0, _OTHER_DATA_NOTE)
    if any(cell.is_partial for row in rows for cell in row):
        notes.insert(0, PARTIAL_NOTE)
    notes += [*interval_notes(rows), _DIFFERENCE_NOTE]
    return Table(
        f"compared-{data_key(data)}",
        f"Ours beside the published numbers, {data_title(data)}",
        ("Model", "Numbers", *SCORE_HEADER),
        tuple(rows),
        tuple(note.replace("..", ".") for note in notes),
    )


def _lengths_table(column: str, data: str, pairs: Sequence[tuple[Line, list[PublishedLine]]]) -> Table | None:
    names = labels(line.model for line, _ in pairs)
    mark = _mark(data, True)
    rows: list[tuple[Cell, ...]] = []
    for line, published in pairs:
        ours = line.by_length[column]
        for theirs in published:
            values = theirs.by_length.get(column)
            if not ours or not values:
                continue
            own, other = length_cells(line, column, LENGTHS), _authors(values)
            rows.append((text_cell(names[line.model]), text_cell("ours"), *own))
            rows.append((text_cell(names[line.model]), text_cell(theirs.origin), *other))
            differences = [difference_of_cells(*pair, mark) for pair in zip(own, other, strict=True)]
            rows.append((text_cell(names[line.model]), text_cell(f"ours - {theirs.origin}"), *differences))
    if not rows:
        return None
    what = data_words(data, "data")
    title = f"{column} by context length in tokens, ours beside the authors', Acc@1 in percent, {what}"
    header = ("Model", "Numbers", *(str(length) for length in LENGTHS))
    notes = (
        *(() if data == PUBLISHED else (_OTHER_DATA_NOTE,)),
        *interval_notes(rows),
        _DIFFERENCE_NOTE,
    )
    return Table(f"compared-{column.lower()}-{data_key(data)}", title, header, tuple(rows), notes)


def _authors(values: Mapping[int, float]) -> list[Cell]:
    cells = [(values[length], share_interval(values[length])) for length in LENGTHS]
    return [number_cell(value, interval=interval) for value, interval in cells]


def _mark(data: str, is_by_length: bool) -> str:
    return OTHER_DATA if is_by_length and data != PUBLISHED else ""
