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
    """The mean scores by third of the document, and how much they differ.

    Args:
        thirds: mean scores of queries whose answer is in the first, second and last third.
        index: `1 - least / greatest` of the thirds, with the 95 % interval of a bootstrap within thirds.
        noise: the 95th percentile of the index if the places are shuffled. A smaller index says nothing.
    """

    thirds: tuple[float, ...]
    index: Interval
    noise: float


def position_sensitivity(
    scores: Sequence[float], depths: Sequence[float], seed: int = 0
) -> Sensitivity | None:
    """The Position Sensitivity Index of Zeng et al. 2025, over thirds of the document.

    Source: arXiv:2505.13950, section 3: `PSI = 1 - min(group scores) / max(group scores)`.
    Differs: the interval and the noise are ours, because the index of few queries is far above 0 by chance alone.

    Args:
        scores: one for each query, from 0 to 1.
        depths: for each query, the place of its answer, from 0 (the beginning of the document) to 1 (its end).
        seed: seed of the resampling.

    Returns:
        None if a third has no query, or if no query has a score above 0.

    >>> found = position_sensitivity([1, 1, 1, 0, 0, 0, 1, 0, 1], [0, 0.1, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 1])
    >>> [round(third, 2) for third in found.thirds], found.index.mean
    ([1.0, 0.0, 0.67], 1.0)
    """
    values = np.asarray(scores, float)
    places = np.minimum((np.asarray(depths, float) * N_PARTS).astype(int), N_PARTS - 1)
    groups = [values[places == third] for third in range(N_PARTS)]
    if min(group.size for group in groups) == 0 or not values.any():
        return None
    rng = np.random.default_rng(seed)
    drawn = np.array(
        [[rng.choice(group, group.size).mean() for group in groups] for _ in range(N_RESAMPLES // 5)]
    )
    ends = np.cumsum([group.size for group in groups])[:-1]
    shuffled = (np.split(rng.permutation(values), ends) for _ in range(N_RESAMPLES // 5))
    noise = [[part.mean() for part in parts] for parts in shuffled]
    low, high = np.quantile(_index(drawn), [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    thirds = np.array([group.mean() for group in groups])
    index = Interval(float(_index(thirds)), float(low), float(high))
    return Sensitivity(tuple(thirds.tolist()), index, float(np.quantile(_index(np.array(noise)), CONFIDENCE)))


def _index(means: np.ndarray) -> np.ndarray:
    greatest = means.max(-1)
    return 1 - np.divide(means.min(-1), greatest, out=np.ones_like(greatest), where=greatest > 0)
