"""One line for each model and kind of data: the six columns and their average.

A line never mixes generated and published Passkey and Needle data.

A result file of Acc@1 over fifty queries says how many are right, so Passkey and Needle have intervals. It does not say
the scores of single queries, which the interval of an nDCG@10 would need.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean

import pandas as pd

from mteb_longembed.statistics.bootstrap import mean_of_means_interval
from mteb_longembed.statistics.intervals import Interval, difference_of_intervals

from .columns import (
    AVERAGE,
    COLUMNS,
    GENERATED,
    LENGTHS,
    PUBLISHED,
    QUERIES_PER_LENGTH,
    Column,
    split_length,
)
from .results import Model, Result, short_revision

_ROUNDING = 1e-3  # in queries for each query: result files have five decimals
_BY_LENGTH = tuple(column for column in COLUMNS if column.is_by_length)
#: The results of one model by task.
_Tasks = Mapping[str, Sequence[Result]]


@dataclass(frozen=True)
class Score:
    """A mean over parts in percent, and the number of parts that are there."""

    mean: Interval | None  # None if no part is there; its ends are nan if they are not known
    n_done: int
    n_all: int  # parts of a whole score

    @property
    def complete(self) -> Interval | None:
        """The mean if every part is there, otherwise None."""
        if self.n_done == self.n_all:
            return self.mean
        return None


@dataclass(frozen=True)
class Line:
    """A model's scores on one kind of data."""

    model: Model
    mark: str  # the model's revision, if its name has several; otherwise empty
    data: str  # of Passkey and Needle: `generated` or `published`
    scores: Mapping[str, Score]  # by `SCORE_KEYS`; the average has no mean if a column is not whole
    by_length: Mapping[str, Mapping[int, Interval]]  # Acc@1 of Passkey and Needle, longer lengths too

    @property
    def label(self) -> str:
        """The model's name, unique among the lines."""
        return self.model.name.full + self.mark

    @property
    def variant(self) -> str:
        """Its strategy with parameters, such as `+ntk:logn=off`; the target length is not in it."""
        return self.model.name.variant + self.mark


def score_lines(results: Iterable[Result]) -> list[Line]:
    """Make lines from results, sorted by kind of data, and the best average first; partial lines come last."""
    by_model: dict[Model, dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))
    for row in results:
        by_model[row.model][row.task].append(row)
    n_revisions = Counter(model.name.full for model in by_model)
    lines = []
    for model, tasks in by_model.items():
        mark = ""
        if n_revisions[model.name.full] > 1:
            mark = f" ({short_revision(model.revision)})"
        lines += [_line(model, mark, kind, tasks) for kind in _kinds(tasks)]
    return sorted(lines, key=_rank)


def _kinds(tasks: _Tasks) -> list[str]:
    """The kinds of data on which a model has Passkey or Needle; if it has none, those of its task names."""
    for columns in (_BY_LENGTH, COLUMNS):
        names = {kind: {column.tasks[kind] for column in columns} for kind in (GENERATED, PUBLISHED)}
        kinds = [kind for kind in names if not names[kind].isdisjoint(tasks)]
        if kinds:
            return kinds
    return []


def _rank(line: Line) -> tuple[str, float, int, str]:
    """Sorts by kind of data, then the best average first, then by how much was measured, then by name."""
    score = line.scores[AVERAGE].mean
    average = 0.0
    if score is not None:
        average = score.mean
    n_done = sum(line.scores[column.key].n_done for column in COLUMNS)
    return line.data, -average, -n_done, line.label


def _line(model: Model, mark: str, kind: str, tasks: _Tasks) -> Line:
    scores = {}
    by_length = {}
    for column in COLUMNS:
        values = {row.split: row.score for row in _rows(column, kind, tasks)}
        done = [values[split] for split in column.splits if split in values]
        scores[column.key] = Score(_mean(column, done), len(done), len(column.splits))
        if column.is_by_length:
            lengths = {split: split_length(split) for split in values}
            by_length[column.key] = {n: accuracy((values[split],)) for split, n in lengths.items() if n}
    whole = [score.complete.mean for score in scores.values() if score.complete]
    average = None
    if len(whole) == len(COLUMNS):
        average = Interval(fmean(whole), math.nan, math.nan)
    scores[AVERAGE] = Score(average, len(whole), len(COLUMNS))
    return Line(model, mark, kind, scores, by_length)


def _rows(column: Column, kind: str, tasks: _Tasks) -> Sequence[Result]:
    rows = tasks.get(column.tasks[kind], ())
    if rows or column.is_by_length:
        return rows
    # The real tasks are the same data under both names.
    return next((tasks[name] for name in column.tasks.values() if name in tasks), ())


def _mean(column: Column, shares: Sequence[float]) -> Interval | None:
    """The mean in percent, with its interval if the column counts right answers."""
    if not shares:
        return None
    if column.is_by_length:
        return accuracy(tuple(shares))
    return Interval(100 * fmean(shares), math.nan, math.nan)


@cache
def accuracy(shares: tuple[float, ...]) -> Interval:
    """The mean accuracy in percent over splits of fifty queries; its ends are nan if fifty cannot give a share.

    >>> accuracy((1.0,))
    Interval(mean=100.0, low=92.8..., high=100.0)
    """
    mean = 100 * fmean(shares)
    groups = []
    for share in shares:
        n_right = round(share * QUERIES_PER_LENGTH)
        if abs(share - n_right / QUERIES_PER_LENGTH) > _ROUNDING:
            return Interval(mean, math.nan, math.nan)
        groups.append([1.0] * n_right + [0.0] * (QUERIES_PER_LENGTH - n_right))
    ends = mean_of_means_interval(groups).scaled(100)
    return Interval(mean, ends.low, ends.high)


def by_data(lines: Iterable[Line]) -> dict[str, list[Line]]:
    """The lines of each kind of data."""
    members: dict[str, list[Line]] = {}
    for line in lines:
        members.setdefault(line.data, []).append(line)
    return members


def accuracies(lines: Sequence[Line], column: str) -> pd.DataFrame:
    """The accuracies with their intervals: a row for each model, the best mean first, and a column for each length.

    The mean is that of the paper's lengths; what was not measured is None, and counts as 0.
    """
    measured = {line.label: line.by_length[column] for line in lines if line.by_length[column]}
    lengths = sorted(set(LENGTHS).union(*measured.values()))
    rows = {}
    for label, scores in measured.items():
        rows[label] = [scores.get(length) for length in lengths]
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=lengths, dtype=object)
    means = frame.map(lambda score: score.mean, na_action="ignore").astype(float)
    sums = means[list(LENGTHS)].sum(axis=1)
    return frame.loc[sums.sort_values(ascending=False, kind="stable").index]


def gain(score: Score, base: Score) -> Interval | None:
    """The points that a score is above its base, None if one of them is not whole."""
    if score.complete is None or base.complete is None:
        return None
    return difference_of_intervals(base.complete, score.complete)
