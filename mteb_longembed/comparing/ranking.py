"""From scores by query to ranked rows: intervals, paired differences to the base and to the best, adjusted p."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mteb_longembed.comparing.candidates import BM25, Candidate
from mteb_longembed.comparing.costs import Cost
from mteb_longembed.statistics.bootstrap import (
    adjust,
    difference_interval,
    mean_of_means_interval,
    randomisation_test,
)
from mteb_longembed.statistics.intervals import Interval

#: (task, split) -> query id -> score from 0 to 1.
Scores = Mapping[tuple[str, str], Mapping[str, float]]


#: With fewer queries, half of them say too little.
LEAST_QUERIES = 40


@dataclass(frozen=True)
class Row:
    """One candidate's row."""

    candidate: Candidate  # the candidate
    score: Interval  # in percent; the mean over splits is taken first, then the mean over tasks
    #: paired difference to its base, in points; None for a base, and if there is no base.
    gain: Interval | None
    p_value: float | None  # p-value of that difference, adjusted for the number of candidates
    #: paired difference to the best that may be recommended, in points; None for the best.
    loss: Interval | None
    cost: Cost  # the cost of encoding
    #: score in percent by task and split, with its interval.
    by_split: Mapping[tuple[str, str], Interval] = field(default_factory=dict)
    #: the other metrics in percent, with their intervals.
    others: Mapping[str, Interval] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name for `mteb run -m`."""
        return self.candidate.name

    @property
    def is_base(self) -> bool:
        """Whether this is a base without extension."""
        return self.candidate.is_base and not self.is_bm25

    @property
    def is_bm25(self) -> bool:
        """Whether this is BM25, which embeds nothing."""
        return self.candidate.name == BM25

    @property
    def searches(self) -> bool:
        """Whether the name has search parameters, so that it is a search and not a model."""
        return any(f"{key}=" in self.name for key in ("center", "fuse"))

    @property
    def size(self) -> float | None:
        """Mean bytes of a document's vectors: 0 for BM25, None if it is not known."""
        return 0.0 if self.is_bm25 else self.cost.bytes


def rank(
    scores: Mapping[Candidate, Scores],
    costs: Mapping[Candidate, Cost],
    *,
    others: Mapping[Candidate, Mapping[tuple[str, str], Mapping[str, Mapping[str, float]]]] | None = None,
    proxy: bool = False,
    seed: int = 0,
) -> list[Row]:
    """The candidates, the best first. All must have answered the same queries.

    All splits of a task have the same weight, and all tasks have the same weight.

    Args:
        scores: scores by candidate.
        costs: costs by candidate.
        proxy: whether the queries were drawn from the documents. That helps candidates that match words, so none of
            them is the best.
        others: for each candidate, task and split, the scores of each metric, the ranking one among them first.
        seed: seed of the resampling.
    """
    order = {candidate: _groups(found) for candidate, found in scores.items()}
    weights = _weights(next(iter(scores.values())))
    means = {
        candidate: float(sum(weight * group.mean() for weight, group in zip(weights, groups, strict=True)))
        for candidate, groups in order.items()
    }
    ranked = sorted(order, key=lambda candidate: -means[candidate])
    best = next((c for c in ranked if not (proxy and c.matches_words)), ranked[0])
    bases = {candidate.base: candidate for candidate in ranked if candidate.is_base}
    compared = [c for c in ranked if bases.get(c.base, c) is not c]
    # The test gives all groups the same weight.
    scaled = {
        candidate: [group * weight * len(groups) for weight, group in zip(weights, groups, strict=True)]
        for candidate, groups in order.items()
    }
    tests = [randomisation_test(scaled[bases[c.base]], scaled[c], seed=seed) for c in compared]
    p_values = dict(zip(compared, adjust(tests), strict=True))
    rows = []
    for candidate in ranked:
        base = bases.get(candidate.base)
        rows.append(
            Row(
                candidate,
                score=mean_of_means_interval(order[candidate], weights, seed=seed).scaled(100),
                gain=_difference(order, weights, base, candidate, seed),
                p_value=p_values.get(candidate),
                loss=_difference(order, weights, best, candidate, seed),
                cost=costs[candidate],
                by_split={
                    key: mean_of_means_interval([list(by_query.values())], seed=seed).scaled(100)
                    for key, by_query in scores[candidate].items()
                },
                others=_others((others or {}).get(candidate, {}), weights, seed),
            )
        )
    return rows


@dataclass(frozen=True)
class Expected:
    """The score to expect of the winner on new queries: one half of the queries chooses, the other half scores."""

    score: float  # in percent, the mean of both ways
    choices: tuple[str, str]  # the name that each half chooses


def expected(scores: Mapping[Candidate, Scores]) -> Expected | None:
    """The score to expect; None if there are fewer than `LEAST_QUERIES` queries.

    The highest of many scores is too high: part of it is luck on the very queries that chose it.
    """
    found = next(iter(scores.values()))
    if sum(map(len, found.values())) < LEAST_QUERIES:
        return None
    halves: list[dict[tuple[str, str], list[str]]] = [{}, {}]
    for key, by_query in found.items():
        # by a hash, because neighbouring ids may be of one kind or of one document
        drawn = sorted(by_query, key=lambda query: hashlib.sha256(query.encode("utf-8", "replace")).digest())
        for half, queries in zip(halves, (drawn[::2], drawn[1::2]), strict=True):
            if queries:
                half[key] = queries
    means = [
        {
            candidate: sum(
                weight * float(np.mean([own[key][query] for query in half[key]]))
                for weight, key in zip(_weights(half), sorted(half), strict=True)
            )
            for candidate, own in scores.items()
        }
        for half in halves
    ]
    chosen = [max(half, key=half.__getitem__) for half in means]
    score = (means[1][chosen[0]] + means[0][chosen[1]]) / 2
    return Expected(100 * score, (chosen[0].name, chosen[1].name))


def _difference(
    order: Mapping[Candidate, list[NDArray[np.float64]]],
    weights: list[float],
    first: Candidate | None,
    second: Candidate,
    seed: int,
) -> Interval | None:
    if first is None or first is second:
        return None
    return difference_interval(order[first], order[second], weights, seed=seed).scaled(100)


def _others(
    found: Mapping[tuple[str, str], Mapping[str, Mapping[str, float]]], weights: list[float], seed: int
) -> dict[str, Interval]:
    names = list(next(iter(found.values()), {}))[1:]
    return {
        name: mean_of_means_interval(
            _groups({key: by_metric[name] for key, by_metric in found.items()}), weights, seed=seed
        ).scaled(100)
        for name in names
    }


def _groups(found: Scores) -> list[NDArray[np.float64]]:
    """One array for each split, with sorted queries."""
    return [np.array([found[key][query] for query in sorted(found[key])]) for key in sorted(found)]


def _weights(found: Iterable[tuple[str, str]]) -> list[float]:
    """The weight of each split in the mean: all tasks weigh the same, and all splits of a task."""
    tasks = [task for task, _ in sorted(found)]
    return [1 / len(set(tasks)) / tasks.count(task) for task in tasks]
