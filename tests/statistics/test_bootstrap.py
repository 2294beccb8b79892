from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mteb_longembed.errors import DataError
from mteb_longembed.statistics.bootstrap import difference_interval, mean_interval, mean_of_means_interval


def test_one_mean_has_scipys_bca_interval():
    scores = np.random.default_rng(1).random(60)
    found = mean_interval(scores)
    theirs = stats.bootstrap((scores,), np.mean, method="BCa", n_resamples=9999, rng=np.random.default_rng(7))
    assert found.mean == pytest.approx(scores.mean())
    assert found.low == pytest.approx(theirs.confidence_interval.low, abs=0.01)
    assert found.high == pytest.approx(theirs.confidence_interval.high, abs=0.01)


def test_a_mean_of_many_queries_has_the_normal_interval():
    scores = np.random.default_rng(2).random(4000)
    half = 1.96 * scores.std() / np.sqrt(len(scores))
    found = mean_interval(scores)
    assert found.low == pytest.approx(scores.mean() - half, abs=0.05 * half)
    assert found.high == pytest.approx(scores.mean() + half, abs=0.05 * half)


def test_groups_weigh_the_same_and_are_resampled_by_themselves():
    rng = np.random.default_rng(3)
    few, many = rng.random(40), rng.random(900)
    found = mean_of_means_interval([few, many])
    half = 1.96 * np.sqrt(few.var() / 40 + many.var() / 900) / 2  # the variance of a mean of two means
    assert found.mean == pytest.approx((few.mean() + many.mean()) / 2)
    assert found.high - found.low == pytest.approx(2 * half, rel=0.06)


def test_a_paired_difference_forgets_what_both_share():
    rng = np.random.default_rng(4)
    hard = rng.random(50)
    found = difference_interval([hard], [hard + 0.1 + 0.001 * rng.random(50)])
    assert 0.1 < found.low < found.high < 0.101


def test_equal_scores_have_both_ends_at_the_mean():
    found = mean_interval([1.0] * 20)
    assert (found.mean, found.low, found.high, found.is_known) == (1, 1, 1, True)


def test_one_query_has_no_interval():
    found = mean_interval([1.0])
    assert found.mean == 1
    assert not found.is_known


def test_no_query_is_an_error():
    with pytest.raises(DataError, match="at least one score in every group"):
        mean_of_means_interval([[1.0, 0.0], []])


def test_a_difference_of_other_queries_is_an_error():
    with pytest.raises(DataError, match=r"got groups of \[2\] and \[3\]"):
        difference_interval([[1, 0]], [[1, 0, 1]])


def test_the_same_seed_gives_the_same_interval():
    scores = np.random.default_rng(5).random(30)
    assert mean_interval(scores, seed=3) == mean_interval(scores, seed=3)


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    rng = np.random.default_rng(6)
    n_covered = 0
    for _ in range(40):
        found = mean_interval(rng.normal(0.1, 0.3, size=50))
        n_covered += found.low <= 0.1 <= found.high
    assert n_covered >= 33  # binomial(40, 0.95): fewer than 33 once in ten thousand
