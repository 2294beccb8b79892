"""The position sensitivity against hand arithmetic, and against scores that depend on nothing."""

import numpy as np
import pytest

from mteb_longembed.statistics.sensitivity import position_sensitivity


def test_the_index_is_one_minus_the_least_over_the_greatest_third() -> None:
    result = position_sensitivity([1, 1, 1, 0, 1, 0, 0, 1], [0, 0.2, 0.3, 0.35, 0.5, 0.7, 0.9, 1])
    assert result.thirds == pytest.approx((1, 1 / 2, 1 / 3))
    assert result.index.mean == pytest.approx(1 - 1 / 3)
    assert result.index.low <= result.index.mean <= result.index.high


@pytest.mark.parametrize(("scores", "depths"), [([1, 1], [0, 0.5]), ([0, 0, 0], [0, 0.5, 1])])
def test_without_a_third_or_a_hit_there_is_no_index(scores, depths) -> None:
    assert position_sensitivity(scores, depths) is None


def test_scores_that_do_not_depend_on_the_place_stay_within_the_noise_nineteen_times_of_twenty() -> None:
    rng = np.random.default_rng(1)
    inside = 0
    for seed in range(60):
        result = position_sensitivity(rng.random(150) < 0.6, rng.random(150), seed)
        inside += result.index.mean <= result.noise
    assert inside >= 51  # 57 are expected; fewer than 51 have a probability below 1 %


def test_scores_that_fall_with_the_place_are_far_above_the_noise() -> None:
    depths = np.random.default_rng(2).random(300)
    result = position_sensitivity(depths < 0.5, depths)
    assert result.index.low > result.noise
