from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mteb_longembed.comparing.candidates import BM25, Candidate
from mteb_longembed.comparing.costs import Cost
from mteb_longembed.comparing.ranking import LEAST_QUERIES, expected, rank

BASE = Candidate("mine+none@512", "mine", is_base=True)
GOOD = Candidate("mine+ntk@4096", "mine")
SAME = Candidate("mine+gp@4096", "mine")
COST = Cost(speeds=[1000.0] * 3, vectors=1.0, bytes=3072.0)


def answers(right: int, n: int = 40) -> dict[str, float]:
    return {f"q{i}": float(i < right) for i in range(n)}


def test_the_best_is_first_and_a_sure_gain_has_an_interval_above_zero() -> None:
    key = ("Task", "test")
    rows = rank({BASE: {key: answers(8)}, GOOD: {key: answers(36)}}, dict.fromkeys((BASE, GOOD), COST))
    assert [row.candidate for row in rows] == [GOOD, BASE]
    assert rows[0].score.mean == pytest.approx(90) and rows[0].gain is not None
    assert rows[0].gain.mean == pytest.approx(70) and rows[0].gain.low > 0 and rows[0].p_value < 0.01
    assert rows[0].loss is None and rows[1].loss is not None and rows[1].loss.high < 0
    assert rows[1].gain is None and rows[1].p_value is None


def test_a_tie_has_no_gain() -> None:
    key = ("Task", "test")
    rows = rank({BASE: {key: answers(20)}, SAME: {key: answers(20)}}, dict.fromkeys((BASE, SAME), COST))
    same = next(row for row in rows if row.candidate is SAME)
    assert same.gain is not None and (same.gain.mean, same.p_value) == (0, 1.0)
    # No interval has width 0: none of the queries differs, but others might.
    assert same.gain.low == -same.gain.high < 0


def test_tasks_weigh_the_same_however_many_splits_they_have() -> None:
    scores = {("A", "test_1"): answers(40), ("A", "test_2"): answers(40), ("B", "test"): answers(0)}
    (row,) = rank({BASE: scores}, {BASE: COST})
    assert row.score.mean == pytest.approx(50)
    assert row.by_split["A", "test_1"].mean == pytest.approx(100)


def test_from_drawn_queries_the_best_is_never_one_that_matches_words() -> None:
    key = ("Task", "test")
    scores = {Candidate(BM25, ""): {key: answers(39)}, GOOD: {key: answers(30)}, BASE: {key: answers(8)}}
    rows = rank(scores, dict.fromkeys(scores, COST), proxy=True)
    assert [row.candidate for row in rows] == list(scores)
    assert rows[1].loss is None and rows[0].loss is not None and rows[0].loss.mean == pytest.approx(22.5)


def first_half(queries: list[str]) -> set[str]:
    """Every second query in the order of the hashes."""
    order = sorted((hashlib.sha256(query.encode()).hexdigest(), query) for query in queries)
    return {query for place, (_, query) in enumerate(order) if place % 2 == 0}


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(2, 60))
def test_the_score_to_expect_is_that_of_the_other_half_both_ways(seed, n_candidates, n_queries) -> None:
    rng = np.random.default_rng(seed)
    splits = {("A", "x"): n_queries, ("A", "y"): 30, ("B", "test"): 9}
    who = [Candidate(f"mine+gp@{i}", "mine") for i in range(n_candidates)]
    scores = {c: {key: {f"q{i}": rng.random() for i in range(n)} for key, n in splits.items()} for c in who}

    def mean(candidate: Candidate, is_first: bool) -> float:
        found = {}
        for key, by_query in scores[candidate].items():
            half = first_half(list(by_query))
            found[key] = np.mean([x for query, x in by_query.items() if (query in half) == is_first])
        return ((found["A", "x"] + found["A", "y"]) / 2 + found["B", "test"]) / 2

    chosen = [max(who, key=lambda c: mean(c, is_first)) for is_first in (True, False)]
    found = expected(scores)
    if n_queries + 39 < LEAST_QUERIES:
        assert found is None
    else:
        assert found is not None and found.choices == (chosen[0].name, chosen[1].name)
        assert found.score == pytest.approx(50 * (mean(chosen[0], False) + mean(chosen[1], True)))


def test_the_winner_of_many_equal_candidates_is_expected_to_score_less_than_it_did() -> None:
    rng = np.random.default_rng(0)
    key = ("Task", "test")
    scores = {
        Candidate(f"mine+gp@{i}", "mine"): {key: {f"q{q}": float(rng.random() < 0.5) for q in range(60)}}
        for i in range(50)
    }
    best = max(np.mean(list(found[key].values())) for found in scores.values())
    found = expected(scores)
    assert found is not None and abs(found.score - 50) < 8 < 100 * best - 50
    fewer = {c: {key: dict(list(own[key].items())[: LEAST_QUERIES - 1])} for c, own in scores.items()}
    assert expected(fewer) is None
