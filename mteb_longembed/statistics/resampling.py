"""One bootstrap over groups of queries, from which every interval and every share of a comparison comes.

Queries that share a relevant document succeed or fail together. So weights are drawn for documents, not for queries:
each query's deviation from the mean counts with the weight of every document that it shares with another query. With
several such documents for a query, intervals may be too wide, but not too narrow (`experiments/verdicts.md`).

In each resample the weights are Dirichlet(1, ..., 1) over the groups and one group that nobody has asked about. On that
one, two candidates differ as on the group where they differ most, or by all if they differ nowhere, with either sign.
All candidates share the weights, so differences are paired.

Source: Bayesian bootstrap, Rubin 1981, https://doi.org/10.1214/aos/1176345338; weights by document, Owen and Eckles
    2012, https://doi.org/10.1214/12-AOAS547; the spread for few groups, Hesterberg 2015,
    https://doi.org/10.1080/00031305.2015.1089789; comparisons with the best of several, Hansen et al. 2011,
    https://doi.org/10.3982/ECTA5771.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse, stats

from mteb_longembed.errors import DataError

CONFIDENCE = 0.95
#: Resamples; they are drawn in parts of at most so many weights.
N_RESAMPLES = 10_000
_PART = 4_000_000
SEED = 0
#: Means that differ by less are equal: the error of a sum.
_EQUAL = 1e-12
#: The chance of finding a difference with the number of queries that is said.
POWER = 0.8
#: Of `m` groups that differ, all are on one side by chance in 2 of `2 ** m` cases: with fewer, nothing is claimed.
LEAST_GROUPS = 6

Array = NDArray[np.float64]
#: For each query of a split the labels of its groups, such as its relevant documents; none: it is a group of its own.
Labels = Sequence[Sequence[Hashable]]


@dataclass(frozen=True)
class Interval:
    """A mean and its confidence interval, in the unit of the scores; both ends are nan if there is no interval."""

    mean: float
    low: float
    high: float

    def scaled(self, factor: float) -> "Interval":
        """The same interval in another unit, such as percent."""
        return Interval(factor * self.mean, factor * self.low, factor * self.high)


@dataclass(frozen=True, eq=False)
class _Split:
    """The scores of one split, and its groups.

    Args:
        scores: `[candidates, queries]`.
        members: 1 where a query is in a group, `[groups, queries]`.
        columns: the number of each group among those of all splits.
        weight: of the split in the score.
    """

    scores: Array
    members: sparse.csr_array
    columns: NDArray[np.int64]
    weight: float

    def by_group(self, values: Array) -> Array:
        """The sums of groups from values of queries, in the unit of a mean over queries."""
        n_groups, n_queries = self.members.shape
        return (self.members @ values.T).T * n_groups / n_queries

    @property
    def enlarged(self) -> float:
        """How much wider few groups spread than their resamples: unbiased, and by Student's t for the normal."""
        n = len(self.columns)
        if n == 1:
            return 1.0
        t = stats.t.ppf((1 + CONFIDENCE) / 2, n - 1) / stats.norm.ppf((1 + CONFIDENCE) / 2)
        return float(t * math.sqrt((n + 1) / (n - 1)))


