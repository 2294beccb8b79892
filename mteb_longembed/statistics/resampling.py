"""One matrix of resamples of queries, from which every interval, share and p-value of a comparison comes.

Each row of the matrix says how often each query counts. All candidates are resampled together, so the rows of two
candidates are paired. Every number is read off the same rows, so no two of them can contradict each other.

Source: paired bootstrap, Sakai 2006, https://doi.org/10.1145/1148170.1148261; the spread of a percentile interval for
    few queries, Hesterberg 2015, https://doi.org/10.1080/00031305.2015.1089789; equal scores, Wilson 1927,
    https://doi.org/10.1080/01621459.1927.10502953; two one-sided tests, Schuirmann 1987,
    https://doi.org/10.1007/BF01068419.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from mteb_longembed.errors import DataError

from .intervals import CONFIDENCE, Interval

#: Rows of the matrix. Of at most `_EXACT` queries all resamples are taken, each once.
N_RESAMPLES = 10_000
_EXACT = 6
#: From so many queries on, counts are drawn from the normal distribution that they have, which is much faster.
_MANY = 1_000
#: The matrix of so many queries is kept for the next call; of more it is made in parts.
_KEPT = 200
_PART = 500
#: Means that differ by less are equal: the error of a sum.
_EQUAL = 1e-12
#: The level of all tests, and the chance of finding a difference with the number of queries that is said.
LEVEL = 0.05
POWER = 0.8

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Resamples:
    """The scores of candidates on the same queries, and their means in every resample.

    Args:
        names: of the candidates.
        groups: one array for each split: a row for each candidate, a column for each query.
        weights: the weight of each split in the score; their sum is 1.
        drawn: the score of each candidate in each resample, `[resamples, candidates]`.
    """

    names: tuple[str, ...]
    groups: tuple[Array, ...]
    weights: tuple[float, ...]
    drawn: Array

    @property
    def n_queries(self) -> int:
        """The number of queries of all splits."""
        return sum(group.shape[1] for group in self.groups)

    @property
    def means(self) -> dict[str, float]:
        """Each candidate's score."""
        total = self._weighted([group.mean(axis=1) for group in self.groups])
        return dict(zip(self.names, total.tolist(), strict=True))

    def mean(self, name: str) -> Interval:
        """A candidate's score with its interval."""
        row = self.names.index(name)
        return self._interval([group[row] for group in self.groups], self.drawn[:, row], 0.0, CONFIDENCE)

    def difference(self, first: str, second: str, confidence: float = CONFIDENCE) -> Interval:
        """The mean paired difference `second - first` with its interval.

        If few queries differ, all on one side, that may be chance: of `m` signs all are equal in 2 of `2 ** m` cases.
        Where this is more than the interval leaves out, the interval reaches to zero.
        """
        differences = self._differences(first, second)
        drawn = self._drawn_difference(first, second)
        interval = self._interval(differences, drawn, -1.0, confidence)
        if self._chance_of_one_side(differences) > 1 - confidence:
            return Interval(interval.mean, min(interval.low, 0.0), max(interval.high, 0.0))
        return interval

    def p_value(self, first: str, second: str) -> float:
        """The two-sided p-value of that difference: at most 5 % exactly if the 95 % interval leaves out zero."""
        differences = self._differences(first, second)
        drawn = self._drawn_difference(first, second)
        tail = min(np.mean(drawn <= _EQUAL), np.mean(drawn >= -_EQUAL))
        p = max(2 * float(tail), 1 / len(drawn), self._chance_of_one_side(differences))
        if self.difference(first, second).holds_zero():
            p = max(p, math.nextafter(LEVEL, 1))
        return min(p, 1.0)

    def equivalence(self, first: str, second: str) -> Interval:
        """The same difference with an interval each end of which is a one-sided test at 5 %."""
        return self.difference(first, second, 1 - 2 * LEVEL)

    def is_behind(self, name: str, leader: str) -> bool:
        """Whether a candidate surely scores less than the leader: the interval of their difference lies below zero."""
        return self.difference(leader, name).high < 0

    def are_same(self, first: str, second: str) -> bool:
        """Whether two candidates have equal scores on every query."""
        return all(np.abs(values).max() <= _EQUAL for values in self._differences(first, second))

    def first_shares(self, names: Sequence[str]) -> dict[str, float]:
        """The share of resamples in which each of these candidates is first; equal ones share a resample."""
        columns = [self.names.index(name) for name in names]
        drawn = self.drawn[:, columns]
        is_first = drawn >= drawn.max(axis=1, keepdims=True) - _EQUAL
        shares = (is_first / is_first.sum(axis=1, keepdims=True)).mean(axis=0)
        return dict(zip(names, shares.tolist(), strict=True))

    def more_queries(self, first: str, second: str) -> float:
        """How many more queries like these tell two candidates apart in 80 % of cases; infinite if none would.

        It is said for a difference and a spread like those of these queries.
        """
        differences = self._differences(first, second)
        mean = float(self._weighted([values.mean() for values in differences]))
        if abs(mean) < _EQUAL:
            return math.inf
        variance = 0.0
        for values, weight in zip(differences, self.weights, strict=True):
            variance += weight**2 * float(values.var(ddof=min(1, values.size - 1))) / values.size
        z = float(stats.norm.ppf(1 - LEVEL / 2) + stats.norm.ppf(POWER))
        return max(self.n_queries * (z**2 * variance / mean**2 - 1), 0.0)

    def _differences(self, first: str, second: str) -> list[Array]:
        """`second - first` for each query of each split."""
        one = self.names.index(first)
        other = self.names.index(second)
        return [group[other] - group[one] for group in self.groups]

    def _drawn_difference(self, first: str, second: str) -> Array:
        drawn: Array = self.drawn[:, self.names.index(second)] - self.drawn[:, self.names.index(first)]
        return drawn

    def _weighted(self, of_groups: Sequence[ArrayLike]) -> Array:
        return np.tensordot(np.array(self.weights), np.array(of_groups), axes=1)

    @staticmethod
    def _chance_of_one_side(differences: Sequence[Array]) -> float:
        n_differing = sum(int((np.abs(values) > _EQUAL).sum()) for values in differences)
        return min(2.0 ** (1 - n_differing), 1.0)

    def _interval(self, groups: Sequence[Array], drawn: Array, least: float, confidence: float) -> Interval:
        mean = float(self._weighted([values.mean() for values in groups]))
        if self.n_queries == 1:
            return Interval(mean, math.nan, math.nan)
        tail = (1 - confidence) / 2
        low, high = np.quantile(drawn, [tail, 1 - tail])
        down = [mean - low]
        up = [high - mean]
        for values, weight in zip(groups, self.weights, strict=True):
            if np.ptp(values) <= _EQUAL:
                # equal scores cannot be resampled, but they are not certain: other queries may have any score
                share = proportion_interval(0.0, values.size, confidence).high
                down.append(weight * share * (values[0] - least))
                up.append(weight * share * (1 - values[0]))
        return Interval(mean, max(mean - math.hypot(*down), least), min(mean + math.hypot(*up), 1.0))


