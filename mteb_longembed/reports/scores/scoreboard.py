"""One line for each model and kind of data: the six columns and their average.

A line never mixes generated and published Passkey and Needle data. It also never mixes the usual revision of the
generated data with another one.

Intervals follow the rule of `statistics.bootstrap`. It needs the scores of single queries. Acc@1 of fifty queries says
how many are right, so Passkey and Needle always have an interval; nDCG@10 needs the rankings (`--predictions`).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import fmean
from typing import TypeVar

from mteb_longembed.statistics.bootstrap import mean_of_means_interval
from mteb_longembed.statistics.intervals import Interval

from .published_numbers import COLUMNS, GENERATED, PUBLISHED, QUERIES_PER_LENGTH, Column, split_length
from .results import Model, Result

AVERAGE = "Average"
T = TypeVar("T")
_ROUNDING = 1e-3  # in queries for each query: result files have five decimals

#: The scores of single queries of one split, from 0 to 1.
_Queries = tuple[float, ...]


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
    data: str  # of Passkey and Needle: `generated`, `published`, or `generated` with a revision
    scores: Mapping[str, Score]  # by column
    average: Score  # of the six columns; its mean is None if a column is not whole
    by_length: Mapping[str, Mapping[int, float]]  # Acc@1 of Passkey and Needle in percent, longer lengths too
    length_intervals: Mapping[str, Mapping[int, Interval]]  # those that are known

    def score(self, key: str) -> Score:
        """The score of a column, or of `Average`."""
        if key == AVERAGE:
            return self.average
        return self.scores[key]


def score_lines(results: Iterable[Result]) -> list[Line]:
    """Make lines from results. They are sorted by kind of data, and otherwise keep their order."""
    by_model: dict[Model, dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))
    for row in results:
        by_model[row.model][row.task].append(row)
    usual = _usual_revisions(by_model.values())
    lines = []
    for model, tasks in by_model.items():
        lines += [_line(model, kind, tasks, usual) for kind in _kinds(tasks)]
    return sorted(lines, key=lambda line: line.data)


def _usual_revisions(by_model: Iterable[Mapping[str, Sequence[Result]]]) -> dict[str, str]:
    """The most common data revision of every generated task. Other revisions get their own table."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    generated = [column.tasks[GENERATED] for column in COLUMNS if column.is_by_length]
    for tasks in by_model:
        for task in generated:
            for row in tasks.get(task, ()):
                counts[row.task][row.dataset_revision] += 1
    return {task: counter.most_common(1)[0][0] for task, counter in counts.items()}


def _kinds(tasks: Mapping[str, Sequence[Result]]) -> list[str]:
    """The kinds of data on which a model has Passkey or Needle; if it has none, the kind of its task names."""
    by_length = [column for column in COLUMNS if column.is_by_length]
    kinds = [kind for kind in (GENERATED, PUBLISHED) if _has_any(by_length, kind, tasks)]
    if kinds:
        return kinds
    return [kind for kind in (GENERATED, PUBLISHED) if _has_any(COLUMNS, kind, tasks)][:1]


def _has_any(columns: Iterable[Column], kind: str, tasks: Mapping[str, Sequence[Result]]) -> bool:
    return any(column.tasks[kind] in tasks for column in columns)


def _line(model: Model, kind: str, tasks: Mapping[str, Sequence[Result]], usual: Mapping[str, str]) -> Line:
    scores = {}
    by_length = {}
    length_intervals = {}
    other = []
    groups: list[_Queries | None] = []
    weights: list[float] = []
    for column in COLUMNS:
        rows = _rows(column, kind, tasks)
        # A result file has one revision, so all rows of a task have the same revision.
        if kind == GENERATED and column.is_by_length and rows:
            revision = rows[0].dataset_revision
            if revision != usual[rows[0].task]:
                other.append(f"{column.key} {revision[:12]}")
        values = {row.split: 100 * row.score for row in rows}
        queries = {row.split: _queries(column, row) for row in rows}
        done = [values[split] for split in column.splits if split in values]
        by_split = [queries.get(split) for split in column.splits]
        scores[column.key] = Score(_mean(done, by_split), len(done), len(column.splits))
        groups += by_split
        weights += [1 / len(COLUMNS) / len(by_split)] * len(by_split)
        if column.is_by_length:
            by_length[column.key] = _by_length(values)
            intervals = {split: interval_of([scored]) for split, scored in queries.items()}
            length_intervals[column.key] = _by_length({split: i for split, i in intervals.items() if i})
    means = [score.complete.mean for score in scores.values() if score.complete]
    mean = None
    if len(means) == len(COLUMNS):
        mean = _mean(means, groups, weights)
    average = Score(mean, len(means), len(COLUMNS))
    data = kind
    if other:
        data = f"{kind}, other revision: {', '.join(other)}"
    return Line(model, data, scores, average, by_length, length_intervals)


def _mean(
    values: Sequence[float], groups: Sequence[_Queries | None], weights: Sequence[float] | None = None
) -> Interval | None:
    if not values:
        return None
    ends = interval_of(groups, weights) or Interval(math.nan, math.nan, math.nan)
    return replace(ends, mean=fmean(values))


def _rows(column: Column, kind: str, tasks: Mapping[str, Sequence[Result]]) -> Sequence[Result]:
    rows = tasks.get(column.tasks[kind], ())
    if rows or column.is_by_length:
        return rows
    # The real tasks are the same data under both names.
    other = GENERATED
    if kind == GENERATED:
        other = PUBLISHED
    return tasks.get(column.tasks[other], ())


def _queries(column: Column, row: Result) -> _Queries | None:
    """The scores of single queries, if they are known."""
    if row.queries:
        return row.queries
    if column.is_by_length:
        return right_and_wrong(100 * row.score)
    return None


def right_and_wrong(percent: float, n: int = QUERIES_PER_LENGTH) -> _Queries | None:
    """The scores of n queries of which this percentage is right; None if n queries cannot give it.

    >>> right_and_wrong(75.0, 4), right_and_wrong(75.0, 50)
    ((1.0, 1.0, 1.0, 0.0), None)
    """
    right = percent / 100 * n
    if abs(right - round(right)) > _ROUNDING * n:
        return None
    return (1.0,) * round(right) + (0.0,) * (n - round(right))


def interval_of(groups: Sequence[_Queries | None], weights: Sequence[float] | None = None) -> Interval | None:
    """The interval of the mean over splits in percent; None if the queries of a split are not known."""
    known = tuple(group for group in groups if group)
    if not known or len(known) < len(groups):
        return None
    if weights is None:
        return _interval(known, None)
    return _interval(known, tuple(weights))


@cache
def _interval(groups: tuple[_Queries, ...], weights: tuple[float, ...] | None) -> Interval:
    return mean_of_means_interval(groups, weights).scaled(100)


def share_interval(percent: float, n: int = QUERIES_PER_LENGTH) -> Interval | None:
    """The interval of an accuracy in percent, None if n queries cannot give this accuracy.

    >>> share_interval(100.0)
    Interval(mean=100.0, low=92.8..., high=100.0)
    """
    return interval_of([right_and_wrong(percent, n)])


def _by_length(values: Mapping[str, T]) -> dict[int, T]:
    by_length = {}
    for split, value in values.items():
        length = split_length(split)
        if length is not None:
            by_length[length] = value
    return dict(sorted(by_length.items()))
