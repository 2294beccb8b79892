import pytest

from mteb_longembed.statistics.resampling import mean_interval


@pytest.mark.parametrize("n", [6, 50, 2000])
@pytest.mark.parametrize("score", [0.0, 1.0])
def test_all_right_and_all_wrong_have_the_exact_interval_of_a_share(n, score) -> None:
    # By hand, from Clopper and Pearson: n of n are right in 2.5 % of cases where a share of .025 ** (1 / n) is.
    missing = 1 - 0.025 ** (1 / n)
    interval = mean_interval([score] * n)
    assert abs(interval.low - interval.high) == pytest.approx(missing)
    assert score in (interval.low, interval.high)
