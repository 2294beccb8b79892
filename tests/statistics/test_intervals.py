import math

import pytest

from mteb_longembed.statistics.resampling import mean_interval, proportion_interval


def _wilson(right: int, n: int) -> tuple[float, float]:
    # By hand, from Wilson's formula.
    z, p = 1.959964, right / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half_width = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return middle - half_width, middle + half_width


@pytest.mark.parametrize("right", [0, 1, 25, 49, 50])
def test_a_share_has_wilsons_interval(right):
    interval = proportion_interval(right / 50, 50)
    assert (interval.low, interval.high) == pytest.approx(_wilson(right, 50), abs=1e-6)


@pytest.mark.parametrize("right", [0, 50])
def test_all_right_and_all_wrong_have_it_too(right):
    interval = mean_interval([1.0] * right + [0.0] * (50 - right))
    assert (interval.low, interval.high) == pytest.approx(_wilson(right, 50), abs=1e-6)
