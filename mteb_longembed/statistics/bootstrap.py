"""The one rule for the interval of a mean over queries, and the paired randomisation test of a difference.

- A share of right answers in one split has Wilson's interval.
- Other means have a bootstrap interval. With several splits, each split is resampled on its own (stratified). The mean
  of more than `BCA_MAX` queries is drawn from the normal distribution that its resamples have.
- Queries with equal scores cannot be resampled, but they are not certain: see `_unseen`. So no interval has width 0.

Source: Efron 1987, Better bootstrap confidence intervals, https://doi.org/10.1080/01621459.1987.10478410; for the
    paired test Smucker, Allan & Carterette 2007, https://doi.org/10.1145/1321440.1321528.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from mteb_longembed.errors import DataError
from mteb_longembed.statistics.intervals import CONFIDENCE, Interval, proportion_interval

N_RESAMPLES = 9999
# BCa leaves out every query once, so its time is quadratic. It corrects a bias that vanishes with many queries.
BCA_MAX = 1000
# Resamples in memory at the same time: about 90 MB for NarrativeQA's 10,449 queries.
BATCH = 500
# Sums of the same numbers in another order may differ by this share of their sizes.
_ROUNDING = 1e-12
_Sample = NDArray[np.float64]
_Groups = Sequence[ArrayLike]


def mean_interval(scores: ArrayLike) -> Interval:
    """The 95 % interval of the mean over the queries of one split; see `mean_of_means_interval`.

    >>> interval = mean_interval([0, 0, 1, 1, 1, 1, 1, 1, 1, 1])
    >>> f"{interval.mean} from {interval.low:.2f} to {interval.high:.2f}"
    '0.8 from 0.49 to 0.94'
    """
    return mean_of_means_interval([scores])


def mean_of_means_interval(
    groups: _Groups,
    weights: Sequence[float] | None = None,
    *,
    least: float = 0.0,
    confidence: float = CONFIDENCE,
) -> Interval:
    """The interval of a weighted mean of group means. One score alone has no interval.

    The same scores always give the same answer.

    Args:
        groups: one array for each split, with one score for each query.
        weights: one for each group, with a sum of 1. Default: all the same.
        least: the smallest score that is possible; the largest is 1.
        confidence: between 0 and 1.

    Raises:
        DataError: if there is no group, if a group has no score, or if a score is no number.

    >>> perfect = mean_of_means_interval([[1.0] * 50])  # Wilson's interval of 50 of 50
    >>> f"{perfect.low:.3f} to {perfect.high:.3f}"
    '0.929 to 1.000'
    """
    samples = [np.asarray(group, dtype=float) for group in groups]
    if not samples or min(sample.size for sample in samples) == 0:
        sizes = [sample.size for sample in samples]
        raise DataError(f"an interval needs at least one score in every group, got groups of {sizes} scores.")
    if any(np.isnan(sample).any() for sample in samples):
        raise DataError("an interval needs a number for every query, got nan.")
    if sum(sample.size for sample in samples) == 1:
        return Interval(float(samples[0][0]), math.nan, math.nan)
    shares = [1 / len(samples)] * len(samples) if weights is None else list(weights)
    varied = [pair for pair in zip(samples, shares, strict=True) if np.ptp(pair[0]) > 0]
    parts = [
        _unseen(float(sample[0]), sample.size, least, confidence).scaled(share)
        for sample, share in zip(samples, shares, strict=True)
        if np.ptp(sample) == 0
    ]
    rng = np.random.default_rng(0)
    if len(varied) == 1:
        sample, share = varied[0]
        if least == 0 and _is_binary(sample):
            part = proportion_interval(float(sample.mean()), sample.size, confidence)
        else:
            part = _of_one(sample, rng, confidence)
        parts.append(part.scaled(share))
    elif varied:
        parts.append(_percentiles(varied, rng, confidence))
    if len(parts) == 1:
        (joined,) = parts
    else:
        # The parts are independent, so their distances to the ends are joined by root of squares.
        mean = sum(part.mean for part in parts)
        down = math.hypot(*(part.mean - part.low for part in parts))
        joined = Interval(mean, mean - down, mean + math.hypot(*(part.high - part.mean for part in parts)))
    return Interval(joined.mean, max(joined.low, least), min(joined.high, 1.0))


def _unseen(value: float, n: int, least: float, confidence: float) -> Interval:
    """The interval of n equal scores.

    If none of n queries has another score, Wilson's interval says how large the share of such queries may be. They may
    have any score. For n of n right answers this is Wilson's interval itself.
    """
    share = proportion_interval(0.0, n, confidence).high
    low = min(least, value)
    high = max(1.0, value)
    return Interval(value, value - share * (value - low), value + share * (high - value))


def _is_binary(sample: _Sample) -> bool:
    return bool(np.isin(sample, (0.0, 1.0)).all())


def _of_one(sample: _Sample, rng: np.random.Generator, confidence: float) -> Interval:
    mean = float(sample.mean())
    if sample.size <= BCA_MAX:
        ends = stats.bootstrap(
            (sample,), np.mean, n_resamples=N_RESAMPLES, batch=BATCH, confidence_level=confidence, rng=rng
        ).confidence_interval
        if math.isfinite(ends.low) and ends.low < ends.high:
            return Interval(mean, float(ends.low), float(ends.high))
    return _percentiles([(sample, 1.0)], rng, confidence)


def _percentiles(
    groups: Sequence[tuple[_Sample, float]], rng: np.random.Generator, confidence: float
) -> Interval:
    """The percentile interval of the weighted sum of means; every group keeps its number of queries."""
    mean = float(sum(share * sample.mean() for sample, share in groups))
    tails = [(1 - confidence) / 2, (1 + confidence) / 2]
    if len({(sample.size, share) for sample, share in groups}) == 1 and all(_is_binary(s) for s, _ in groups):
        # The number of right answers in a resample is binomial: all resamples are known without drawing them.
        sample, share = groups[0]
        n = sample.size
        counts = [stats.binom.pmf(np.arange(n + 1), n, sample.mean()) for sample, _ in groups]
        low, high = np.searchsorted(np.cumsum(reduce(np.convolve, counts)), tails) * share / n
    else:
        low, high = np.quantile(sum(share * _resampled(sample, rng) for sample, share in groups), tails)
    return Interval(mean, float(low), float(high))


def _resampled(sample: _Sample, rng: np.random.Generator) -> _Sample:
    """The means of all resamples."""
    n = sample.size
    if _is_binary(sample):
        return rng.binomial(n, sample.mean(), N_RESAMPLES) / n
    if n > BCA_MAX:  # the mean of so many is normal, and to draw every query takes seconds
        return rng.normal(sample.mean(), sample.std() / math.sqrt(n), N_RESAMPLES)
    sizes = [min(BATCH, N_RESAMPLES - done) for done in range(0, N_RESAMPLES, BATCH)]
    return np.concatenate([sample[rng.integers(0, n, (size, n))].mean(axis=1) for size in sizes])


def difference_interval(
    first: _Groups,
    second: _Groups,
    weights: Sequence[float] | None = None,
    confidence: float = CONFIDENCE,
) -> Interval:
    """The interval of `second - first`. Both must have the same queries in the same order."""
    return mean_of_means_interval(differences(first, second), weights, least=-1.0, confidence=confidence)


def differences(first: _Groups, second: _Groups) -> list[_Sample]:
    """`second - first` for each query of each group; a `DataError` if their numbers differ."""
    sizes = [list(map(np.size, groups)) for groups in (first, second)]
    if sizes[0] != sizes[1]:
        raise DataError(
            f"a paired difference needs the same queries on both sides, got groups of {sizes[0]} and {sizes[1]}."
        )
    return [np.asarray(b, float) - np.asarray(a, float) for a, b in zip(first, second, strict=True)]


def randomisation_test(first: _Groups, second: _Groups, weights: Sequence[float] | None = None) -> float:
    """The two-sided p-value of a mean difference: how often do random signs give a difference as large?

    By default all groups have the same weight. At most 9,999 sign patterns are all tried; of more, 9,999 random ones.

    >>> randomisation_test([[0, 0, 0]], [[1, 1, 1]])  # 2 of the 2 ** 3 patterns are as extreme
    0.25
    """
    groups = differences(first, second)
    if all(not group.any() for group in groups):
        return 1.0
    # one row of weighted differences, whose sum is the weighted mean of the groups' means
    if weights is None:
        weights = [1 / len(groups)] * len(groups)
    weighted = np.concatenate([w * group / len(group) for w, group in zip(weights, groups, strict=True)])
    n = len(weighted)
    least = abs(float(weighted.sum())) - _ROUNDING * float(np.abs(weighted).sum())
    if 2**n <= N_RESAMPLES:
        patterns = np.arange(2**n)[:, None] >> np.arange(n) & 1
        return float(np.mean(np.abs((2 * patterns - 1) @ weighted) >= least))
    # scipy's permutation_test does the same, more than ten times slower
    rng = np.random.default_rng(0)
    n_as_large = 0
    for start in range(0, N_RESAMPLES, BATCH):
        size = min(BATCH, N_RESAMPLES - start)
        signs = 2.0 * rng.integers(0, 2, (size, n), dtype=np.int8) - 1
        n_as_large += int(np.count_nonzero(np.abs(signs @ weighted) >= least))
    return (n_as_large + 1) / (N_RESAMPLES + 1)


def adjust(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted for the number of tests, by Benjamini and Hochberg (false discovery rate).

    >>> [round(p, 3) for p in adjust([0.01, 0.04, 0.03])]
    [0.03, 0.04, 0.04]
    """
    return [float(p) for p in stats.false_discovery_control(p_values)] if len(p_values) else []
