"""Who is first, behind or equal enough, compared with direct calculations and with simulated candidates."""

import itertools
import math

import numpy as np
import pytest

from mteb_longembed.comparing.ranking import stand
from mteb_longembed.statistics.bootstrap import difference_interval
from mteb_longembed.statistics.paired import PairedScores


def paired(*scores: list[float], weights: tuple[float, ...] = (1.0,)) -> PairedScores:
    names = tuple("abcdefghij"[: len(scores)])
    return PairedScores(names, (np.array(scores, float),), weights)


def like_ndcg(rng: np.random.Generator, n_candidates: int, n_queries: int) -> PairedScores:
    """Equal candidates: each query has a difficulty, and each candidate draws a rank of its one relevant document."""
    easy = np.clip(rng.beta(0.6, 0.4, n_queries), 0.05, 0.98)
    ranks = rng.geometric(easy, size=(n_candidates, n_queries))
    scores = np.where(ranks <= 10, 1 / np.log2(ranks + 1), 0.0)
    order = np.argsort(-scores.mean(axis=1))
    return paired(*scores[order].tolist())


@pytest.mark.parametrize(
    "n_queries", [12, 50]
)  # with 12 the bootstrap alone would name one in eleven percent
def test_of_equal_candidates_one_is_named_in_at_most_five_percent(n_queries: int) -> None:
    rng = np.random.default_rng(1)
    n_named = 0
    for _ in range(1000):
        scores = like_ndcg(rng, n_candidates=2, n_queries=n_queries)
        shares = scores.first_shares(n_resamples=1000)
        # the share is looked at first, because the tests take longer
        if max(shares.values()) >= 0.975:
            n_named += "winner" in stand(scores, shares).values()
    assert n_named <= 50


def test_a_candidate_that_is_better_is_named() -> None:
    rng = np.random.default_rng(0)
    worse = rng.random(60) * 0.6
    scores = paired((worse + 0.3).tolist(), worse.tolist())
    assert stand(scores, scores.first_shares()) == {"a": "winner", "b": "out"}


def test_the_shares_are_those_of_all_resamples() -> None:
    rows = np.array([[1.0, 0.0, 0.5], [0.2, 0.9, 0.3]])
    counts = [0.0, 0.0]
    for drawn in itertools.product(range(3), repeat=3):
        means = rows[:, list(drawn)].mean(axis=1)
        first = means >= means.max() - 1e-12
        for index in (0, 1):
            counts[index] += first[index] / first.sum() / 27
    found = paired(*rows.tolist()).first_shares()
    assert list(found.values()) == pytest.approx(counts, abs=0.02)


def test_identical_candidates_share_every_resample() -> None:
    assert paired([1.0, 0.0, 1.0], [1.0, 0.0, 1.0]).first_shares() == {"a": 0.5, "b": 0.5}


def test_splits_weigh_as_in_the_score() -> None:
    many = np.array([[1.0] * 90, [0.0] * 90])
    few = np.array([[0.0] * 10, [1.0] * 10])
    heavy = PairedScores(("a", "b"), (many, few), (0.1, 0.9))
    assert heavy.first_shares() == {"a": 0.0, "b": 1.0}
    assert heavy.mean_only("b") == pytest.approx(0.9)


def test_few_queries_put_nobody_out_however_large_the_difference() -> None:
    for n, is_out in ((3, False), (5, False), (6, True), (20, True)):
        rng = np.random.default_rng(n)
        high = 0.9 + 0.05 * rng.random(n)
        assert (
            paired(high.tolist(), (high - 0.8 + 0.01 * rng.random(n)).tolist()).is_behind("b", "a") == is_out
        )


def test_equivalence_is_two_one_sided_tests() -> None:
    rng = np.random.default_rng(3)
    base = rng.random(400)
    near = base - 0.005 + rng.normal(0, 0.02, 400)
    far = base - 0.03 + rng.normal(0, 0.02, 400)
    scores = paired(base.tolist(), near.tolist(), far.tolist())
    assert scores.equivalence("b", "a").lies_within(0.02)
    assert not scores.equivalence("c", "a").lies_within(0.02)
    # the same mean on few queries says too little
    few = paired(base[:6].tolist(), (base[:6] - 0.005 + rng.normal(0, 0.08, 6)).tolist())
    assert not few.equivalence("b", "a").lies_within(0.02)


def test_the_number_of_further_queries_makes_the_interval_leave_out_zero() -> None:
    rng = np.random.default_rng(5)
    difference = rng.normal(0.05, 0.4, 50)
    first = np.full(50, 0.2)
    scores = paired(first.tolist(), (first + difference).tolist())
    more = scores.more_queries("a", "b")
    n = 50 + more
    assert abs(difference.mean()) == pytest.approx(1.96 * difference.std(ddof=1) / math.sqrt(n), rel=1e-3)
    assert paired([0.5, 0.2], [0.5, 0.2]).more_queries("a", "b") == math.inf


def test_a_wider_confidence_has_a_wider_interval() -> None:
    rng = np.random.default_rng(2)
    first = [rng.random(40)]
    second = [first[0] + rng.normal(0, 0.2, 40)]
    narrow = difference_interval(first, second, confidence=0.9)
    wide = difference_interval(first, second)
    assert wide.low < narrow.low < narrow.mean < narrow.high < wide.high
