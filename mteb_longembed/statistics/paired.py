"""Several candidates on the same queries: who is first, who is behind, who is equal enough, and what more would tell.

Source: the paired bootstrap of Sakai 2006, https://doi.org/10.1145/1148170.1148261; two one-sided tests for
    equivalence, Schuirmann 1987, https://doi.org/10.1007/BF01068419.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from mteb_longembed.statistics.bootstrap import (
    difference_interval,
    differences,
    mean_of_means_interval,
    randomisation_test,
)
from mteb_longembed.statistics.intervals import CONFIDENCE, Interval

#: How often queries are drawn again.
N_RESAMPLES = 10_000
#: Numbers in memory at the same time.
_BATCH = 4_000_000
#: Means that differ by less are equal: the error of a sum.
_EQUAL = 1e-12
#: The level of each one-sided test, and of the test that a candidate is behind.
LEVEL = 0.05


@dataclass(frozen=True)
class PairedScores:
    """The scores of several candidates on the same queries, from 0 to 1.

    Args:
        candidates: their names.
        groups: one array for each split: a row for each candidate, a column for each query.
        weights: the weight of each split in the score; their sum is 1.
    """

    candidates: tuple[str, ...]
    groups: tuple[NDArray[np.float64], ...]
    weights: tuple[float, ...]

    @property
    def n_queries(self) -> int:
        """The number of queries of all splits."""
        return sum(group.shape[1] for group in self.groups)

    def of(self, candidate: str) -> list[NDArray[np.float64]]:
        """One candidate's scores: an array for each split."""
        row = self.candidates.index(candidate)
        return [group[row] for group in self.groups]

    def only(self, candidates: Sequence[str]) -> PairedScores:
        """The scores of these candidates, in this order."""
        rows = [self.candidates.index(name) for name in candidates]
        return PairedScores(tuple(candidates), tuple(group[rows] for group in self.groups), self.weights)

    def mean(self, candidate: str) -> Interval:
        """A candidate's weighted mean, with its interval."""
        return mean_of_means_interval(self.of(candidate), self.weights)

    def mean_only(self, candidate: str) -> float:
        """A candidate's weighted mean."""
        rows = self.of(candidate)
        return float(sum(weight * row.mean() for weight, row in zip(self.weights, rows, strict=True)))

    def difference(self, first: str, second: str, confidence: float = CONFIDENCE) -> Interval:
        """The mean paired difference `second - first`, with its interval."""
        return difference_interval(self.of(first), self.of(second), self.weights, confidence)

    def p_value(self, first: str, second: str) -> float:
        """The p-value of that difference, by a paired randomisation test."""
        return randomisation_test(self.of(first), self.of(second), self.weights)

    def is_behind(self, candidate: str, leader: str) -> bool:
        """Whether a candidate is certain to score less than the leader.

        Its paired difference lies below 0, and a randomisation test agrees. With few queries a bootstrap is too sure,
        but a randomisation test is exact: with fewer than six queries it never agrees.
        """
        difference = self.difference(leader, candidate)
        return difference.high < 0 and self.p_value(leader, candidate) <= LEVEL

    def equivalence(self, candidate: str, leader: str) -> Interval:
        """The paired difference to the leader, with an interval of which each end is a one-sided test at `LEVEL`.

        A candidate is equivalent within a margin if the interval lies within it: two one-sided tests.
        """
        return self.difference(leader, candidate, 1 - 2 * LEVEL)

    def first_shares(self, n_resamples: int = N_RESAMPLES, seed: int = 0) -> dict[str, float]:
        """The share of resamples of the queries in which each candidate is first; equal ones share a resample.

        Each split keeps its number of queries, and all candidates get the same queries.
        """
        rng = np.random.default_rng(seed)
        means = np.zeros((n_resamples, len(self.candidates)))
        for group, weight in zip(self.groups, self.weights, strict=True):
            n_queries = group.shape[1]
            size = max(_BATCH // n_queries, 1)
            for start in range(0, n_resamples, size):
                rows = slice(start, min(start + size, n_resamples))
                drawn = rng.multinomial(n_queries, np.full(n_queries, 1 / n_queries), rows.stop - start)
                means[rows] += weight / n_queries * (drawn @ group.T)
        is_first = means >= means.max(axis=1, keepdims=True) - _EQUAL
        shares = (is_first / is_first.sum(axis=1, keepdims=True)).mean(axis=0)
        return dict(zip(self.candidates, shares.tolist(), strict=True))

    def more_queries(self, first: str, second: str) -> float:
        """How many more queries like these would tell two candidates apart; infinite if they do not differ.

        If the mean difference and its spread stay as they are, the interval then just leaves out 0.
        """
        groups = differences(self.of(first), self.of(second))
        mean = float(sum(weight * group.mean() for weight, group in zip(self.weights, groups, strict=True)))
        if abs(mean) < _EQUAL:
            return math.inf
        variance = 0.0
        for weight, group in zip(self.weights, groups, strict=True):
            variance += weight**2 * float(group.var(ddof=min(1, group.size - 1))) / group.size
        z = float(stats.norm.ppf((1 + CONFIDENCE) / 2))
        return max(self.n_queries * (z**2 * variance / mean**2 - 1), 0.0)
