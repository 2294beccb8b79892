"""One matrix of resamples of queries, from which every interval and every share of a comparison comes.

Each row of the matrix says how often each query counts. All candidates are resampled together, so the rows of two
candidates are paired.

What no query has shown yet may still happen. So each resample can hold one query more that nobody has asked, with a
weight that is drawn too: `Beta(1, n)`, as in the Bayesian bootstrap. For equal scores this is the exact interval of a
share.

Source: paired bootstrap, Sakai 2006, https://doi.org/10.1145/1148170.1148261; the spread of a percentile interval for
    few queries, Hesterberg 2015, https://doi.org/10.1080/00031305.2015.1089789; a region of equivalence, Benavoli et
    al. 2017, https://jmlr.org/papers/v18/16-305.html; the query that nobody has asked, Rubin 1981,
    https://doi.org/10.1214/aos/1176345338; an interval for equal scores, Clopper and Pearson 1934,
    https://doi.org/10.1093/biomet/26.4.404.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from mteb_longembed.errors import DataError

from .intervals import CONFIDENCE, Interval

#: Rows of the matrix; it is made in parts of at most so many cells.
N_RESAMPLES = 10_000
_PART = 4_000_000
#: Means that differ by less are equal: the error of a sum.
_EQUAL = 1e-12
#: The chance of finding a difference with the number of queries that is said.
POWER = 0.8

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Resamples:
    """The scores of candidates on the same queries, and their means in every resample.

    Args:
        names: of the candidates.
        groups: one array for each split: a row for each candidate, a column for each query.
        weights: the weight of each split in the score; their sum is 1.
    """

    names: tuple[str, ...]
    groups: tuple[Array, ...]
    weights: tuple[float, ...]

    @cached_property
    def drawn(self) -> Array:
        """The score of each candidate in each resample, `[resamples, candidates]`."""
        total = np.zeros((N_RESAMPLES, len(self.names)))
        for number, (group, weight) in enumerate(zip(self.groups, self.weights, strict=True)):
            total += weight * drawn_means(group, number)
        return total

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
        return self._interval([group[row] for group in self.groups], self.drawn[:, row], least=0.0)

    def difference(self, first: str, second: str) -> Interval:
        """The mean paired difference `second - first` with its interval.

        If few queries differ, all on one side, that may be chance: of `m` signs all are equal in 2 of `2 ** m` cases.
        Where this is more than the interval leaves out, the interval reaches to zero.
        """
        drawn = self.drawn[:, self.names.index(second)] - self.drawn[:, self.names.index(first)]
        interval = self._interval(self._differences(first, second), drawn, least=-1.0)
        if 2 * self._chance_of_one_side(first, second) > 1 - CONFIDENCE:
            return Interval(interval.mean, min(interval.low, 0.0), max(interval.high, 0.0))
        return interval

    def are_same(self, first: str, second: str) -> bool:
        """Whether two candidates have equal scores on every query."""
        return self._n_differing(first, second) == 0

    def best_shares(self, names: Sequence[str]) -> dict[str, float]:
        """The share of resamples in which each of these candidates is best; equal ones share a resample.

        If the first one and another differ on few queries, all of them may be on one side by chance: that share is the
        other one's.
        """
        drawn = self.drawn[:, [self.names.index(name) for name in names]]
        is_best = drawn >= drawn.max(axis=1, keepdims=True) - _EQUAL
        mean_shares = (is_best / is_best.sum(axis=1, keepdims=True)).mean(axis=0)
        shares = dict(zip(names, mean_shares.tolist(), strict=True))
        first = max(shares, key=shares.__getitem__)
        chances = {name: self._chance_of_one_side(first, name) for name in names if name != first}
        if chances:
            other = max(chances, key=chances.__getitem__)
            excess = max(shares[first] - (1 - chances[other]), 0.0)
            shares[first] -= excess
            shares[other] += excess
        return shares

    def near_shares(self, names: Sequence[str], margin: float) -> dict[str, float]:
        """The share of resamples in which each of these candidates is less than a margin behind the best.

        On the query that nobody has asked a candidate loses all to the best of the others. It has as much
        weight as there are queries that do not tell these two apart.
        """
        means = self.means
        drawn = self.drawn[:, [self.names.index(name) for name in names]]
        best = drawn.max(axis=1)
        shares = self.best_shares(names)
        for column, name in enumerate(names):
            others = [other for other in names if other != name]
            lost: Array | float = 0.0
            if others:
                lost = self._unseen_loss(max(others, key=means.__getitem__), name)
            is_near = drawn[:, column] - lost > best - margin + _EQUAL
            # what is best is near the best
            shares[name] = max(shares[name], float(is_near.mean()))
        return shares

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
        z = float(stats.norm.ppf((1 + CONFIDENCE) / 2) + stats.norm.ppf(POWER))
        return max(self.n_queries * (z**2 * variance / mean**2 - 1), 0.0)

    def _differences(self, first: str, second: str) -> list[Array]:
        """`second - first` for each query of each split."""
        one = self.names.index(first)
        other = self.names.index(second)
        return [group[other] - group[one] for group in self.groups]

    def _weighted(self, of_groups: Sequence[ArrayLike]) -> Array:
        return np.tensordot(np.array(self.weights), np.array(of_groups), axes=1)

    def _n_differing(self, first: str, second: str) -> int:
        return sum(int((np.abs(values) > _EQUAL).sum()) for values in self._differences(first, second))

    def _chance_of_one_side(self, first: str, second: str) -> float:
        """How often two equal candidates differ, on as many queries, only in favour of the first."""
        return min(2.0 ** -self._n_differing(first, second), 0.5)

    def _unseen_loss(self, first: str, second: str) -> Array:
        """What the second one loses to the first on the query that nobody has asked, in each resample."""
        lost = np.zeros(N_RESAMPLES)
        for number, values in enumerate(self._differences(first, second)):
            value, share = _commonest(values)
            rng = np.random.default_rng([number, values.size, 1])
            unseen = rng.beta(1, values.size, N_RESAMPLES)
            lost += self.weights[number] * share * (value + 1) * unseen
        return lost

    def _interval(self, groups: Sequence[Array], drawn: Array, least: float) -> Interval:
        """The interval of a mean: never narrower than that of as many equal scores as there are."""
        mean = float(self._weighted([values.mean() for values in groups]))
        if self.n_queries == 1:
            return Interval(mean, math.nan, math.nan)
        tail = (1 - CONFIDENCE) / 2
        low, high = np.quantile(drawn, [tail, 1 - tail])
        down = [mean - low]
        up = [high - mean]
        for values, weight in zip(groups, self.weights, strict=True):
            value, share = _commonest(values)
            n = values.size
            unseen = weight * share * float(stats.beta.ppf(1 - tail, 1, n))
            seen = 0.0
            if n > 1:
                seen = weight * float(stats.t.ppf(1 - tail, n - 1) * values.std(ddof=1)) / math.sqrt(n)
            down.append(_missing(unseen * (value - least), seen))
            up.append(_missing(unseen * (1 - value), seen))
        return Interval(mean, max(mean - math.hypot(*down), least), min(mean + math.hypot(*up), 1.0))


def _commonest(values: Array) -> tuple[float, float]:
    """The value that most queries have, and the share of these queries; no share if no two are equal."""
    found, counts = np.unique(values.round(9), return_counts=True)
    most = int(counts.argmax())
    if counts[most] == 1 and values.size > 1:
        return float(found[most]), 0.0
    return float(found[most]), float(counts[most] / values.size)


def _missing(wanted: float, seen: float) -> float:
    """The error that, added to one that was seen, makes a half-width as large as wanted."""
    return math.sqrt(max(wanted**2 - seen**2, 0.0))


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
    return Resamples(tuple(names), tuple(arrays), tuple(shares))


def mean_interval(scores: ArrayLike) -> Interval:
    """The 95 % interval of the mean over the queries of one split.

    >>> interval = mean_interval([1.0] * 50)  # the exact interval of 50 of 50
    >>> f"{interval.low:.3f} to {interval.high:.3f}"
    '0.929 to 1.000'
    """
    return resample(["scores"], [[scores]]).mean("scores")


def drawn_means(scores: Array, seed: int) -> Array:
    """The means of each candidate in each resample, `[resamples, candidates]`, from scores `[candidates, queries]`.

    The deviations from the mean are enlarged, because a bootstrap of few queries varies too little: by
    `sqrt(n / (n - 1))` for the variance of a resample, and from the normal to the t distribution.
    """
    n = scores.shape[1]
    means = scores.mean(axis=1)
    rng = np.random.default_rng([seed, n])
    size = max(_PART // n, 1)
    parts = []
    for first in range(0, N_RESAMPLES, size):
        counts = drawn_counts(rng, n, min(size, N_RESAMPLES - first))
        parts.append(counts @ scores.T / n)
    factor = 1.0
    if n > 1:
        t = stats.t.ppf((1 + CONFIDENCE) / 2, n - 1) / stats.norm.ppf((1 + CONFIDENCE) / 2)
        factor = float(t * math.sqrt(n / (n - 1)))
    return means + factor * (np.concatenate(parts) - means)


def drawn_counts(rng: np.random.Generator, n: int, size: int) -> Array:
    """How often each of `n` queries is among `n` drawn ones, `[size, n]`."""
    drawn = rng.integers(0, n, (size, n))
    drawn += np.arange(size)[:, None] * n
    return np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n).astype(float)
