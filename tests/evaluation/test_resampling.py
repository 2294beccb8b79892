"""One bootstrap over clusters of queries: compared with calculations, with scipy, and with simulated candidates."""

import math
from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from experiments import verdicts
from mteb_longembed.errors import DataError
from mteb_longembed.evaluation import resampling
from mteb_longembed.evaluation.resampling import Interval, Resamples, resample


def candidates(*scores: list[float], labels: list[list[str]] | None = None) -> Resamples:
    return resample("abcdefghij"[: len(scores)], [scores], None if labels is None else [labels])


def mean_interval(scores: list[float]) -> Interval:
    return candidates(scores).mean("a")


# ---- the definition, with its constants


class Definition:
    """The intervals and shares of candidates "abc", from 10,000 weights of each cluster, sampled with a seed.

    Args:
        scores: `[candidates, queries]`.
        weights: of the queries.
        clusters: the queries of each.
        sizes: the number of queries of each split.
    """

    def __init__(
        self, scores: np.ndarray, weights: list[float], clusters: list[list[int]], sizes: list[int]
    ) -> None:
        n = len(clusters)
        self.means = [sum(one * weights) for one in scores]
        centred = scores.copy()
        for start, size in zip(np.cumsum([0, *sizes]), sizes, strict=False):
            for row in centred:
                row[start : start + size] -= row[start : start + size].mean()
        self.by_cluster = [
            [n * sum(row[q] * weights[q] for q in cluster) for cluster in clusters] for row in scores
        ]
        residuals = np.array(
            [[n * sum(row[q] * weights[q] for q in cluster) for cluster in clusters] for row in centred]
        )
        wide = 1.0
        n_free = n - len(sizes)
        if n_free > 0:
            wide = stats.t.ppf(0.975, n_free) / stats.norm.ppf(0.975) * math.sqrt((n + 1) / n_free)
        sampled = np.random.default_rng([0, n]).standard_exponential((10_000, n + 1))
        sampled /= sampled.sum(axis=1, keepdims=True)
        self.deviations = wide * residuals @ (sampled[:, :n] - 1 / n).T
        self.unseen = sampled[:, n]
        self.luck = np.random.default_rng([0, n, 1]).random((len(scores), 10_000))

    def interval(self, mean: float, deviations: np.ndarray) -> list[float]:
        low, high = np.quantile(mean + deviations, [0.025, 0.975])
        return [mean, min(low, mean), max(high, mean)]

    def mean(self, a: int) -> list[float]:
        new = self.unseen * ((self.luck[a] > 0.5) - self.means[a])
        mean, low, high = self.interval(self.means[a], self.deviations[a] + new)
        return [mean, max(low, 0), min(high, 1)]

    def pair(self, a: int, b: int) -> tuple[np.ndarray, np.ndarray]:
        largest = max(abs(y - x) for x, y in zip(self.by_cluster[a], self.by_cluster[b], strict=True))
        return self.deviations[b] - self.deviations[a], self.unseen * (min(largest, 1) or 1)

    def difference(self, a: int, b: int) -> list[float]:
        seen, unseen = self.pair(a, b)
        side = np.sign(self.luck[b] - self.luck[a])
        mean, low, high = self.interval(self.means[b] - self.means[a], seen + unseen * side)
        pairs = zip(self.by_cluster[a], self.by_cluster[b], strict=True)
        if sum(x != y for x, y in pairs) < 6:
            low, high = min(low, 0), max(high, 0)
        return [mean, low, high]

    def near_share(self, b: int, margin: float) -> float:
        near = np.ones(10_000, bool)
        for a in {0, 1, 2} - {b}:
            seen, unseen = self.pair(a, b)
            near &= self.means[b] - self.means[a] + seen - unseen > -margin
        return near.mean()

    def to_best(self, b: int) -> list[float]:
        best = int(np.argmax(self.means))
        mean, low, high = self.difference(best, b)
        if b == best:
            return [0, low, high]
        side = np.where(self.luck[b] < 0.5, 1, -1)
        spreads = {}
        for a in {0, 1, 2} - {b}:
            seen, unseen = self.pair(b, a)
            spreads[a] = seen + unseen * side
        luckiest = np.max([spread / spread.std() for spread in spreads.values()], axis=0)
        return [mean, low, max(high, mean + spreads[best].std() * np.quantile(luckiest, 0.975))]


