"""One matrix of resamples: compared with direct calculations, with scipy, and with simulated candidates."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mteb_longembed.errors import DataError
from mteb_longembed.statistics import resampling
from mteb_longembed.statistics.resampling import (
    N_RESAMPLES,
    Resamples,
    drawn_counts,
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


def test_a_row_of_the_matrix_says_how_often_each_query_was_drawn() -> None:
    counts = drawn_counts(np.random.default_rng(3), 7, 40)
    drawn = np.random.default_rng(3).integers(0, 7, (40, 7))
    for row, of_row in zip(counts, drawn, strict=True):
        assert row.tolist() == [Counter(of_row.tolist())[query] for query in range(7)]


def test_the_matrix_is_made_in_parts_and_each_mean_is_that_of_drawn_queries(monkeypatch) -> None:
    rows = np.random.default_rng(4).random((3, 30))
    sizes = []

    def recorded(rng: np.random.Generator, n: int, size: int) -> np.ndarray:
        sizes.append(size)
        return drawn_counts(rng, n, size)

    monkeypatch.setattr(resampling, "_PART", 30 * 900)
    monkeypatch.setattr(resampling, "drawn_counts", recorded)
    found = drawn_means(rows, 0)
    assert max(sizes) == 900 and sum(sizes) == N_RESAMPLES == len(found)
    factor = stats.t.ppf(0.975, 29) / stats.norm.ppf(0.975) * math.sqrt(30 / 29)
    counts = drawn_counts(np.random.default_rng([0, 30]), 30, 900)
    mean = rows.mean(axis=1)
    assert found[:900] == pytest.approx(mean + factor * (counts @ rows.T / 30 - mean))


def test_a_paired_difference_forgets_what_both_share() -> None:
    rng = np.random.default_rng(4)
    hard = rng.random(50)
    samples = resample(["first", "second"], [[hard, hard + 0.1 + 0.001 * rng.random(50)]])
    interval = samples.difference("first", "second")
    assert 0.1 < interval.low < interval.high < 0.101


scores = st.lists(st.sampled_from([0.0, 0.3, 0.5, 0.63, 1.0]), min_size=2, max_size=40)


@settings(max_examples=200, deadline=None)
@given(scores, st.randoms(use_true_random=False))
def test_interval_and_shares_never_contradict_each_other(first, random) -> None:
    second = [min(1.0, max(0.0, x + random.choice([-0.3, 0.0, 0.3, 0.3]))) for x in first]
    samples = candidates(first, second)
    interval = samples.difference("a", "b")
    assert interval.low <= interval.mean <= interval.high
    best = samples.best_shares("ab")
    near = samples.near_shares("ab", 0.02)
    assert sum(best.values()) == pytest.approx(1)
    assert all(best[name] <= near[name] for name in "ab")
    if interval.high < 0:
        assert best["a"] >= 0.975
    if best["a"] >= 0.99:
        assert interval.high <= 0
    if near["b"] >= 0.95:
        assert interval.low > -0.2


@pytest.mark.parametrize("score", [0.0, 0.37, 1.0])
@pytest.mark.parametrize("n", [2, 50, 2000])
@pytest.mark.parametrize("n_splits", [1, 3])
def test_no_interval_has_width_0(score, n, n_splits) -> None:
    samples = resample("ab", [[[0.0] * n, [score] * n]] * n_splits)
    for interval in (samples.mean("b"), samples.difference("a", "b")):
        assert interval.low < interval.high
        assert interval.low <= interval.mean <= interval.high


@pytest.mark.parametrize("n", [6, 50, 2000])
@pytest.mark.parametrize("score", [0.0, 1.0])
def test_all_right_and_all_wrong_have_the_exact_interval_of_a_share(n, score) -> None:
    # By hand, from Clopper and Pearson: n of n are right in 2.5 % of cases where a share of .025 ** (1 / n) is.
    missing = 1 - 0.025 ** (1 / n)
    interval = mean_interval([score] * n)
    assert abs(interval.low - interval.high) == pytest.approx(missing)
    assert score in (interval.low, interval.high)


def test_equal_scores_leave_room_for_others() -> None:
    # None of 50 queries differs from 0.6: more than a share of 1 - .025 ** (1 / 50) would have been seen.
    share = 1 - 0.025 ** (1 / 50)
    interval = mean_interval([0.6] * 50)
    assert (interval.low, interval.high) == pytest.approx((0.6 - 0.6 * share, 0.6 + 0.4 * share))


def test_one_other_score_does_not_make_an_interval_narrow() -> None:
    equal = mean_interval([1.0] * 50)
    interval = mean_interval([1.0] * 49 + [0.99])
    assert interval.low == pytest.approx(equal.low, abs=0.003)


def test_a_split_where_all_is_right_keeps_its_doubt_in_a_mean() -> None:
    spread = [1.0] * 25 + [0.0] * 25
    joined = resample("a", [[[1.0] * 50], [spread]]).mean("a")
    alone = resample("a", [[spread], [spread]]).mean("a")
    missing = 1 - 0.025 ** (1 / 50)
    assert joined.low == pytest.approx(0.75 - np.hypot(missing / 2, (0.5 - alone.low) / 2**0.5), abs=0.01)


def test_one_score_has_no_interval_and_shows_nothing() -> None:
    assert mean_interval([0.4]).mean == 0.4 and math.isnan(mean_interval([0.4]).low)
    assert candidates([0.0], [1.0]).best_shares("ab") == {"a": 0.5, "b": 0.5}


def test_with_less_than_six_differing_queries_no_difference_is_claimed_however_large() -> None:
    for n_differing, is_claimed in ((1, False), (3, False), (5, False), (6, True), (20, True)):
        high = [0.9 + 0.001 * number for number in range(n_differing)]
        low = [0.1 + 0.002 * number for number in range(n_differing)]
        for equal in ([], [0.5] * 20):
            samples = candidates(high + equal, low + equal)
            # of m signs all are equal, on one side, in 1 of 2 ** m cases
            assert samples.best_shares("ab")["a"] <= 1 - 0.5**n_differing
            assert (samples.best_shares("ab")["a"] >= 0.975) == is_claimed
            assert (samples.difference("a", "b").high < 0) == is_claimed


def test_shares_are_those_of_the_resamples() -> None:
    rng = np.random.default_rng(3)
    rows = rng.random((4, 300))
    rows[1] = np.clip(rows[0] + rng.normal(0, 0.1, 300), 0, 1)
    samples = candidates(*rows.tolist())
    drawn = samples.drawn
    best = drawn.argmax(axis=1)
    assert list(samples.best_shares("abcd").values()) == pytest.approx(
        np.bincount(best, minlength=4) / len(best)
    )
    # hardly any two scores are equal, so the query that nobody has asked weighs nothing
    behind = drawn.max(axis=1, keepdims=True) - drawn
    near = samples.near_shares("abcd", 0.02)
    assert list(near.values()) == pytest.approx((behind < 0.02).mean(axis=0), abs=0.005)


@pytest.mark.parametrize(("n", "is_enough"), [(50, False), (148, False), (160, True), (2000, True)])
def test_equal_scores_on_few_queries_do_not_show_that_others_are_equal(n, is_enough) -> None:
    # a share of 2 % that goes wrong is not among n queries in .98 ** n of cases: 5 % for 148 of them
    near = candidates([1.0] * n, [1.0] * n).near_shares("ab", 0.02)
    assert near["b"] == pytest.approx(1 - 0.98**n, abs=0.012)
    assert (near["b"] >= 0.95) == is_enough


def test_splits_weigh_as_in_the_score_and_each_query_of_a_small_one_more() -> None:
    many = np.array([[1.0] * 90, [0.0] * 90])
    few = np.array([[0.0] * 10, [1.0] * 10])
    heavy = resample("ab", [many, few], [0.1, 0.9])
    assert heavy.best_shares("ab") == pytest.approx({"a": 0.0, "b": 1.0})
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
    assert samples.best_shares("ab") == {"a": 0.5, "b": 0.5}
    assert samples.are_same("a", "b") and not samples.are_same("a", "c")
    assert samples.more_queries("a", "b") == math.inf


def test_with_the_number_of_queries_that_is_said_a_test_finds_the_difference_in_80_percent_of_cases() -> None:
    rng = np.random.default_rng(5)
    difference = rng.normal(0.05, 0.3, 40)
    samples = candidates([0.5] * 40, (0.5 + difference).tolist())
    n = 40 + math.ceil(samples.more_queries("a", "b"))
    mean, spread = difference.mean(), difference.std(ddof=1)
    found = rng.normal(mean, spread, (4000, n)).mean(axis=1) / spread * math.sqrt(n)
    assert np.mean(np.abs(found) > 1.96) == pytest.approx(0.8, abs=0.02)


@pytest.fixture
def fewer_resamples(monkeypatch) -> None:
    monkeypatch.setattr(resampling, "N_RESAMPLES", 2000)


def like_ndcg(rng: np.random.Generator, n_queries: int, n_candidates: int = 2) -> np.ndarray:
    """Equal candidates: each query has a difficulty, and each draws a rank of its one relevant document."""
    easy = np.clip(rng.beta(0.6, 0.4, n_queries), 0.05, 0.98)
    ranks = rng.geometric(easy, size=(n_candidates, n_queries))
    return np.where(ranks <= 10, 1 / np.log2(ranks + 1), 0.0)


@pytest.mark.usefixtures("fewer_resamples")
@pytest.mark.parametrize("n_queries", [8, 12, 50])
def test_of_two_equal_candidates_one_is_called_winner_in_at_most_five_percent(n_queries) -> None:
    rng = np.random.default_rng(1)
    n_winners = 0
    for _ in range(1000):
        shares = resample("ab", [like_ndcg(rng, n_queries)]).best_shares("ab")
        n_winners += max(shares.values()) >= 0.975
    assert n_winners <= 65  # of 1,000; more have a chance of 2 % where 5 % are right


def two_points_behind(rng: np.random.Generator, n_queries: int, kind: str) -> np.ndarray:
    """Two candidates, of which the second is truly two points behind, in all queries or in very few."""
    first = like_ndcg(rng, n_queries, 1)[0]
    if kind == "a little everywhere":
        second = first + rng.normal(-0.02, 0.05, n_queries)
        return np.stack([first, second]) / 2 + 0.25  # room on both sides
    if kind == "all of a few":
        fails = rng.random(n_queries) < 0.02
        return np.stack([np.ones(n_queries), np.where(fails, 0.0, 1.0)])
    first = (rng.random(n_queries) < 0.8).astype(float)
    return np.stack([first, (rng.random(n_queries) < 0.78).astype(float)])


@pytest.mark.usefixtures("fewer_resamples")
@pytest.mark.parametrize("kind", ["a little everywhere", "all of a few", "right or wrong"])
@pytest.mark.parametrize("n_queries", [12, 50, 200])
def test_what_is_truly_two_points_behind_is_called_good_enough_in_at_most_five_percent(n_queries, kind):
    rng = np.random.default_rng(2)
    n_enough = 0
    margin = 0.01 if kind == "a little everywhere" else 0.02  # scores of that kind are halved
    for _ in range(400):
        samples = resample("ab", [two_points_behind(rng, n_queries, kind)])
        n_enough += samples.near_shares("ab", margin)["b"] >= 0.95
    assert n_enough <= 29  # of 400; more have a chance of 2 % where 5 % are right


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
