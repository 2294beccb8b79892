"""Scores of queries, their intervals, and paired tests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mteb_longembed.statistics.bootstrap import difference_interval, mean_interval, randomisation_test

#: Task, base, strategy and length -> the score of every query, from 0 to 1.
Scores = dict[tuple[str, ...], dict[str, float]]
#: The prefix before the folder of a tuned model, which stands in place of a strategy.
TUNED = "tuned:"


@dataclass(frozen=True)
class Mean:
    """A mean in percent, its 95 % interval, and the number of queries."""

    mean: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        return f"{self.mean:.0f} ({self.low:.0f}–{self.high:.0f})"


def mean_of(scores: dict[str, float]) -> Mean:
    """The mean over queries with its 95 % interval: Wilson's for right and wrong answers, otherwise by bootstrap.

    >>> str(mean_of({"q1": 1.0, "q2": 1.0}))
    '100 (34–100)'
    """
    found = mean_interval([scores[query] for query in sorted(scores)]).scaled(100)
    return Mean(found.mean, found.low, found.high, len(scores))


@dataclass(frozen=True)
class Comparison:
    """Two models on the same queries: means in percent, the 95 % interval of second - first, and the p-value."""

    n_queries: int
    first: float
    second: float
    low: float
    high: float
    p_value: float


def compare(first: dict[str, float], second: dict[str, float]) -> Comparison:
    """The paired comparison of two models' scores by query."""
    if first.keys() != second.keys():
        raise ValueError("a paired test needs the same queries for both models.")
    a, b = (np.array([scores[query] for query in sorted(first)]) for scores in (first, second))
    ends = difference_interval([a], [b]).scaled(100)
    means = float(100 * a.mean()), float(100 * b.mean())
    return Comparison(len(a), *means, ends.low, ends.high, randomisation_test([a], [b]))


def against(
    scores: Scores, task: str, length: str, first: tuple[str, str], second: tuple[str, str]
) -> Comparison:
    """The paired comparison of two lines of a table at one length."""
    return compare(scores[task, *first, length], scores[task, *second, length])


def lengths_of(scores: Scores, task: str) -> list[str]:
    """The lengths at which a task was measured, the shortest first."""
    return sorted({key[3] for key in scores if key[0] == task}, key=lambda n: int(n) if n.isdigit() else 0)


def lines_of(scores: Scores, task: str, base: str) -> list[str]:
    """The strategies of a base with which a task was measured, in the order of measurement."""
    return list(dict.fromkeys(key[2] for key in scores if key[:2] == (task, base)))