#: Query 3 shares a document with 0 and 1, and another one with 2 and the first query of the second split.
SHARED = [[["x"], ["x"], ["y"], ["x", "y"], *[[]] * 5], [["y"], [], [], []]]
SHARED_CLUSTERS = [[0, 1, 3], [2, 3, 9], [4], [5], [6], [7], [8], [10], [11], [12]]
#: Sizes of splits, labels, clusters: with many clusters, and with only 2, 1, 0 or -1 more than splits.
DEFINITIONS = [
    ([9, 4], SHARED, SHARED_CLUSTERS),
    ([3], None, [[0], [1], [2]]),
    ([2], None, [[0], [1]]),
    ([1, 1], None, [[0], [1]]),
    ([2, 2], [[["x"], ["y"]], [["x"], ["y"]]], [[0, 2], [1, 3]]),
    ([1, 1, 1], [[["x"]], [["x"]], [[]]], [[0, 1], [2]]),
]


@pytest.mark.parametrize("is_close", [False, True])
@pytest.mark.parametrize(("sizes", "labels", "clusters"), DEFINITIONS)
def test_intervals_and_shares_equal_the_definition(sizes, labels, clusters, is_close: bool) -> None:
    scores = np.random.default_rng(3).random((3, sum(sizes)))
    if is_close:  # on half of the queries all are the same, and two are never apart
        scores[:, ::2] = scores[0, ::2]
        scores[1] = 0.9 * scores[0] + 0.1 * scores[1]
        scores[2] = scores[0]
    of_splits = np.split(scores, np.cumsum(sizes)[:-1], axis=1)
    share = {1: [1.0], 2: [0.7, 0.3], 3: [0.5, 0.3, 0.2]}[len(sizes)]
    weights = np.repeat(np.array(share) / sizes, sizes)
    want = Definition(scores, weights, clusters, sizes)
    got = resample("abc", of_splits, labels, share)
    for a, name in enumerate("abc"):
        assert astuple(got.mean(name)) == pytest.approx(want.mean(a), abs=1e-9)
        assert astuple(got.to_best(name, "abc")) == pytest.approx(want.to_best(a), abs=1e-9)
        assert got.near_shares("abc", 0.05)[name] == want.near_share(a, 0.05)
        for b, other in enumerate("abc"):
            assert astuple(got.difference(name, other)) == pytest.approx(want.difference(a, b), abs=1e-9)


# ---- intervals


def test_a_mean_has_scipys_interval_for_the_same_confidence() -> None:
    scores = np.random.default_rng(1).random(60)
    interval = mean_interval(scores)
    theirs = stats.bootstrap((scores,), np.mean, method="BCa", n_resamples=9999, rng=np.random.default_rng(7))
    assert interval.mean == pytest.approx(scores.mean())
    assert interval.low == pytest.approx(theirs.confidence_interval.low, abs=0.01)
    assert interval.high == pytest.approx(theirs.confidence_interval.high, abs=0.01)


def test_few_clusters_spread_as_students_t_says() -> None:
    """Weights are uniform on the simplex of n + 1, the last for the unseen cluster; residuals have n - 1 degrees."""
    scores = np.array([0.2, 0.3, 0.45, 0.5, 0.7, 0.8])
    deviations, _ = candidates(list(scores))._resampled
    enlarged = stats.t.ppf(0.975, 5) / stats.norm.ppf(0.975)
    spread = math.sqrt(((scores - scores.mean()) ** 2).sum() / (8 * 5))
    assert deviations.std() == pytest.approx(enlarged * spread, rel=0.025)


def test_a_paired_difference_forgets_what_both_share() -> None:
    rng = np.random.default_rng(4)
    hard = rng.random(50)
    samples = resample(["first", "second"], [[hard, hard + 0.1 + 0.001 * rng.random(50)]])
    interval = samples.difference("first", "second")
    assert 0.09 < interval.low < interval.high < 0.11


