"""Ranked rows from scores by query."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mteb_longembed.comparing.candidates import Candidate
from mteb_longembed.comparing.ranking import LEAST_QUERIES, expect, rank
from tests.comparing.frames import COST, LEXICAL, Scores, frame

BASE = Candidate("mine+none@512", "mine", is_base=True)
GOOD = Candidate("mine+ntk@4096", "mine")
SAME = Candidate("mine+gp@4096", "mine")
KEY = ("Task", "test")


def answers(right: int, n: int = 40) -> dict[str, float]:
    return {f"q{i}": float(i < right) for i in range(n)}


def ranked(scores: dict[Candidate, Scores], **options):
    return rank(frame(scores), dict.fromkeys(scores, COST), **options)


def test_the_best_is_first_and_a_sure_gain_has_an_interval_above_zero() -> None:
    rows = ranked({BASE: {KEY: answers(8)}, GOOD: {KEY: answers(36)}})
    assert [row.candidate for row in rows] == [GOOD, BASE]
    good, base = rows
    assert good.score.mean == pytest.approx(90) and good.diff_to_base is not None
    assert good.diff_to_base.mean == pytest.approx(70) and good.diff_to_base.low > 0 and good.p_value < 0.01
    assert good.diff_to_best is None and base.diff_to_best.high < 0
    assert base.diff_to_base is None and base.p_value is None
    assert (good.standing, base.standing) == ("winner", "out")
    assert good.first_share == 1.0 and base.first_share == 0.0


def test_a_tie_has_no_gain_and_no_winner() -> None:
    rows = ranked({BASE: {KEY: answers(20)}, SAME: {KEY: answers(20)}})
    same = next(row for row in rows if row.candidate is SAME)
    assert same.diff_to_base is not None and (same.diff_to_base.mean, same.p_value) == (0, 1.0)
    # No interval has width 0: none of the queries differs, but others might.
    assert same.diff_to_base.low == -same.diff_to_base.high < 0
    assert [row.standing for row in rows] == ["leader", "equal"]


def test_with_two_queries_nobody_is_out() -> None:
    rows = ranked({BASE: {KEY: answers(0, 2)}, GOOD: {KEY: answers(2, 2)}})
    assert [row.standing for row in rows] == ["leader", "equal"]


def test_without_a_winner_one_of_the_others_is_not_out() -> None:
    """Five differing queries: all intervals lie below 0, but a randomisation test cannot agree."""
    rows = ranked({BASE: {KEY: answers(0, 5)}, GOOD: {KEY: answers(5, 5)}})
    assert [row.standing for row in rows] == ["leader", "equal"]


def test_tasks_weigh_the_same_however_many_splits_they_have() -> None:
    scores = {("A", "test_1"): answers(40), ("A", "test_2"): answers(40), ("B", "test"): answers(0)}
    (row,) = ranked({BASE: scores})
    assert row.score.mean == pytest.approx(50)
    assert row.by_split["A", "test_1"].mean == pytest.approx(100)


def test_a_folder_may_be_called_like_a_fusion() -> None:
    assert not Candidate("/x/fuse=bm25+pcw@512", "/x/fuse=bm25").matches_words
    assert Candidate("/x/mine+pcw@512:fuse=bm25", "/x/mine").matches_words


def test_from_synthetic_queries_the_best_is_never_one_that_matches_words() -> None:
    scores = {LEXICAL: {KEY: answers(39)}, GOOD: {KEY: answers(30)}, BASE: {KEY: answers(8)}}
    rows = ranked(scores, synthetic_queries=True)
    assert [row.candidate for row in rows] == list(scores)
    assert [row.standing for row in rows] == ["apart", "winner", "out"]
    assert rows[1].diff_to_best is None and rows[0].diff_to_best.mean == pytest.approx(22.5)


def first_half(queries: list[str]) -> set[str]:
    """Every second query in the order of the hashes."""
    order = sorted((hashlib.sha256(query.encode()).hexdigest(), query) for query in queries)
    return {query for index, (_, query) in enumerate(order) if index % 2 == 0}


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(2, 60))
def test_the_score_to_expect_is_that_of_the_other_half_both_ways(seed, n_candidates, n_queries) -> None:
    rng = np.random.default_rng(seed)
    splits = {("A", "x"): n_queries, ("A", "y"): 30, ("B", "test"): 9}
    pool = [Candidate(f"mine+gp@{i}", "mine") for i in range(n_candidates)]
    scores = {c: {key: {f"q{i}": rng.random() for i in range(n)} for key, n in splits.items()} for c in pool}

    def mean(candidate: Candidate, is_first: bool) -> float:
        means = {}
        for key, by_query in scores[candidate].items():
            subset = first_half(list(by_query))
            means[key] = np.mean([x for query, x in by_query.items() if (query in subset) == is_first])
        return ((means["A", "x"] + means["A", "y"]) / 2 + means["B", "test"]) / 2

    chosen = [max(pool, key=lambda c: mean(c, is_first)) for is_first in (True, False)]
    result = expect(frame(scores), pool)
    if n_queries + 39 < LEAST_QUERIES:
        assert result is None
    else:
        assert result is not None and result.choices == (chosen[0].name, chosen[1].name)
        assert result.score == pytest.approx(50 * (mean(chosen[0], False) + mean(chosen[1], True)))
