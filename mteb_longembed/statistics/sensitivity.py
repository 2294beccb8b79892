"""Does the place of the answer within a document matter? The position sensitivity of one model on one task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mteb_longembed.statistics.bootstrap import N_RESAMPLES
from mteb_longembed.statistics.intervals import CONFIDENCE, Interval

N_PARTS = 3


@dataclass(frozen=True)
class Sensitivity:
    """How much the mean scores differ by the third of the document that has the answer.

    The index is `1 - least / greatest` of the thirds. Its 95 % interval draws the share of right answers of each third
    from Jeffreys' distribution, so none has width 0.
    """

    thirds: tuple[float, ...]  # mean scores
    index: Interval
    noise: float  # the 95th percentile of the index if the places are shuffled: a smaller index says nothing


def position_sensitivity(
    scores: Sequence[float], depths: Sequence[float], seed: int = 0
) -> Sensitivity | None:
    """The Position Sensitivity Index of Zeng et al. 2025, over thirds of the document.

    Source: arXiv:2505.13950, section 3: `PSI = 1 - min(group scores) / max(group scores)`.
    Differs: the interval and the noise are ours, because the index of few queries is far above 0 by chance alone.

    A score is 1 for a right answer and otherwise 0; a depth is the place of the answer, from 0 (the
    document's beginning) to 1 (its end). None if a third has no query, or if no query has a score above 0.

    >>> found = position_sensitivity([1, 1, 1, 0, 0, 0, 1, 0, 1], [0, 0.1, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 1])
    >>> [round(third, 2) for third in found.thirds], found.index.mean
    ([1.0, 0.0, 0.67], 1.0)
    """
    right = np.asarray(scores) > 0
    parts = np.minimum((np.asarray(depths, float) * N_PARTS).astype(int), N_PARTS - 1)
    sizes = np.bincount(parts, minlength=N_PARTS)
    if sizes.min() == 0 or not right.any():
        return None
    right_by_part = np.bincount(parts, right, minlength=N_PARTS)
    index = float(_index(right_by_part / sizes))
    rng = np.random.default_rng(seed)
    drawn = _index(rng.beta(right_by_part + 0.5, sizes - right_by_part + 0.5, (N_RESAMPLES, N_PARTS)))
    low, high = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    shuffled = rng.multivariate_hypergeometric(sizes, right.sum(), N_RESAMPLES) / sizes
    noise = float(np.quantile(_index(shuffled), CONFIDENCE))
    thirds = tuple((right_by_part / sizes).tolist())
    return Sensitivity(thirds, Interval(index, min(low, index), max(high, index)), noise)


def _index(means: np.ndarray) -> np.ndarray:
    greatest = means.max(-1)
    return 1 - np.divide(means.min(-1), greatest, out=np.ones_like(greatest), where=greatest > 0)