def resample(
    names: Sequence[str], groups: Sequence[Sequence[ArrayLike]], weights: Sequence[float] | None = None
) -> Resamples:
    """Resample the queries of all splits. The same scores always give the same answer.

    Args:
        names: of the candidates.
        groups: for each split the scores of each candidate, from 0 to 1, on the same queries.
        weights: one for each split, with a sum of 1. Default: all the same.

    Raises:
        DataError: if there is no split, no query in a split, or a score is no number.
    """
    arrays = [np.array(group, dtype=float) for group in groups]
    sizes = [array.shape[-1] for array in arrays]
    if not arrays or min(sizes) == 0:
        raise DataError(f"an interval needs at least one score in every group, got groups of {sizes} scores.")
    if any(np.isnan(array).any() for array in arrays):
        raise DataError("an interval needs a number for every query, got nan.")
    shares = [1 / len(arrays)] * len(arrays) if weights is None else list(weights)
    drawn: Array | float = 0.0
    for number, (array, share) in enumerate(zip(arrays, shares, strict=True)):
        exact = len(arrays) == 1
        drawn = drawn + share * drawn_means(array, number, exact=exact)
    return Resamples(tuple(names), tuple(arrays), tuple(shares), np.asarray(drawn))


def mean_interval(scores: ArrayLike) -> Interval:
    """The 95 % interval of the mean over the queries of one split.

    >>> interval = mean_interval([1.0] * 50)  # Wilson's interval of 50 of 50
    >>> f"{interval.low:.3f} to {interval.high:.3f}"
    '0.929 to 1.000'
    """
    return resample(["scores"], [[scores]]).mean("scores")


