"""One matrix of resamples: compared with direct calculations, with scipy, and with simulated candidates."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mteb_longembed.errors import DataError
from mteb_longembed.statistics.resampling import (
    LEVEL,
    Resamples,
    adjust,
    drawn_means,
    mean_interval,
    resample,
)


def candidates(*scores: list[float]) -> Resamples:
    return resample("abcdefghij"[: len(scores)], [scores])


def test_a_mean_has_scipys_interval_for_the_same_confidence() -> None:
    scores = np.random.default_rng(1).random(60)
    interval = mean_interval(scores)
    theirs = stats.bootstrap((scores,), np.mean, method="BCa", n_resamples=9999, rng=np.random.default_rng(7))
    assert interval.mean == pytest.approx(scores.mean())
    assert interval.low == pytest.approx(theirs.confidence_interval.low, abs=0.01)
    assert interval.high == pytest.approx(theirs.confidence_interval.high, abs=0.01)


def test_a_mean_of_many_queries_has_the_bootstraps_interval_also_if_most_are_zero() -> None:
    rng = np.random.default_rng(2)
    scores = rng.random(1100) * (rng.random(1100) < 0.1)
    resampled = stats.bootstrap((scores,), np.mean, n_resamples=9999, batch=500, method="percentile", rng=rng)
    ends = resampled.confidence_interval
    half_width = (ends.high - ends.low) / 2
    interval = mean_interval(scores)
    assert interval.low == pytest.approx(ends.low, abs=0.1 * half_width)
    assert interval.high == pytest.approx(ends.high, abs=0.1 * half_width)


def test_of_few_queries_all_resamples_are_taken() -> None:
    rows = np.array([[1.0, 0.0, 0.5], [0.2, 0.9, 0.3]])
    means = np.array([rows[:, list(drawn)].mean(axis=1) for drawn in itertools.product(range(3), repeat=3)])
    factor = stats.t.ppf(0.975, 2) / stats.norm.ppf(0.975) * math.sqrt(3 / 2)
    wider = rows.mean(axis=1) + factor * (means - rows.mean(axis=1))
    found = drawn_means(rows, 0, exact=True)
    assert sorted(map(tuple, found.round(9))) == sorted(map(tuple, wider.round(9)))
    first = wider >= wider.max(axis=1, keepdims=True) - 1e-12
    shares = candidates(*rows.tolist()).first_shares("ab")
    assert list(shares.values()) == pytest.approx((first / first.sum(axis=1, keepdims=True)).mean(axis=0))


def test_a_paired_difference_forgets_what_both_share() -> None:
    rng = np.random.default_rng(4)
    hard = rng.random(50)
    samples = resample(["first", "second"], [[hard, hard + 0.1 + 0.001 * rng.random(50)]])
    interval = samples.difference("first", "second")
    assert 0.1 < interval.low < interval.high < 0.101


scores = st.lists(st.sampled_from([0.0, 0.3, 0.5, 0.63, 1.0]), min_size=2, max_size=40)


@settings(max_examples=200, deadline=None)
@given(scores, st.randoms(use_true_random=False))
def test_interval_and_p_value_never_contradict_each_other(first, random) -> None:
    second = [min(1.0, max(0.0, x + random.choice([-0.3, 0.0, 0.3, 0.3]))) for x in first]
    samples = candidates(first, second)
    interval = samples.difference("a", "b")
    assert (samples.p_value("a", "b") <= LEVEL) == (interval.low > 0 or interval.high < 0)
    assert samples.is_behind("b", "a") == (interval.high < 0)
    assert interval.low <= interval.mean <= interval.high
    shares = samples.first_shares("ab")
    if samples.is_behind("b", "a"):
        assert shares["a"] >= 1 - LEVEL / 2


@pytest.mark.parametrize("score", [0.0, 0.37, 1.0])
@pytest.mark.parametrize("n", [2, 50, 2000])
@pytest.mark.parametrize("n_splits", [1, 3])
def test_no_interval_has_width_0(score, n, n_splits) -> None:
    samples = resample("ab", [[[0.0] * n, [score] * n]] * n_splits)
    for interval in (samples.mean("b"), samples.difference("a", "b")):
        assert interval.low < interval.high
        assert interval.low <= interval.mean <= interval.high


def test_equal_scores_leave_room_for_as_many_others_as_wilson_does() -> None:
    # None of 50 queries differs from 0.6: by Wilson at most 7.1 % of all do, and they have 0 or 1 at most.
    share = stats.binomtest(0, 50).proportion_ci(0.95, method="wilson").high
    interval = mean_interval([0.6] * 50)
    assert (interval.low, interval.high) == pytest.approx((0.6 - 0.6 * share, 0.6 + 0.4 * share))


def test_a_split_where_all_is_right_keeps_its_doubt_in_a_mean() -> None:
    spread = [1.0] * 25 + [0.0] * 25
    joined = resample("a", [[[1.0] * 50], [spread]]).mean("a")
    alone = resample("a", [[spread], [spread]]).mean("a")
    low = stats.binomtest(50, 50).proportion_ci(0.95, method="wilson").low
    assert joined.low == pytest.approx(0.75 - np.hypot((1 - low) / 2, (0.5 - alone.low) / 2**0.5), abs=0.01)


def test_one_score_has_no_interval_and_shows_nothing() -> None:
    assert mean_interval([0.4]).mean == 0.4 and math.isnan(mean_interval([0.4]).low)
    assert candidates([0.0], [1.0]).p_value("a", "b") == 1.0


def test_few_queries_put_nobody_behind_however_large_the_difference() -> None:
    for n, is_behind in ((3, False), (5, False), (6, True), (20, True)):
        rng = np.random.default_rng(n)
        high = 0.9 + 0.05 * rng.random(n)
        low = high - 0.8 + 0.01 * rng.random(n)
        assert candidates(high.tolist(), low.tolist()).is_behind("b", "a") == is_behind


def test_equivalence_is_two_one_sided_tests() -> None:
    rng = np.random.default_rng(3)
    base = rng.random(400)
    near = base - 0.005 + rng.normal(0, 0.02, 400)
    far = base - 0.03 + rng.normal(0, 0.02, 400)
    samples = candidates(base.tolist(), near.tolist(), far.tolist())
    wide, narrow = samples.difference("a", "b"), samples.equivalence("a", "b")
    assert -0.02 < narrow.low < narrow.high < 0.02 and samples.equivalence("a", "c").low < -0.02
    assert wide.low < narrow.low < narrow.mean < narrow.high < wide.high


def test_splits_weigh_as_in_the_score_and_each_query_of_a_small_one_more() -> None:
    many = np.array([[1.0] * 90, [0.0] * 90])
    few = np.array([[0.0] * 10, [1.0] * 10])
    heavy = resample("ab", [many, few], [0.1, 0.9])
    assert heavy.first_shares("ab") == {"a": 0.0, "b": 1.0}
    assert heavy.means["b"] == pytest.approx(0.9)


def test_weights_are_those_of_the_mean() -> None:
    rng = np.random.default_rng(8)
    one, two = rng.random(60), rng.random(900)
    interval = resample("a", [[one], [two]], [0.9, 0.1]).mean("a")
    half_width = 1.96 * np.sqrt(0.81 * one.var() / 60 + 0.01 * two.var() / 900)
    assert interval.mean == pytest.approx(0.9 * one.mean() + 0.1 * two.mean())
    assert interval.high - interval.low == pytest.approx(2 * half_width, rel=0.06)


def test_identical_candidates_share_every_resample_and_are_the_same() -> None:
    samples = candidates([1.0, 0.0, 1.0], [1.0, 0.0, 1.0], [1.0, 0.0, 0.9])
    assert samples.first_shares("ab") == {"a": 0.5, "b": 0.5}
    assert samples.are_same("a", "b") and not samples.are_same("a", "c")
    assert samples.p_value("a", "b") == 1.0 and samples.more_queries("a", "b") == math.inf


def test_with_the_number_of_queries_that_is_said_a_test_finds_the_difference_in_80_percent_of_cases() -> None:
    rng = np.random.default_rng(5)
    difference = rng.normal(0.05, 0.3, 40)
    samples = candidates([0.5] * 40, (0.5 + difference).tolist())
    n = 40 + math.ceil(samples.more_queries("a", "b"))
    mean, spread = difference.mean(), difference.std(ddof=1)
    found = rng.normal(mean, spread, (4000, n)).mean(axis=1) / spread * math.sqrt(n)
    assert np.mean(np.abs(found) > 1.96) == pytest.approx(0.8, abs=0.02)


def like_ndcg(rng: np.random.Generator, n_queries: int) -> Resamples:
    """Two equal candidates: each query has a difficulty, and each draws a rank of its one relevant document."""
    easy = np.clip(rng.beta(0.6, 0.4, n_queries), 0.05, 0.98)
    ranks = rng.geometric(easy, size=(2, n_queries))
    return resample("ab", [np.where(ranks <= 10, 1 / np.log2(ranks + 1), 0.0)])


@pytest.mark.parametrize("n_queries", [8, 12, 50])
def test_of_equal_candidates_one_is_behind_in_about_five_percent(n_queries) -> None:
    rng = np.random.default_rng(1)
    n_behind = 0
    for _ in range(1000):
        samples = like_ndcg(rng, n_queries)
        n_behind += samples.is_behind("a", "b") or samples.is_behind("b", "a")
    assert n_behind <= 65


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    rng = np.random.default_rng(6)
    n_covered = 0
    for _ in range(200):
        interval = mean_interval(np.clip(rng.normal(0.5, 0.15, size=15), 0, 1))
        n_covered += interval.low <= 0.5 <= interval.high
    assert 180 <= n_covered <= 199  # binomial(200, 0.95)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([[[1.0, 0.0]], [[]]], "at least one score in every group"),
        ([[[math.nan, 1.0]]], "a number for every query, got nan"),
    ],
)
def test_what_is_no_score_is_refused(groups, message) -> None:
    with pytest.raises(DataError, match=message):
        resample("a", groups)


def test_an_interval_stays_among_the_possible_scores_and_is_the_same_every_time() -> None:
    assert mean_interval([1.0] * 1000 + [0.5]).high == 1.0
    assert mean_interval([0.0] * 1000 + [0.5]).low == 0.0
    assert mean_interval([0.1, 0.9, 0.4]) == mean_interval([0.1, 0.9, 0.4])


def test_adjusted_p_values_are_benjamini_and_hochbergs() -> None:
    assert adjust([]) == []
    # By hand: sorted .001 .03 .03 .2 .8, times 5 / rank, then the lowest of itself and all above it.
    assert adjust([0.001, 0.2, 0.03, 0.03, 0.8]) == pytest.approx([0.005, 0.25, 0.05, 0.05, 0.8])