def test_queries_about_one_document_count_as_one_repeated_query() -> None:
    rng = np.random.default_rng(5)
    documents = rng.random((2, 40))
    alone = candidates(*documents.tolist()).difference("a", "b")
    often = candidates(*documents.repeat(12, axis=1).tolist(), labels=[[f"d{i // 12}"] for i in range(480)])
    assert often.n_clusters == 40
    grouped = often.difference("a", "b")
    assert (grouped.low, grouped.high) == pytest.approx((alone.low, alone.high), abs=0.02)
    apart = candidates(*documents.repeat(12, axis=1).tolist()).difference("a", "b")
    assert apart.high - apart.low < 0.4 * (grouped.high - grouped.low)


def test_documents_with_the_same_queries_are_one_group_and_own_ones_beside_shared_ones_are_none() -> None:
    labels = [["x", "y", "own"], ["x", "y"], ["alone", "also"], [], ["z"], ["z", "x"]]
    # x with three queries, y with two, z with two, and two queries that share nothing
    assert candidates([0.0] * 6, labels=labels).n_clusters == 5
    # one label in two splits is one cluster
    assert resample("a", [[[1.0, 0.0]], [[1.0]]], [[["x"], ["y"]], [["x"]]]).n_clusters == 2


scores = st.lists(st.sampled_from([0.0, 0.3, 0.5, 0.63, 1.0]), min_size=2, max_size=40)


@settings(max_examples=100, deadline=None)
@given(scores, st.randoms(use_true_random=False))
def test_interval_and_words_never_contradict_each_other(first, random) -> None:
    second = [min(1.0, max(0.0, x + random.choice([-0.3, 0.0, 0.3, 0.3]))) for x in first]
    samples = candidates(first, second, labels=[[f"d{random.randrange(9)}"] for _ in first])
    interval = samples.difference("a", "b")
    assert math.isnan(interval.low) or interval.low <= interval.mean <= interval.high
    near = samples.near_shares("ab", 0.02)
    for name in "ab":
        if samples.to_best(name, "ab").high < 0:
            assert near[name] < 0.95 and samples.n_differing("a", "b") >= 6
    if near["b"] >= 0.95:
        assert interval.low > -0.2 or samples.n_clusters == 1


@pytest.mark.parametrize("score", [0.0, 0.37])
@pytest.mark.parametrize(("n", "n_splits"), [(2, 3), (500, 1)])
def test_no_interval_has_width_0(score, n, n_splits) -> None:
    samples = resample("ab", [[[0.0] * n, [score] * n]] * n_splits)
    for interval in (samples.mean("b"), samples.difference("a", "b")):
        assert interval.low < interval.high
        assert interval.low <= interval.mean <= interval.high


def test_equal_scores_leave_room_for_the_unseen_cluster() -> None:
    # a share of 1 - .05 ** (1 / n) that goes wrong would be seen in 95 % of cases; half of it goes either way
    for n in (6, 50):
        interval = mean_interval([1.0] * n)
        assert interval.high == 1.0 and 1 - interval.low == pytest.approx(1 - 0.05 ** (1 / n), rel=0.15)


def test_one_group_has_no_interval_and_shows_nothing() -> None:
    assert mean_interval([0.4]).mean == 0.4 and math.isnan(mean_interval([0.4]).low)
    together = candidates([0.0] * 9, [1.0] * 9, labels=[["d"]] * 9)
    assert math.isnan(together.difference("a", "b").low) and not together.to_best("a", "ab").high < 0