@dataclass(frozen=True, eq=False)
class Resamples:
    """The scores of candidates on the same queries, and their deviations in every resample. See `resample`."""

    names: tuple[str, ...]
    splits: tuple[_Split, ...]
    n_groups: int

    @property
    def n_queries(self) -> int:
        """The number of queries of all splits."""
        return sum(split.scores.shape[1] for split in self.splits)

    @cached_property
    def means(self) -> dict[str, float]:
        """Each candidate's score."""
        total = sum(split.weight * split.scores.mean(axis=1) for split in self.splits)
        return dict(zip(self.names, np.asarray(total).tolist(), strict=True))

    @cached_property
    def _drawn(self) -> tuple[Array, Array]:
        """How far each candidate deviates, `[resamples, candidates]`; the weight of what nobody has asked, by split."""
        deviations = np.zeros((N_RESAMPLES, len(self.names)))
        unseen = np.zeros((N_RESAMPLES, len(self.splits)))
        rng = np.random.default_rng([SEED, self.n_groups])
        residuals = [
            split.by_group(split.scores - split.scores.mean(axis=1)[:, None]) for split in self.splits
        ]
        size = max(_PART // (self.n_groups + 1), 1)
        for first in range(0, N_RESAMPLES, size):
            rows = slice(first, min(first + size, N_RESAMPLES))
            drawn = rng.standard_exponential((rows.stop - first, self.n_groups + 1))
            for number, split in enumerate(self.splits):
                own = drawn[:, split.columns]
                total = own.sum(axis=1) + drawn[:, -1]
                shares = own / total[:, None] - 1 / len(split.columns)
                deviations[rows] += split.weight * split.enlarged * (shares @ residuals[number].T)
                unseen[rows, number] = split.weight * drawn[:, -1] / total
        return deviations, unseen

    @cached_property
    def _luck(self) -> Array:
        """How well each candidate does on what nobody has asked, from 0 to 1, `[resamples, candidates]`."""
        rng = np.random.default_rng([SEED, self.n_groups, 1])
        return rng.random((len(self.names), N_RESAMPLES)).T

    def mean(self, name: str) -> Interval:
        """A candidate's score with its interval."""
        row = self.names.index(name)
        deviations, unseen = self._drawn
        means = np.array([split.scores[row].mean() for split in self.splits])
        new = (unseen * (self._luck[:, row, None].round() - means)).sum(axis=1)
        interval = self._interval(self.means[name], deviations[:, row] + new)
        return Interval(interval.mean, max(interval.low, 0.0), min(interval.high, 1.0))

    def difference(self, first: str, second: str) -> Interval:
        """The mean paired difference `second - first` with its interval; it holds 0 if too few groups differ."""
        a, b = self.names.index(first), self.names.index(second)
        spread = self._spread(a, b)
        new = self._unseen(a, b) * np.sign(self._luck[:, b] - self._luck[:, a])
        interval = self._interval(self.means[second] - self.means[first], spread + new)
        if self.n_differing(first, second) < LEAST_GROUPS:
            return Interval(interval.mean, min(interval.low, 0.0), max(interval.high, 0.0))
        return interval

    def n_differing(self, first: str, second: str) -> int:
        """The number of groups with a query on which two candidates score differently."""
        a, b = self.names.index(first), self.names.index(second)
        differing: set[int] = set()
        for split in self.splits:
            differs = np.abs(split.scores[b] - split.scores[a]) > _EQUAL
            differing.update(split.columns[(split.members @ differs.astype(float)) > 0].tolist())
        return len(differing)

    def near_shares(self, names: Sequence[str], margin: float) -> dict[str, float]:
        """The share of resamples in which each of these candidates is less than a margin behind all others.

        On what nobody has asked it loses to each of them.
        """
        shares = {}
        for name in names:
            is_near = np.ones(N_RESAMPLES, dtype=bool)
            for other in names:
                if other != name:
                    a, b = self.names.index(other), self.names.index(name)
                    lost = self._spread(a, b) - self._unseen(a, b)
                    is_near &= self.means[name] - self.means[other] + lost > _EQUAL - margin
            shares[name] = float(is_near.mean())
        return shares

    def is_behind(self, name: str, names: Sequence[str]) -> bool:
        """Whether a candidate is surely behind the highest of some, also if that is only the luckiest of many equals.

        In the resamples of equal candidates the highest is, in at most 2.5 %, as many standard errors above this one as
        it is here; and the interval of the difference lies below 0.
        """
        best = max(names, key=self.means.__getitem__)
        if name == best or not self.difference(best, name).high < 0:
            return False
        b = self.names.index(name)
        above = -math.inf
        by_chance = np.full(N_RESAMPLES, -math.inf)
        for other in names:
            a = self.names.index(other)
            spread = self._spread(b, a) + self._unseen(b, a) * np.sign(self._luck[:, a] - self._luck[:, b])
            error = float(spread.std())
            if other != name and error > _EQUAL:
                above = max(above, (self.means[other] - self.means[name]) / error)
                np.maximum(by_chance, spread / error, out=by_chance)
        return float((by_chance >= above).mean()) <= (1 - CONFIDENCE) / 2

    def more_queries(self, first: str, second: str) -> float:
        """How many more queries like these tell two candidates apart in 80 % of cases; infinite if none would.

        It is said for a difference and a spread like those of these queries.
        """
        mean = self.means[second] - self.means[first]
        if abs(mean) < _EQUAL:
            return math.inf
        spread = self._spread(self.names.index(first), self.names.index(second))
        z = float(stats.norm.ppf((1 + CONFIDENCE) / 2) + stats.norm.ppf(POWER))
        return max(self.n_queries * (z**2 * float(spread.var()) / mean**2 - 1), 0.0)

    def _spread(self, a: int, b: int) -> Array:
        """How far the difference `b - a` deviates in each resample, by the groups that were seen."""
        deviations, _ = self._drawn
        spread: Array = deviations[:, b] - deviations[:, a]
        return spread

    def _unseen(self, a: int, b: int) -> Array:
        """How far two candidates differ in each resample by what nobody has asked."""
        _, unseen = self._drawn
        largest = []
        for split in self.splits:
            by_group = np.abs(split.by_group(split.scores[b] - split.scores[a])).max()
            largest.append(min(by_group, 1.0) if by_group > _EQUAL else 1.0)
        total: Array = unseen @ np.array(largest)
        return total

    def _interval(self, mean: float, deviations: Array) -> Interval:
        if self.n_groups == 1:
            return Interval(mean, math.nan, math.nan)
        tail = (1 - CONFIDENCE) / 2
        low, high = mean + np.quantile(deviations, [tail, 1 - tail])
        return Interval(mean, min(low, mean), max(high, mean))


def resample(
    names: Sequence[str],
    scores: Sequence[Sequence[ArrayLike]],
    labels: Sequence[Labels] | None = None,
    weights: Sequence[float] | None = None,
) -> Resamples:
    """Resample the groups of queries of all splits. The same scores always give the same answer.

    Args:
        names: of the candidates.
        scores: for each split the scores of each candidate, from 0 to 1, on the same queries.
        labels: for each split the labels of its queries. One label in two splits is one group. Default: each query is
            a group of its own.
        weights: one for each split, with a sum of 1. Default: all the same.

    Raises:
        DataError: if there is no split, no query in a split, or a score is no number.
    """
    arrays = [np.array(of_split, dtype=float) for of_split in scores]
    sizes = [array.shape[-1] for array in arrays]
    if not arrays or min(sizes) == 0:
        raise DataError(f"an interval needs at least one score in every split, got splits of {sizes} scores.")
    if any(np.isnan(array).any() for array in arrays):
        raise DataError("an interval needs a number for every query, got nan.")
    if labels is None:
        labels = [[()] * size for size in sizes]
    groups = _grouped(labels)
    shares = [1 / len(arrays)] * len(arrays) if weights is None else list(weights)
    splits = []
    for number, array in enumerate(arrays):
        columns: list[int] = []
        rows: list[int] = []
        queries: list[int] = []
        for column, members in enumerate(groups):
            own = [query for split, query in members if split == number]
            if own:
                rows += [len(columns)] * len(own)
                queries += own
                columns.append(column)
        matrix = sparse.csr_array(
            (np.ones(len(rows)), (rows, queries)), shape=(len(columns), array.shape[-1])
        )
        splits.append(_Split(array, matrix, np.array(columns), shares[number]))
    return Resamples(tuple(names), tuple(splits), len(groups))


def _grouped(labels: Sequence[Labels]) -> list[tuple[tuple[int, int], ...]]:
    """The queries of each group, by the numbers of split and query. Labels with the same queries are one group.

    A label of one query alone is left out where that query has a group with others.
    """
    members: dict[Hashable, list[tuple[int, int]]] = {}
    for split, of_split in enumerate(labels):
        for query, of_query in enumerate(of_split):
            for label in dict.fromkeys(of_query):
                members.setdefault(label, []).append((split, query))
    shared = dict.fromkeys(tuple(queries) for queries in members.values() if len(queries) > 1)
    with_others = {query for queries in shared for query in queries}
    groups = list(shared)
    for split, of_split in enumerate(labels):
        alone = [(split, query) for query in range(len(of_split)) if (split, query) not in with_others]
        groups += [(query,) for query in alone]
    return groups


def mean_interval(scores: ArrayLike, labels: Labels | None = None) -> Interval:
    """The 95 % interval of the mean over the queries of one split; without labels, of independent ones.

    >>> interval = mean_interval([1.0] * 50)
    >>> f"{interval.low:.2f} to {interval.high:.2f}"
    '0.94 to 1.00'
    """
    return resample(["scores"], [[scores]], None if labels is None else [labels]).mean("scores")
