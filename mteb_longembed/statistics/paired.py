"""Is a difference real? The paired randomisation test over queries, and the adjustment for many tests.

Source: Smucker, Allan & Carterette 2007, A comparison of statistical significance tests for information
    retrieval evaluation, https://doi.org/10.1145/1321440.1321528; Benjamini & Hochberg 1995.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from mteb_longembed.statistics.bootstrap import BATCH, N_RESAMPLES, differences


def randomisation_test(first: Sequence[ArrayLike], second: Sequence[ArrayLike], *, seed: int = 0) -> float:
    """The two-sided p-value of a mean difference: how often do random signs give a difference as large?

    If there are at most 9,999 sign patterns, all are tried; otherwise 9,999 random ones.

    >>> randomisation_test([[0, 0, 0]], [[1, 1, 1]])  # 2 of the 2 ** 3 patterns are as extreme
    0.25
    """
    found = differences(first, second)
    if all(not group.any() for group in found):
        return 1.0
    # One row of weighted differences. Their sum is the mean of the groups' means.
    weighted = np.concatenate([group / (len(group) * len(found)) for group in found])
    result = stats.permutation_test(
        (weighted,),
        lambda sample, axis: np.sum(sample, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=N_RESAMPLES,
        batch=BATCH,
        rng=np.random.default_rng(seed),
    )
    return float(result.pvalue)


def adjust(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted for the number of tests, by Benjamini and Hochberg (false discovery rate).

    >>> [round(p, 3) for p in adjust([0.01, 0.04, 0.03])]
    [0.03, 0.04, 0.04]
    """
    return [float(p) for p in stats.false_discovery_control(p_values)] if len(p_values) else []