def test_with_less_than_six_differing_clusters_no_difference_is_claimed_however_large() -> None:
    for n_differing, is_claimed in ((1, False), (5, False), (6, True), (20, True)):
        high = [0.9 + 0.001 * number for number in range(n_differing)]
        low = [0.1 + 0.002 * number for number in range(n_differing)]
        for equal in ([], [0.5] * 20):
            n = n_differing + len(equal)
            labels = [[f"d{i}"] for i in range(n) for _ in range(3)]
            first = np.repeat(high + equal, 3).tolist()
            second = np.repeat(low + equal, 3).tolist()
            samples = candidates(first, second, labels=labels)
            assert samples.n_differing("a", "b") == n_differing
            if not is_claimed:
                assert not samples.difference("a", "b").high < 0 and not samples.difference("b", "a").low > 0
                assert not samples.to_best("b", "ab").high < 0
            elif not equal:
                assert samples.difference("a", "b").high < 0 < samples.difference("b", "a").low
                assert samples.to_best("b", "ab").high < 0
    assert samples.to_best("b", "ab").high < 0


# ---- shares


@pytest.mark.parametrize(("n", "is_enough"), [(130, False), (160, True)])
def test_equal_scores_on_few_queries_do_not_show_that_others_are_equal(n, is_enough) -> None:
    # a share of 2 % that goes wrong is not among n queries in .98 ** n of cases: 5 % for 148 of them
    near = candidates([1.0] * n, [1.0] * n).near_shares("ab", 0.02)
    assert near["b"] == pytest.approx(1 - 0.98**n, abs=0.015)
    assert (near["b"] >= 0.95) == is_enough


def test_splits_weigh_as_in_the_score() -> None:
    rng = np.random.default_rng(8)
    one, two = rng.random(60), rng.random(900)
    samples = resample("a", [[one], [two]], weights=[0.9, 0.1])
    half_width = 1.96 * np.sqrt(0.81 * one.var() / 60 + 0.01 * two.var() / 900)
    interval = samples.mean("a")
    assert samples.means["a"] == interval.mean == pytest.approx(0.9 * one.mean() + 0.1 * two.mean())
    assert interval.high - interval.low == pytest.approx(2 * half_width, rel=0.1)


# ---- simulations that can fail: short forms of experiments/verdicts.py


@pytest.fixture
def fewer_resamples(monkeypatch) -> None:
    monkeypatch.setattr(resampling, "N_RESAMPLES", 500)


@pytest.mark.usefixtures("fewer_resamples")
@pytest.mark.parametrize(
    ("make", "n", "least"),
    [
        (verdicts.like_ndcg, 100, 1.0),
        (verdicts.a_little, 10, 1.0),
        (verdicts.few_fail, 25, 0.0),
        (verdicts.whole_documents, 15, 1.0),
        (verdicts.JUDGED["3 of 40 documents, whole documents are won"], 120, 1.0),
    ],
)
def test_an_interval_misses_the_truth_about_as_often_as_it_says(make, n, least) -> None:
    # 9 % of 300 draws have a chance of 3 in 1,000 where 5 % are right
    assert least <= verdicts.misses(make, n, draws=300) <= 9


@pytest.mark.usefixtures("fewer_resamples")
def test_equal_candidates_are_called_behind_in_at_most_five_percent() -> None:
    assert verdicts.behind(10, 50, draws=200) <= 5


@pytest.mark.usefixtures("fewer_resamples")
@pytest.mark.parametrize("kind", verdicts.TWO_POINTS)
def test_what_is_truly_two_points_behind_is_called_good_enough_in_at_most_five_percent(kind) -> None:
    # 8 % of 300 draws have a chance of 2 % where 5 % are right
    assert verdicts.enough(verdicts.TWO_POINTS[kind], 40, draws=300) <= 8


def test_what_is_no_score_is_refused() -> None:
    with pytest.raises(DataError, match="at least one score in every split"):
        resample("a", [[[1.0, 0.0]], [[]]])
    with pytest.raises(DataError, match="a number for every query, got nan"):
        resample("a", [[[math.nan, 1.0]]])


def test_an_interval_stays_among_the_possible_scores_and_is_the_same_every_time(monkeypatch) -> None:
    assert mean_interval([1.0] * 1000 + [0.5]).high <= 1.0
    assert mean_interval([0.0] * 1000 + [0.5]).low >= 0.0
    whole = mean_interval([0.1, 0.9, 0.4])
    monkeypatch.setattr(resampling, "_BLOCK", 4 * 900)  # the size of blocks does not matter
    assert mean_interval([0.1, 0.9, 0.4]) == whole