def drawn_means(scores: Array, seed: int, *, exact: bool) -> Array:
    """The means of each candidate in each resample, `[resamples, candidates]`, from scores `[candidates, queries]`.

    The deviations from the mean are enlarged, because a bootstrap of few queries varies too little: by
    `sqrt(n / (n - 1))` for the variance of a resample, and from the normal to the t distribution.
    """
    n = scores.shape[1]
    means = scores.mean(axis=1)
    parts = [part @ scores.T for part in shares_of_queries(n, seed, exact=exact)]
    factor = 1.0
    if n > 1:
        t = stats.t.ppf((1 + CONFIDENCE) / 2, n - 1) / stats.norm.ppf((1 + CONFIDENCE) / 2)
        factor = float(t * math.sqrt(n / (n - 1)))
    drawn: Array = means + factor * (np.concatenate(parts) - means)
    return drawn


def shares_of_queries(n: int, seed: int, *, exact: bool) -> Iterator[Array]:
    """The matrix in parts, `[resamples, queries]`: the share of each query in each resample."""
    if exact and n <= _EXACT:
        yield _all_resamples(n)
    elif n <= _KEPT:
        yield _kept(n, seed)
    else:
        rng = np.random.default_rng([seed, n])
        for _ in range(0, N_RESAMPLES, _PART):
            yield _drawn_shares(rng, n, _PART)


@lru_cache(maxsize=8)
def _all_resamples(n: int) -> Array:
    drawn = np.indices((n,) * n).reshape(n, -1).T
    return np.stack([(drawn == query).mean(axis=1) for query in range(n)], axis=1)


@lru_cache(maxsize=32)
def _kept(n: int, seed: int) -> Array:
    return _drawn_shares(np.random.default_rng([seed, n]), n, N_RESAMPLES)


def _drawn_shares(rng: np.random.Generator, n: int, size: int) -> Array:
    if n < _MANY:
        return rng.multinomial(n, np.full(n, 1 / n), size) / n
    drawn = rng.standard_normal((size, n), dtype=np.float32)
    return np.asarray((1 + drawn - drawn.mean(axis=1, keepdims=True)) / n, dtype=float)


def proportion_interval(share: float, n: int, confidence: float = CONFIDENCE) -> Interval:
    """The Wilson interval of a share from 0 to 1 of n answers, rounded to a whole number of right answers.

    >>> interval = proportion_interval(1.0, 50)
    >>> f"{interval.low:.3f} to {interval.high:.3f}"
    '0.929 to 1.000'
    """
    ends = stats.binomtest(round(share * n), n).proportion_ci(confidence, method="wilson")
    # the ends may miss 0 and 1 by a rounding
    return Interval(share, max(0.0, float(ends.low)), min(1.0, float(ends.high)))


def adjust(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted for the number of tests, by Benjamini and Hochberg (false discovery rate).

    >>> [round(p, 3) for p in adjust([0.01, 0.04, 0.03])]
    [0.03, 0.04, 0.04]
    """
    return [float(p) for p in stats.false_discovery_control(p_values)] if len(p_values) else []
