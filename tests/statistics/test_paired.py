from __future__ import annotations

import itertools

import numpy as np
import pytest

from mteb_longembed.statistics.bootstrap import adjust, randomisation_test


def test_the_p_value_is_that_of_all_sign_flips():
    rng = np.random.default_rng(0)
    first, second = rng.random(8), rng.random(8)
    seen = abs((second - first).mean())
    signs = np.array(list(itertools.product((1, -1), repeat=8)))
    expected = (abs((signs * (second - first)).mean(axis=1)) >= seen - 1e-12).mean()
    assert randomisation_test([first], [second]) == pytest.approx(expected)


def test_groups_weigh_the_same_in_the_test():
    # The one query of the small group weighs as much as all ten of the other: only its sign counts.
    first, second = [np.zeros(1), np.zeros(10)], [np.ones(1), np.full(10, 0.01)]
    weights = np.array([1 / 2] + [0.01 / 20] * 10)
    signs = np.array(list(itertools.product((1, -1), repeat=11)))
    expected = (abs(signs @ weights) >= weights.sum() - 1e-12).mean()
    assert randomisation_test(first, second) == pytest.approx(expected)


def test_equal_scores_are_no_difference():
    assert randomisation_test([[0.5, 1.0]], [[0.5, 1.0]]) == 1


def test_the_same_seed_gives_the_same_p_value():
    rng = np.random.default_rng(1)
    first, second = [rng.random(40)], [rng.random(40)]
    assert randomisation_test(first, second, seed=2) == randomisation_test(first, second, seed=2)


def test_adjusted_p_values_are_benjamini_and_hochbergs():
    p_values = [0.001, 0.2, 0.03, 0.03, 0.8]
    # By hand: sorted .001 .03 .03 .2 .8, times 5 / rank, then the lowest of itself and all above it.
    assert adjust(p_values) == pytest.approx([0.005, 0.25, 0.05, 0.05, 0.8])


def test_nothing_to_adjust_is_nothing():
    assert adjust([]) == []
