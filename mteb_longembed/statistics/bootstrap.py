"""Bootstrap intervals over queries: for one mean, a mean of means over splits, or a paired difference.

Source: Efron 1987, Better bootstrap confidence intervals, https://doi.org/10.1080/01621459.1987.10478410.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from mteb_longembed.errors import DataError
from mteb_longembed.statistics.binomial import proportion_interval
from mteb_longembed.statistics.intervals import CONFIDENCE, Interval

N_RESAMPLES = 9999
# BCa leaves out every query once, so its time is quadratic. It corrects a bias that vanishes with many queries.
BCA_MAX = 1000
# Resamples in memory at the same time: about 40 MB for NarrativeQA's 10,449 queries.
BATCH = 500


def mean_interval(scores: ArrayLike, *, seed: int = 0) -> Interval:
    """The 95 % interval of the mean over queries.

    Args:
        scores: One score for each query.
        seed: Seed of the resampling; the same seed gives the same answer.

    Raises:
        DataError: If there is no score.

    >>> interval = mean_interval([0, 0, 1, 1, 1, 1, 1, 1, 1, 1])
    >>> interval.mean, interval.low < 0.8 < interval.high
    (0.8, True)
    """
    return mean_of_means_interval([scores], seed=seed)


def queries_interval(scores: Sequence[float], metric: str) -> Interval:
    """The 95 % interval of a mean over queries: Wilson's interval for right answers, otherwise the bootstrap's.

    Args:
        scores: one score from 0 to 1 for each query.
        metric: mteb's name of the metric, such as `ndcg_at_10`.

    Raises:
        DataError: If there is no score.
    """
    if metric == "ndcg_at_1" and scores and set(scores) <= {0.0, 1.0}:
        return proportion_interval(sum(scores) / len(scores), len(scores))
    return mean_interval(scores)


def mean_of_means_interval(groups: Sequence[ArrayLike], *, seed: int = 0) -> Interval:
    """The 95 % interval of the mean of group means. A group is one split with its queries.

    Each group is resampled on its own, so that it keeps its number of queries and its weight. If all scores within
    every group are equal, both ends are the mean. If a group has one query only, there is no interval. A single
    group of at most 1,000 queries gets the BCa interval, all others get the percentile interval.

    Args:
        groups: For each group, one score for each query.
        seed: Seed of the resampling; the same seed gives the same answer.

    Raises:
        DataError: If there is no group, or if a group has no score.
    """
    samples = [np.asarray(group, dtype=float) for group in groups]
    if not samples or min(sample.size for sample in samples) == 0:
        sizes = [sample.size for sample in samples]
        raise DataError(f"an interval needs at least one score in every group, got groups of {sizes} scores.")
    mean = float(mean_of_means(*samples))
    if min(sample.size for sample in samples) < 2:
        return Interval(mean, math.nan, math.nan)
    if all(np.ptp(sample) == 0 for sample in samples):
        # All resamples would be equal, and BCa would divide by zero.
        return Interval(mean, mean, mean)
    result = stats.bootstrap(
        tuple(samples),
        mean_of_means,
        vectorized=True,
        n_resamples=N_RESAMPLES,
        batch=BATCH,
        confidence_level=CONFIDENCE,
        method="BCa" if len(samples) == 1 and samples[0].size <= BCA_MAX else "percentile",
        rng=np.random.default_rng(seed),
    )
    return Interval(mean, float(result.confidence_interval.low), float(result.confidence_interval.high))


def difference_interval(
    first: Sequence[ArrayLike], second: Sequence[ArrayLike], *, seed: int = 0
) -> Interval:
    """The 95 % interval of `second - first`. Both must have the same queries in the same order.

    Args:
        first: For each group (each split is one), one score for each query; `paired.pair` makes them.
        second: The same for the other model.
        seed: Seed of the resampling; the same seed gives the same answer.

    Raises:
        DataError: If the numbers of groups or of queries differ, or if there is no score.
    """
    return mean_of_means_interval(differences(first, second), seed=seed)


def differences(first: Sequence[ArrayLike], second: Sequence[ArrayLike]) -> list[NDArray[np.float64]]:
    """`second - first` for each query of each group.

    Raises:
        DataError: If the numbers of groups or of queries differ.
    """
    sizes = [[np.size(group) for group in groups] for groups in (first, second)]
    if sizes[0] != sizes[1]:
        raise DataError(
            f"a paired difference needs the same queries on both sides, got groups of {sizes[0]} and {sizes[1]}."
        )
    return [
        np.asarray(b, dtype=float) - np.asarray(a, dtype=float) for a, b in zip(first, second, strict=True)
    ]


def mean_of_means(*groups: Any, axis: int = -1) -> Any:
    """The mean of the groups' means along an axis."""
    return sum(np.mean(group, axis=axis) for group in groups) / len(groups)
