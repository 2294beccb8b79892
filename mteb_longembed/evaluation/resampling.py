"""A bootstrap over clusters of queries, the source of all intervals and shares of a comparison.

Queries that share a relevant document succeed or fail together. So weights are sampled for documents, not for queries:
the deviation of a query from the mean counts with the weight of every document that it shares with another query. With
several such documents per query, intervals may be too wide, but not too narrow (`experiments/verdicts.md`).

In each resample the weights are Dirichlet(1, ..., 1) over the clusters and one unseen cluster. On the unseen cluster,
two candidates differ as much as on the cluster where they differ most, or by 1 if they never differ, with either sign.
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
#: Number of resamples, and the maximum number of weights that are sampled together.
N_RESAMPLES = 10_000
_BLOCK = 4_000_000
SEED = 0
#: Scores that differ by less are equal: the error of a sum.
_EQUAL = 1e-11
#: By chance, all of `m` differing clusters favour one side in 2 of `2 ** m` cases: with fewer, nothing is claimed.
LEAST_CLUSTERS = 6

Array = NDArray[np.float64]
#: For each query of a split its cluster labels, such as its relevant documents; none: a cluster of its own.
Labels = Sequence[Sequence[Hashable]]


@dataclass(frozen=True)
class Interval:
    """A mean and its confidence interval, in the unit of the scores; both ends are nan without an interval."""

    mean: float
    low: float
    high: float

    def scaled(self, factor: float) -> "Interval":
        """Return the same interval in another unit, such as percent."""
        return Interval(factor * self.mean, factor * self.low, factor * self.high)


@dataclass(frozen=True, eq=False)
class Resamples:
    """The scores of candidates on the same queries of one or several splits, as returned by `resample`.

    Args:
        names: candidate names.
        scores: scores, `[candidates, queries]`.
        weights: weight of each query in the score, with a sum of 1, `[queries]`.
        members: 1 where a query is in a cluster, `[clusters, queries]`.
        sizes: the number of queries of each split; queries are in the order of their splits.
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
        """The score of each candidate, rounded to remove the error of the sum."""
        means = (self.scores @ self.weights).round(12)
        return dict(zip(self.names, means.tolist(), strict=True))

    @cached_property
    def _resampled(self) -> tuple[Array, Array]:
        """Deviations of the scores, `[resamples, candidates]`, and weights of the unseen cluster, `[resamples]`.

        The bootstrap underestimates the variance with few clusters. So deviations are inflated by the ratio of
        Student's t to the normal quantile, and by the factor that makes the Bayesian bootstrap's variance unbiased.
        """
        n = self.n_clusters
        n_free = n - len(self.sizes)
        splits = np.split(self.scores, np.cumsum(self.sizes)[:-1], axis=1)
        residuals = self._by_cluster(np.hstack([one - one.mean(axis=1, keepdims=True) for one in splits]))
        inflation = 1.0
        if n_free > 0:
            t = stats.t.ppf((1 + CONFIDENCE) / 2, n_free) / stats.norm.ppf((1 + CONFIDENCE) / 2)
            inflation = float(t * math.sqrt((n + 1) / n_free))
        rng = np.random.default_rng([SEED, n])
        size = max(_BLOCK // (n + 1), 1)
        deviations = []
        unseen = []
        for first in range(0, N_RESAMPLES, size):
            weights = rng.standard_exponential((min(size, N_RESAMPLES - first), n + 1))
            weights /= weights.sum(axis=1, keepdims=True)
            deviations.append(inflation * ((weights[:, :-1] - 1 / n) @ residuals.T))
            unseen.append(weights[:, -1])
        return np.concatenate(deviations), np.concatenate(unseen)

    def _by_cluster(self, values: Array) -> Array:
        """Sum values over the queries of each cluster, `[..., clusters]`, scaled so that their mean is the score."""
        summed: Array = (self.members @ (values * self.weights).T).T * self.n_clusters
        return summed

    @cached_property
    def _luck(self) -> Array:
        """Uniform random scores of each candidate on the unseen cluster, from 0 to 1, `[resamples, candidates]`."""
        rng = np.random.default_rng([SEED, self.n_clusters, 1])
        return rng.random((len(self.names), N_RESAMPLES)).T

    def mean(self, name: str) -> Interval:
        """Return the score of a candidate with its interval. On the unseen cluster it scores 0 or 1, at random."""
        row = self.names.index(name)
        deviations, unseen = self._resampled
        new = unseen * (self._luck[:, row].round() - self.means[name])
        interval = self._interval(self.means[name], deviations[:, row] + new)
        return Interval(interval.mean, max(interval.low, 0.0), min(interval.high, 1.0))

    def difference(self, first: str, second: str) -> Interval:
        """Return the mean of `second - first`, paired, and its interval, which holds 0 if too few clusters differ."""
        a, b = self.names.index(first), self.names.index(second)
        spread, unseen = self._pair(a, b)
        deviations = spread + unseen * np.sign(self._luck[:, b] - self._luck[:, a])
        interval = self._interval(self.means[second] - self.means[first], deviations)
        if self.n_differing(first, second) < LEAST_CLUSTERS:
            return Interval(interval.mean, min(interval.low, 0.0), max(interval.high, 0.0))
        return interval

    def is_better(self, first: str, second: str) -> bool:
        """Return whether `second` is better than `first` by more than one standard error over clusters.

        This is no claim, but a rule of choice; one cluster alone never decides.
        """
        a, b = self.names.index(first), self.names.index(second)
        n = self.n_clusters
        if n == 1:
            return False
        splits = np.split(self.scores[b] - self.scores[a], np.cumsum(self.sizes)[:-1])
        residuals = self._by_cluster(np.hstack([one - one.mean() for one in splits]))
        error = math.sqrt(float((residuals**2).sum()) / (n * (n - 1)))
        # exactly one standard error, as if only one cluster differs, is not more
        return self.means[second] - self.means[first] > error + _EQUAL

    def n_differing(self, first: str, second: str) -> int:
        """Count the clusters with a query on which two candidates score differently."""
        a, b = self.names.index(first), self.names.index(second)
        differs = np.abs(self.scores[b] - self.scores[a]) > _EQUAL
        return int(np.count_nonzero(self.members @ differs.astype(float)))

    def near_shares(self, names: Sequence[str], margin: float) -> dict[str, float]:
        """Return the share of resamples in which each of these candidates is less than a margin behind all others.

        On the unseen cluster it loses to all others.
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
        """Return the difference of a candidate to the best of several, with an interval corrected for this selection.

        The best of many may only be lucky. So the upper end is above the difference by at least its standard error
        times the 97.5 % quantile, over resamples, of the largest standardized deviation of the differences to all
        others.
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
                # the unseen cluster is good or bad for this candidate, against all others at once
                seen, unseen = self._pair(b, self.names.index(other))
                spread = seen + unseen * np.sign(0.5 - self._luck[:, b])
                errors[other] = float(spread.std())
                np.maximum(by_chance, spread / errors[other], out=by_chance)
        reach = errors[best] * float(np.quantile(by_chance, 1 - (1 - CONFIDENCE) / 2))
        return Interval(interval.mean, interval.low, max(interval.high, interval.mean + reach))

    def _pair(self, a: int, b: int) -> tuple[Array, Array]:
        """Return the deviations of the difference `b - a` in each resample, from seen clusters and the unseen one."""
        deviations, unseen = self._resampled
        largest = float(np.abs(self._by_cluster(self.scores[b] - self.scores[a])).max())
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
    """Resample the clusters of queries of all splits. The result is deterministic.

    >>> interval = resample(["run"], [[[1.0] * 50]]).mean("run")
    >>> f"{interval.low:.2f} to {interval.high:.2f}"
    '0.94 to 1.00'

    Args:
        names: candidate names.
        scores: for each split the scores of each candidate, from 0 to 1, on the same queries.
        labels: for each split the cluster labels of its queries. One label in two splits is one cluster. Default: each
            query is a cluster of its own.
        weights: the weight of each split, with a sum of 1. Default: all equal.

    Raises:
        DataError: if there is no split, no query in a split, or a score is not a number.
    """
    arrays = [np.array(of_split, dtype=float) for of_split in scores]
    sizes = [array.shape[-1] for array in arrays]
    if not arrays or min(sizes) == 0:
        raise DataError(f"an interval needs at least one score in every split, got splits of {sizes} scores.")
    if np.isnan(np.concatenate(arrays, axis=1)).any():
        raise DataError("an interval needs a number for every query, got nan.")
    if weights is None:
        weights = [1 / len(arrays)] * len(arrays)
    clusters = _clusters(labels or [[()] * size for size in sizes])
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


def _clusters(labels: Sequence[Labels]) -> list[list[int]]:
    """Return the indices of each cluster's queries. A query that shares no label is a cluster of its own."""
    members: dict[Hashable, list[int]] = {}
    queries = list(chain.from_iterable(labels))
    for index, of_query in enumerate(queries):
        for label in dict.fromkeys(of_query):
            members.setdefault(label, []).append(index)
    shared = sorted({tuple(indices) for indices in members.values() if len(indices) > 1})
    with_others = set(chain.from_iterable(shared))
    return [*map(list, shared), *([index] for index in range(len(queries)) if index not in with_others)]
