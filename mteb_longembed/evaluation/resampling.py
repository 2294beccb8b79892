"""One bootstrap over clusters of queries, from which every interval and every share of a comparison comes.

Queries that share a relevant document succeed or fail together. So weights are drawn for documents, not for queries:
each query's deviation from the mean counts with the weight of every document that it shares with another query. With
several such documents for a query, intervals may be too wide, but not too narrow (`experiments/verdicts.md`).

In each resample the weights are Dirichlet(1, ..., 1) over the clusters and one that nobody has asked about. On that
one, two candidates differ as on the cluster where they differ most, or by all if they differ nowhere, with either sign.
All candidates share the weights, so differences are paired.

Source: Bayesian bootstrap, Rubin 1981, https://doi.org/10.1214/aos/1176345338; weights by document, Owen and Eckles
    2012, https://doi.org/10.1214/12-AOAS547; the spread for few clusters, Hesterberg 2015,
    https://doi.org/10.1080/00031305.2015.1089789; comparisons with the best of several, Hansen et al. 2011,
    https://doi.org/10.3982/ECTA5771.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse, stats

from mteb_longembed.errors import DataError

CONFIDENCE = 0.95
#: Number of resamples, and the maximum number of weights that are drawn together.
N_RESAMPLES = 10_000
_PART = 4_000_000
SEED = 0
#: Scores that differ by less are equal: the error of a sum.
_EQUAL = 1e-11
#: Of `m` clusters that differ, all are on one side by chance in 2 of `2 ** m` cases: with fewer, nothing is claimed.
LEAST_CLUSTERS = 6

Array = NDArray[np.float64]
#: For each query of a split the labels of its clusters, such as its relevant documents; none: a cluster of its own.
Labels = Sequence[Sequence[Hashable]]


@dataclass(frozen=True)
class Interval:
    """A mean and its confidence interval, in the unit of the scores; both ends are nan if there is no interval."""

    mean: float
    low: float
    high: float

    def scaled(self, factor: float) -> "Interval":
        """Return the same interval in another unit, such as percent."""
        return Interval(factor * self.mean, factor * self.low, factor * self.high)


@dataclass(frozen=True, eq=False)
class Resamples:
    """The scores of candidates on the same queries of one or several splits. `resample` returns it.

    Args:
        names: of the candidates.
        scores: `[candidates, queries]`.
        weights: of each query in the score; their sum is 1.
        members: 1 where a query is in a cluster, `[clusters, queries]`.
        sizes: the number of queries of each split; queries stand in the order of their splits.
    """

    names: tuple[str, ...]
    scores: Array
    weights: Array
    members: sparse.csr_array
    sizes: tuple[int, ...]

    @property
    def n_clusters(self) -> int:
        """The number of clusters of queries."""
        return int(self.members.shape[0])

    @cached_property
    def means(self) -> dict[str, float]:
        """Each candidate's score, without the error of the sum."""
        means = (self.scores @ self.weights).round(12)
        return dict(zip(self.names, means.tolist(), strict=True))

    @cached_property
    def _drawn(self) -> tuple[Array, Array]:
        """How far each candidate deviates, `[resamples, candidates]`, and the weight of what nobody has asked.

        Few clusters spread more than their resamples. So deviations are enlarged, by Student's t in place of the normal
        and by what makes the variance of a Bayesian bootstrap over the clusters alone unbiased.
        """
        n = self.n_clusters
        n_free = n - len(self.sizes)
        splits = np.split(self.scores, np.cumsum(self.sizes)[:-1], axis=1)
        residuals = self._by_group(np.hstack([one - one.mean(axis=1, keepdims=True) for one in splits]))
        enlarged = 1.0
        if n_free > 0:
            t = stats.t.ppf((1 + CONFIDENCE) / 2, n_free) / stats.norm.ppf((1 + CONFIDENCE) / 2)
            enlarged = float(t * math.sqrt((n + 1) / n_free))
        rng = np.random.default_rng([SEED, n])
        size = max(_PART // (n + 1), 1)
        deviations = []
        unseen = []
        for first in range(0, N_RESAMPLES, size):
            drawn = rng.standard_exponential((min(size, N_RESAMPLES - first), n + 1))
            drawn /= drawn.sum(axis=1, keepdims=True)
            deviations.append(enlarged * ((drawn[:, :-1] - 1 / n) @ residuals.T))
            unseen.append(drawn[:, -1])
        return np.concatenate(deviations), np.concatenate(unseen)

    def _by_group(self, values: Array) -> Array:
        """Sum over the queries of each cluster, so that the mean of the sums is the score, `[..., clusters]`."""
        summed: Array = (self.members @ (values * self.weights).T).T * self.n_clusters
        return summed

    @cached_property
    def _luck(self) -> Array:
        """How well each candidate does on what nobody has asked, from 0 to 1, `[resamples, candidates]`."""
        rng = np.random.default_rng([SEED, self.n_clusters, 1])
        return rng.random((len(self.names), N_RESAMPLES)).T

    def mean(self, name: str) -> Interval:
        """Return a candidate's score with its interval. Unseen clusters count as all right or all wrong."""
        row = self.names.index(name)
        deviations, unseen = self._drawn
        new = unseen * (self._luck[:, row].round() - self.means[name])
        interval = self._interval(self.means[name], deviations[:, row] + new)
        return Interval(interval.mean, max(interval.low, 0.0), min(interval.high, 1.0))

    def difference(self, first: str, second: str) -> Interval:
        """Return the mean paired difference `second - first` and its interval, with 0 if too few clusters differ."""
        a, b = self.names.index(first), self.names.index(second)
        spread, unseen = self._pair(a, b)
        deviations = spread + unseen * np.sign(self._luck[:, b] - self._luck[:, a])
        interval = self._interval(self.means[second] - self.means[first], deviations)
        if self.n_differing(first, second) < LEAST_CLUSTERS:
            return Interval(interval.mean, min(interval.low, 0.0), max(interval.high, 0.0))
        return interval

    def n_differing(self, first: str, second: str) -> int:
        """Count the clusters with a query on which two candidates score differently."""
        a, b = self.names.index(first), self.names.index(second)
        differs = np.abs(self.scores[b] - self.scores[a]) > _EQUAL
        return int(np.count_nonzero(self.members @ differs.astype(float)))

    def near_shares(self, names: Sequence[str], margin: float) -> dict[str, float]:
        """Return the share of resamples in which each of these candidates is less than a margin behind all others.

        On what nobody has asked it loses to each of them.
        """
        shares = {}
        for name in names:
            is_near = np.ones(N_RESAMPLES, dtype=bool)
            for other in names:
                if other != name:
                    a, b = self.names.index(other), self.names.index(name)
                    spread, unseen = self._pair(a, b)
                    is_near &= self.means[name] - self.means[other] + (spread - unseen) > _EQUAL - margin
            shares[name] = float(is_near.mean())
        return shares

    def to_best(self, name: str, names: Sequence[str]) -> Interval:
        """Return the difference of a candidate to the highest of several, with an interval that allows for the choice.

        The highest of many may be only the luckiest. So the upper end is as many standard errors above the difference
        as the highest of equal candidates is above this one in 2.5 % of the resamples.
        """
        best = max(names, key=self.means.__getitem__)
        interval = self.difference(best, name)
        if name == best or self.n_clusters == 1:
            return interval
        b = self.names.index(name)
        errors = {}
        by_chance = np.full(N_RESAMPLES, -math.inf)
        for other in names:
            if other != name:
                # unseen clusters are good or bad for this one, against all others at once
                seen, unseen = self._pair(b, self.names.index(other))
                spread = seen + unseen * np.sign(0.5 - self._luck[:, b])
                errors[other] = float(spread.std())
                np.maximum(by_chance, spread / errors[other], out=by_chance)
        reach = errors[best] * float(np.quantile(by_chance, 1 - (1 - CONFIDENCE) / 2))
        return Interval(interval.mean, interval.low, max(interval.high, interval.mean + reach))

    def _pair(self, a: int, b: int) -> tuple[Array, Array]:
        """Return how far the difference `b - a` deviates in each resample, by seen clusters and by unseen ones."""
        deviations, unseen = self._drawn
        largest = float(np.abs(self._by_group(self.scores[b] - self.scores[a])).max())
        if largest <= _EQUAL:
            largest = 1.0
        return deviations[:, b] - deviations[:, a], unseen * min(largest, 1.0)

    def _interval(self, mean: float, deviations: Array) -> Interval:
        if self.n_clusters == 1:
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
    """Resample the clusters of queries of all splits. The same scores always give the same answer.

    >>> interval = resample(["run"], [[[1.0] * 50]]).mean("run")
    >>> f"{interval.low:.2f} to {interval.high:.2f}"
    '0.94 to 1.00'

    Args:
        names: of the candidates.
        scores: for each split the scores of each candidate, from 0 to 1, on the same queries.
        labels: for each split the labels of its queries. One label in two splits is one cluster. Default: each query is
            a cluster of its own.
        weights: one for each split, with a sum of 1. Default: all the same.

    Raises:
        DataError: if there is no split, no query in a split, or a score is no number.
    """
    arrays = [np.array(of_split, dtype=float) for of_split in scores]
    sizes = [array.shape[-1] for array in arrays]
    if not arrays or min(sizes) == 0:
        raise DataError(f"an interval needs at least one score in every split, got splits of {sizes} scores.")
    if np.isnan(np.concatenate(arrays, axis=1)).any():
        raise DataError("an interval needs a number for every query, got nan.")
    if weights is None:
        weights = [1 / len(arrays)] * len(arrays)
    clusters = _grouped(labels or [[()] * size for size in sizes])
    rows = np.repeat(np.arange(len(clusters)), [len(cluster) for cluster in clusters])
    columns = np.concatenate(clusters)
    members = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(clusters), sum(sizes)))
    return Resamples(
        names=tuple(names),
        scores=np.concatenate(arrays, axis=1),
        weights=np.repeat(np.array(weights) / sizes, sizes),
        members=members,
        sizes=tuple(sizes),
    )


def _grouped(labels: Sequence[Labels]) -> list[list[int]]:
    """Return the indices of each cluster's queries. A label of one query counts only if that is in no other cluster."""
    members: dict[Hashable, list[int]] = {}
    queries = list(chain.from_iterable(labels))
    for number, of_query in enumerate(queries):
        for label in dict.fromkeys(of_query):
            members.setdefault(label, []).append(number)
    shared = sorted({tuple(numbers) for numbers in members.values() if len(numbers) > 1})
    with_others = set(chain.from_iterable(shared))
    return [*map(list, shared), *([number] for number in range(len(queries)) if number not in with_others)]
