"""The paper's tables: models by tasks, strategies on a base, accuracy by length, published numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from statistics import fmean

from mteb_longembed.names.grammar import split_model_name
from mteb_longembed.reports.scores.base_groups import BaseGroup, group_by_base, labels
from mteb_longembed.reports.scores.published_numbers import (
    COLUMNS,
    LENGTHS,
    PUBLISHED,
    PublishedLine,
    column_of,
    published_lines,
    source,
    task_statistics,
    trained_len,
)
from mteb_longembed.reports.scores.results import Model, Result
from mteb_longembed.reports.scores.scoreboard import Line, Score, interval_of, share_interval
from mteb_longembed.reports.tables.table import (
    SCORE_HEADER,
    Cell,
    Table,
    difference_cell,
    length_cells,
    number_cell,
    rounded,
    score_cell,
    score_cells,
    score_table,
    size_cell,
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
_METRIC_NOTE = "Passkey, Needle: Acc@1, mean over the eight lengths; others: nDCG@10; percent."


def data_key(data: str) -> str:
    """A kind of data, written so that it can be part of a file name."""
    return "-".join(re.findall(r"[^\W_]+", data))


def data_words(data: str, what: str = "Passkey and Needle") -> str:
    """A kind of data in words.

    >>> data_words("generated, other revision: Passkey g2", "data")
    'generated data, other revision: Passkey g2'
    """
    kind, comma, other = data.partition(",")
    return f"{kind} {what}{comma}{other}"


def _data_title(data: str) -> str:
    names = "LongEmbed*"
    if data == PUBLISHED:
        names = "LEMB*"
    return f"{data_words(data)} ({names})"


def _by_data(lines: Iterable[Line]) -> Iterable[tuple[str, list[Line]]]:
    """The lines of each kind of data, the best average first and partial lines last."""
    for data, group in groupby(lines, key=lambda line: line.data):
        yield data, sorted(group, key=_rank)


def _rank(line: Line) -> tuple[float, int, str]:
    """Sorts the best average first, then by how much was measured, then by name."""
    n_done = sum(score.n_done for score in line.scores.values())
    average = 0.0
    if line.average.mean:
        average = line.average.mean.mean
    return -average, -n_done, line.model.name.full


def main_tables(lines: Iterable[Line]) -> list[Table]:
    """One table of models by tasks for each kind of data, the best average first.

    Args:
        lines: models with their scores. Those with missing tasks come last and are not ranked.
    """
    tables = []
    for data, members in _by_data(lines):
        names = labels(line.model for line in members)
        rows = []
        for line in members:
            model = line.model
            facts = [text_cell(names[model]), size_cell(model.n_parameters), text_cell(model.tokens)]
            rows.append([*facts, *score_cells(line)])
        header = ("Model", "Size", "Tokens", *SCORE_HEADER)
        title = f"LongEmbed, {_data_title(data)}"
        tables.append(score_table(f"main-{data_key(data)}", title, header, rows, [_METRIC_NOTE], 3))
    return tables


def length_tables(lines: Iterable[Line]) -> list[Table]:
    """Acc@1 by context length, one table for each of Passkey and Needle and each kind of data.

    Args:
        lines: models with their scores. Lengths beyond those of the paper are shown, but they are not part of a mean.
    """
    tables = []
    for data, members in _by_data(lines):
        names = labels(line.model for line in members)
        for column in members[0].by_length:
            done = [line for line in members if line.by_length[column]]
            if not done:
                continue
            # Lengths beyond those of the paper are shown, but they are not part of a mean.
            lengths = sorted(set(LENGTHS).union(*(line.by_length[column] for line in done)))
            rows = [[text_cell(names[line.model]), *length_cells(line, column, lengths)] for line in done]
            title = f"{column} by context length in tokens, Acc@1 in percent, {data_words(data, 'data')}"
            key = f"{column.lower()}-{data_key(data)}"
            tables.append(score_table(key, title, ("Model", *map(str, lengths)), rows, best_from=1))
    return tables


def variants_table(results: Iterable[Result]) -> Table | None:
    """The variants of the tasks, such as `LongEmbedNeedle-paraphrase`: the mean over their splits.

    Args:
        results: all results.

    Returns:
        None without any variant.
    """
    by_variant: dict[tuple[str, Model], list[Result]] = {}
    for row in results:
        if "-" in row.task and column_of(row.task):
            by_variant.setdefault((row.task, row.model), []).append(row)
    names = labels(model for _, model in by_variant)
    rows = []
    for (task, model), splits in sorted(by_variant.items(), key=lambda item: item[0][0]):
        score = fmean(100 * row.score for row in splits)
        words = map(text_cell, (task, names[model], model.tokens, len(splits)))
        rows.append([*words, number_cell(score, interval=interval_of([row.queries for row in splits]))])
    note = "Acc@1 for variants of Passkey and Needle, nDCG@10 for others, mean over the splits that were run; percent."
    header = ("Task", "Model", "Tokens", "Splits", "Score")
    if not rows:
        return None
    return score_table("variants", "Variants of the tasks", header, rows, [note])


def strategy_tables(lines: Iterable[Line]) -> list[Table]:
    """A base model, the base with each strategy, and the differences: one table for each base and kind of data."""
    return [_strategies(group) for group in group_by_base(lines)]


def _strategies(group: BaseGroup) -> Table:
    """The table of one base: the base itself, then each strategy with what it gains."""
    base = group.line
    rows = []
    if base is not None:
        rows.append([text_cell("base"), text_cell(base.model.tokens), *score_cells(base)])
    for line in group.variants:
        name = line.model.name
        label = group.name(line)
        if name.is_base and name.target_len is None:
            label = "base (mteb's own entry)"
        cells = score_cells(line)
        if base is not None:
            cells = [_with_gain(line.score(key), base.score(key)) for key in SCORE_HEADER]
        rows.append([text_cell(label), text_cell(line.model.tokens), *cells])
    notes = ["In parentheses: points above or below the base, if both scores are whole.", group.warning]
    if base is None:
        notes = ["There are no results of the base itself, so there are no differences."]
    return score_table(
        f"strategies-{group.key}-{data_key(group.data)}",
        f"Strategies on {group.label}, {_data_title(group.data)}",
        ("Strategy", "Tokens", *SCORE_HEADER),
        rows,
        filter(None, notes),
        best_from=2,
    )


def _with_gain(score: Score, base: Score) -> Cell:
    """A score, and in parentheses the points that it is above its base."""
    cell = score_cell(score)
    if cell.number is None or base.complete is None:
        return cell
    return replace(cell, text=f"{cell.text} ({rounded(cell.number - base.complete.mean):+f})")


def comparison_tables(lines: Iterable[Line]) -> list[Table]:
    """Our numbers, theirs and the difference: a table for each kind of data, and for each task by length.

    Args:
        lines: models with their scores. Only those that the paper or its authors have measured too are shown.
    """
    by_data: dict[str, list[tuple[Line, PublishedLine]]] = {}
    for line in lines:
        for theirs in matches(line):
            by_data.setdefault(line.data, []).append((line, theirs))
    tables = []
    for data, pairs in by_data.items():
        rows = [(line, theirs.origin, score_cells(line), _their_cells(theirs)) for line, theirs in pairs]
        title = f"Ours beside the published numbers, {_data_title(data)}"
        origins = sorted({theirs.origin for _, theirs in pairs})
        sources = [f"{origin}: {source(origin)}." for origin in origins]
        tables.append(_beside(f"compared-{data_key(data)}", title, data, SCORE_HEADER, rows, sources))
        for key in [column.key for column in COLUMNS if column.is_by_length]:
            rows = [
                (line, theirs.origin, length_cells(line, key, LENGTHS), _shares(theirs.by_length[key]))
                for line, theirs in pairs
                if line.by_length[key] and theirs.by_length.get(key)
            ]
            title = f"{key} by context length in tokens, ours beside the authors', Acc@1 in percent, "
            title += data_words(data, "data")
            name = f"compared-{key.lower()}-{data_key(data)}"
            if rows:
                tables.append(_beside(name, title, data, [str(length) for length in LENGTHS], rows))
    return tables


_REAL = {column.key for column in COLUMNS if not column.is_by_length}
#: A line of ours, whose numbers stand beside it, and both rows of cells.
_Pair = tuple[Line, str, Sequence[Cell], Sequence[Cell]]


def _beside(
    key: str, title: str, data: str, header: Sequence[str], pairs: Sequence[_Pair], notes: Sequence[str] = ()
) -> Table:
    """Two rows and their difference for each model.

    Args:
        key: of the table.
        title: of the table.
        data: the kind of data of our numbers. If it is not theirs, differences have a mark.
        header: the columns of numbers.
        pairs: our line, whose numbers stand beside it, and both rows of cells.
        notes: sentences below the table.
    """
    names = labels(line.model for line, *_ in pairs)
    rows: list[tuple[Cell, ...]] = []
    marks = [_mark(data, title) for title in header]
    for line, origin, ours, theirs in pairs:
        label = text_cell(names[line.model])
        our_row = (label, text_cell("ours"), *ours)
        if our_row not in rows:
            rows.append(our_row)
        rows.append((label, text_cell(origin), *theirs))
        differences = map(difference_cell, ours, theirs, marks)
        rows.append((label, text_cell(f"ours - {origin}"), *differences))
    all_notes = [*notes, _DIFFERENCE_NOTE]
    if data != PUBLISHED:
        all_notes.insert(0, _OTHER_DATA_NOTE)
    return score_table(key, title, ("Model", "Numbers", *header), rows, all_notes)


def _mark(data: str, column: str) -> str:
    """The mark of a difference in a column; none where the data are the same."""
    if data == PUBLISHED or column in _REAL:
        return ""
    return OTHER_DATA


def matches(line: Line) -> list[PublishedLine]:
    """The published rows of the same base, strategy and target length; other parameters may differ.

    Args:
        line: a model of ours.
    """
    ours = line.model.name
    lines = []
    for theirs in published_lines():
        name = split_model_name(theirs.model)
        # The paper names its base models without a length.
        lengths: tuple[int | None, ...] = (name.target_len,)
        if ours.is_base:
            lengths = (None, trained_len(ours.base))
        if (name.base, name.strategy) == (ours.base, ours.strategy) and ours.target_len in lengths:
            lines.append(theirs)
    return lines


def _their_cells(theirs: PublishedLine) -> list[Cell]:
    """A published row, as the table of models has it."""
    return [number_cell(theirs.scores.get(key, theirs.average)) for key in SCORE_HEADER]


def _shares(values: Mapping[int, float]) -> list[Cell]:
    """Published accuracies by length, with the intervals of fifty queries."""
    return [number_cell(values[length], interval=share_interval(values[length])) for length in LENGTHS]


def statistics_table() -> Table:
    """The published counts and average lengths of the paper's tasks."""
    rows = []
    for column in COLUMNS:
        words = task_statistics("task_words")[column.key]
        task = column.tasks[PUBLISHED]
        # The paper counts words over all lengths together, and seems to swap those of Passkey and Needle.
        known = (words["query_words"], words["document_words"])
        if column.is_by_length:
            known = (None, None)
        for split, row in task_statistics("task_chars")[task].items():
            counts = map(text_cell, (task, split, row["n_queries"], row["n_documents"]))
            lengths = [number_cell(known[1], 0), number_cell(row["document_chars"]["mean"], 0)]
            rows.append((*counts, number_cell(known[0]), *lengths))
    notes = (f"{source('task_chars')}; words: {source('task_words')}.",)
    per = ("Words per query", "Words per document", "Characters per document")
    header = ("Task", "Split", "Queries", "Documents", *per)
    return score_table("statistics", "Task statistics", header, rows, notes)
