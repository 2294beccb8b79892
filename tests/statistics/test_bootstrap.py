import itertools
import math

import numpy as np
import pytest
from scipy import stats

from mteb_longembed.errors import DataError
from mteb_longembed.statistics.bootstrap import (
    adjust,
    difference_interval,
    mean_interval,
    mean_of_means_interval,
    randomisation_test,
)


def test_one_mean_has_scipys_bca_interval():
    scores = np.random.default_rng(1).random(60)
    interval = mean_interval(scores)
    theirs = stats.bootstrap((scores,), np.mean, method="BCa", n_resamples=9999, rng=np.random.default_rng(7))
    assert interval.mean == pytest.approx(scores.mean())
    assert interval.low == pytest.approx(theirs.confidence_interval.low, abs=0.01)
    assert interval.high == pytest.approx(theirs.confidence_interval.high, abs=0.01)


def test_a_mean_of_many_queries_has_the_bootstraps_interval_also_if_most_are_zero():
    rng = np.random.default_rng(2)
    scores = rng.random(1100) * (rng.random(1100) < 0.1)
    resampled = stats.bootstrap((scores,), np.mean, n_resamples=9999, batch=500, method="percentile", rng=rng)
    ends = resampled.confidence_interval
    half_width = (ends.high - ends.low) / 2
    interval = mean_interval(scores)
    assert interval.low == pytest.approx(ends.low, abs=0.1 * half_width)
    assert interval.high == pytest.approx(ends.high, abs=0.1 * half_width)


def test_a_paired_difference_forgets_what_both_share():
    rng = np.random.default_rng(4)
    hard = rng.random(50)
    interval = difference_interval([hard], [hard + 0.1 + 0.001 * rng.random(50)])
    assert 0.1 < interval.low < interval.high < 0.101


def test_the_mean_over_splits_of_right_answers_has_the_stratified_bootstraps_interval():
    groups = [[1.0] * right + [0.0] * (50 - right) for right in (10, 25, 45)]
    ours = mean_of_means_interval(groups)
    theirs = stats.bootstrap(
        tuple(map(np.array, groups)), lambda *g, axis=-1: sum(np.mean(x, axis=axis) for x in g) / len(g),
        method="percentile", vectorized=True, rng=np.random.default_rng(9),
    ).confidence_interval  # fmt: skip
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1.01 / 150)  # one answer


def test_a_split_where_all_is_right_keeps_its_doubt_in_a_mean():
    spread = [1.0] * 25 + [0.0] * 25
    perfect = [1.0] * 50
    interval = mean_of_means_interval([perfect, spread])
    low = stats.binomtest(50, 50).proportion_ci(0.95, method="wilson").low
    spread_low = stats.binomtest(25, 50).proportion_ci(0.95, method="wilson").low
    by_hand = 0.75 - np.hypot((1 - low) / 2, (0.5 - spread_low) / 2)
    assert interval.low == pytest.approx(by_hand)


@pytest.mark.parametrize("score", [0.0, 0.37, 1.0])
@pytest.mark.parametrize("n", [2, 50, 2000])
@pytest.mark.parametrize("n_splits", [1, 3])
def test_no_interval_has_width_0(score, n, n_splits):
    for interval in (
        mean_of_means_interval([[score] * n] * n_splits),
        difference_interval([[0.0] * n] * n_splits, [[score] * n] * n_splits),
    ):
        assert interval.low < interval.high
        assert interval.low <= interval.mean <= interval.high


def test_one_score_has_no_interval_and_shows_nothing():
    assert mean_interval([0.4]).mean == 0.4 and not mean_interval([0.4]).is_known
    assert randomisation_test([[0.0]], [[1.0]]) == 1.0


def test_equal_scores_leave_room_for_as_many_others_as_wilson_does():
    # None of 50 queries differs from 0.6: by Wilson at most 7.1 % of all do, and they have 0 or 1 at most.
    share = stats.binomtest(0, 50).proportion_ci(0.95, method="wilson").high
    interval = mean_interval([0.6] * 50)
    assert (interval.low, interval.high) == pytest.approx((0.6 - 0.6 * share, 0.6 + 0.4 * share))


