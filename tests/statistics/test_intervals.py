import math

import pytest

from mteb_longembed.statistics.bootstrap import mean_interval
from mteb_longembed.statistics.intervals import proportion_interval


def _wilson(right: int, n: int) -> tuple[float, float]:
    # By hand, from Wilson's formula.
    z, p = 1.959964, right / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half_width = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return middle - half_width, middle + half_width


@pytest.mark.parametrize("right", [0, 1, 25, 49, 50])
def test_one_share_has_wilsons_interval(right):
    of_queries = mean_interval([1.0] * right + [0.0] * (50 - right))
    for interval in (proportion_interval(right / 50, 50), of_queries):
        assert (interval.low, interval.high) == pytest.approx(_wilson(right, 50), abs=1e-6)
