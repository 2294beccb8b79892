"""The table after a run: a line for each model, task and split."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from .table import Cell, Table, number_cell, text_cell


class Scored(NamedTuple):
    """The main score of one split, between 0 and 1."""

    model: str
    task: str
    split: str
    score: float


def run_table(scores: Sequence[Scored]) -> Table:
    """The scores in percent, in the order of the run. After a task with several splits comes their mean.

    Args:
        scores: the scores; those of one model on one task must be neighbours.
    """
    rows: list[tuple[Cell, ...]] = []
    for (model, task), group in groupby(scores, key=lambda scored: (scored.model, scored.task)):
        found = list(group)
        lines = [(scored.split, scored.score) for scored in found]
        if len(found) > 1:
            lines.append(("mean", sum(scored.score for scored in found) / len(found)))
        rows += [(*map(text_cell, (model, task, split)), number_cell(100 * score)) for split, score in lines]
    return Table("run", "Main scores, in percent", ("model", "task", "split", "score"), tuple(rows))
