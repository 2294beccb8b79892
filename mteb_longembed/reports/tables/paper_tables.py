"""The paper's tables: models by tasks, strategies on a base, accuracy by length, and the paper's own numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mteb_longembed.reports.scores.base_groups import BaseGroup, group_by_base
from mteb_longembed.reports.scores.columns import PUBLISHED, SCORE_KEYS
from mteb_longembed.reports.scores.paper import paper_lines, source, trained_len
from mteb_longembed.reports.scores.scoreboard import Line, Score, accuracies, by_data, gain

from .scores import model_cells, score_cell, score_cells, score_table
from .table import Cell, Table, interval_cell, rounded, text_cell

_HEADER = ("Model", "Size", "Tokens", *SCORE_KEYS)
_METRIC_NOTE = "Passkey, Needle: Acc@1, mean over the eight lengths; others: nDCG@10; percent."
_GAIN_NOTE = (
    "In parentheses: points above or below the base, if both scores are whole. *: the 95 % interval of this difference "
    "leaves out 0. nDCG@10 has no mark, because result files have no scores of single queries; compare tests them."
)
_OTHER_DATA_NOTE = (
    "Passkey and Needle are not the same data: ours are generated, the paper's are the published set; so their "
    "differences and that of the average also contain the change of data."
)


def _data_title(data: str) -> str:
    names = "LongEmbed*"
    if data == PUBLISHED:
        names = "LEMB*"
    return f"{data} Passkey and Needle ({names})"


def main_tables(lines: Iterable[Line]) -> list[Table]:
    """One table of models by tasks for each kind of data, the best average first."""
    tables = []
    for data, members in by_data(lines).items():
        rows = [[*model_cells(line), *score_cells(line)] for line in members]
        title = f"LongEmbed, {_data_title(data)}"
        tables.append(score_table(f"main-{data}", title, _HEADER, rows, [_METRIC_NOTE], best_from=3))
    return tables


def length_tables(lines: Iterable[Line]) -> list[Table]:
    """Acc@1 by context length, one table for each of Passkey and Needle and each kind of data."""
    tables = []
    for data, members in by_data(lines).items():
        for column in members[0].by_length:
            scores = accuracies(members, column)
            rows = []
            for label, intervals in scores.iterrows():
                rows.append([text_cell(str(label)), *map(interval_cell, intervals)])
            title = f"{column} by context length in tokens, Acc@1 in percent, {data} data"
            header = ("Model", *map(str, scores.columns))
            if rows:
                tables.append(score_table(f"{column.lower()}-{data}", title, header, rows, best_from=1))
    return tables


def strategy_tables(lines: Iterable[Line]) -> list[Table]:
    """A base model, the base with each strategy, and the differences: one table for each base and kind of data."""
    return [_strategies(group) for group in group_by_base(lines)]


def _strategies(group: BaseGroup) -> Table:
    """The table of one base: the base itself, then each strategy with what it gains."""
    base = group.line
    rows = []
    notes = ["There are no results of the base itself at this revision, so there are no differences."]
    if base is not None:
        rows.append([text_cell("base"), text_cell(base.model.tokens), *score_cells(base)])
        notes = [_GAIN_NOTE]
    for line in group.variants:
        cells = score_cells(line)
        if base is not None:
            cells = [_with_gain(line.scores[key], base.scores[key]) for key in SCORE_KEYS]
        rows.append([text_cell(line.variant), text_cell(line.model.tokens), *cells])
    return score_table(
        f"strategies-{group.label}-{group.data}",
        f"Strategies on {group.label}, {_data_title(group.data)}",
        ("Strategy", "Tokens", *SCORE_KEYS),
        rows,
        notes,
        best_from=2,
    )


def _with_gain(score: Score, base: Score) -> Cell:
    """A score, and in parentheses the points that it is above its base, marked if they are significant."""
    cell = score_cell(score)
    gained = gain(score, base)
    if gained is None:
        return cell
    text = f"{cell.text} ({rounded(gained.mean):+f})"
    if gained.is_known and not gained.low <= 0 <= gained.high:
        text += "*"
    return replace(cell, text=text)


def comparison_tables(lines: Iterable[Line]) -> list[Table]:
    """Our numbers and what they are above or below the paper's, for the models that the paper has too."""
    tables = []
    for data, members in by_data(lines).items():
        rows = []
        for line in members:
            theirs = paper_line(line)
            if theirs is not None:
                cells = [_with_gain(line.scores[key], theirs.scores[key]) for key in SCORE_KEYS]
                rows.append([*model_cells(line), *cells])
        notes = ["In parentheses: points above or below the paper's number.", source()]
        if data != PUBLISHED:
            notes.append(_OTHER_DATA_NOTE)
        if rows:
            title = f"Beside the paper's numbers, {_data_title(data)}"
            tables.append(score_table(f"compared-{data}", title, _HEADER, rows, notes, best_from=3))
    return tables


def paper_line(line: Line) -> Line | None:
    """The paper's row of the same base, strategy and target length; other parameters may differ."""
    ours = line.model.name
    for theirs in paper_lines():
        name = theirs.model.name
        # The paper names its base models without a length.
        lengths: tuple[int | None, ...] = (name.target_len,)
        if ours.is_base:
            lengths = (None, trained_len(ours.base))
        if (name.base, name.strategy) == (ours.base, ours.strategy) and ours.target_len in lengths:
            return theirs
    return None