def test_weights_are_those_of_the_mean():
    rng = np.random.default_rng(8)
    one, two = rng.random(60), rng.random(900)
    interval = mean_of_means_interval([one, two], [0.9, 0.1])
    half_width = 1.96 * np.sqrt(0.81 * one.var() / 60 + 0.01 * two.var() / 900)
    assert interval.mean == pytest.approx(0.9 * one.mean() + 0.1 * two.mean())
    assert interval.high - interval.low == pytest.approx(2 * half_width, rel=0.06)


def test_no_query_is_an_error():
    with pytest.raises(DataError, match="at least one score in every group"):
        mean_of_means_interval([[1.0, 0.0], []])


def test_a_difference_of_other_queries_is_an_error():
    with pytest.raises(DataError, match=r"got groups of \[2\] and \[3\]"):
        difference_interval([[1, 0]], [[1, 0, 1]])


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    rng = np.random.default_rng(6)
    n_covered = 0
    for _ in range(40):
        interval = mean_interval(rng.normal(0.1, 0.3, size=50))
        n_covered += interval.low <= 0.1 <= interval.high
    assert n_covered >= 33  # binomial(40, 0.95): fewer than 33 once in ten thousand


def test_the_p_value_is_that_of_all_sign_flips():
    rng = np.random.default_rng(0)
    first, second = rng.random(8), rng.random(8)
    seen = abs((second - first).mean())
    signs = np.array(list(itertools.product((1, -1), repeat=8)))
    expected = (abs((signs * (second - first)).mean(axis=1)) >= seen - 1e-12).mean()
    assert randomisation_test([first], [second]) == pytest.approx(expected)


def test_of_many_queries_the_p_value_is_that_of_scipys_permutation_test():
    rng = np.random.default_rng(5)
    first = rng.random(40)
    second = first + rng.normal(0.05, 0.15, 40)
    expected = stats.permutation_test(
        (second - first,), np.sum, permutation_type="samples", n_resamples=20_000, rng=rng
    ).pvalue
    assert 0.02 < expected < 0.5
    assert randomisation_test([first], [second]) == pytest.approx(expected, abs=0.01)


def test_differences_that_cancel_are_no_difference():
    assert randomisation_test([[0.1, 0.3, 0.6, 0.9]], [[0.5, 0.5, 0.5, 0.4]]) == 1.0


def test_an_interval_stays_among_the_possible_scores():
    assert mean_interval([1.0] * 1000 + [0.5]).high == 1.0
    assert mean_interval([0.0] * 1000 + [0.5]).low == 0.0


def test_a_score_that_is_no_number_is_an_error():
    with pytest.raises(DataError, match="a number for every query, got nan"):
        mean_of_means_interval([[math.nan, 1.0, 0.0], [1.0, 0.0]])


def test_groups_weigh_the_same_in_the_test():
    # The one query of the small group weighs as much as all ten of the other: only its sign counts.
    first, second = [np.zeros(1), np.zeros(10)], [np.ones(1), np.full(10, 0.01)]
    weights = np.array([1 / 2] + [0.01 / 20] * 10)
    signs = np.array(list(itertools.product((1, -1), repeat=11)))
    expected = (abs(signs @ weights) >= weights.sum() - 1e-12).mean()
    assert randomisation_test(first, second) == pytest.approx(expected)


def test_the_same_seed_gives_the_same_answer_and_equal_scores_no_difference():
    rng = np.random.default_rng(1)
    first, second = rng.random(40), rng.random(40)
    assert mean_interval(first) == mean_interval(first)
    tests = [randomisation_test([first], [second]) for _ in range(2)]
    assert tests[0] == tests[1]
    assert randomisation_test([first], [first]) == 1


def test_adjusted_p_values_are_benjamini_and_hochbergs():
    assert adjust([]) == []
    p_values = [0.001, 0.2, 0.03, 0.03, 0.8]
    # By hand: sorted .001 .03 .03 .2 .8, times 5 / rank, then the lowest of itself and all above it.
    assert adjust(p_values) == pytest.approx([0.005, 0.25, 0.05, 0.05, 0.8])
