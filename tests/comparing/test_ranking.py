"""Ranked rows, and the rule of the recommendation on constructed rows with known winners, ties and noise."""

import hashlib
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mteb_longembed.comparing.candidates import BM25, Candidate
from mteb_longembed.comparing.costs import Cost
from mteb_longembed.comparing.ranking import LEAST_QUERIES, Expected, Row, expected, rank, recommend
from mteb_longembed.statistics.intervals import Interval

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
    return {query for index, (_, query) in enumerate(order) if index % 2 == 0}


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(2, 60))
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
    result = expected(scores)
    if n_queries + 39 < LEAST_QUERIES:
        assert result is None
    else:
        assert result is not None and result.choices == (chosen[0].name, chosen[1].name)
        assert result.score == pytest.approx(50 * (mean(chosen[0], False) + mean(chosen[1], True)))


# ---- the recommendation ----------------------------------------------------------------------------------


def row(
    name: str, score: float, gain=None, loss=None, speed: float | None = 1000.0, base: bool = False, **cost
) -> Row:
    return Row(
        Candidate(name, "" if name == BM25 else "mine", base, 512, 512 if base else 4096),
        Interval(score, score - 5, score + 5),
        None if gain is None else Interval(*gain),
        None if gain is None else 0.01,
        None if loss is None else Interval(*loss),
        Cost(**{"vectors": 1.0, "bytes": 3072.0, "speeds": [] if speed is None else [speed] * 3, **cost}),
    )


def test_the_best_is_named_with_its_gain_and_the_command_to_type() -> None:
    rows = [row("mine+ntk@4096", 80, (30, 20, 40)), row("mine+none@512", 50, loss=(-30, -40, -20), base=True)]
    result = recommend(rows, ["LongEmbedPasskey"], 50)
    assert (result.verdict, result.best, result.cheapest) == ("better", "mine+ntk@4096", "mine+ntk@4096")
    gain = "+30.0 points against its base (+20.0 to +40.0 on 50 queries)"
    assert result.sentences[0] == f"mine+ntk@4096 is best with 80.0, {gain}."
    assert 'mteb_longembed.load("mine+ntk@4096")' in result.sentences[-1]
    assert "mteb run -m mine+ntk@4096 -t LongEmbedPasskey" in result.sentences[-1]


def test_a_cheaper_one_that_surely_loses_less_than_two_points_is_named() -> None:
    rows = [
        row("mine+se@4096", 80, (30, 20, 40), speed=500.0),
        row("mine+pcw@4096", 79.5, (29, 20, 40), (-0.5, -1.9, 1.0), speed=2000.0),
        row("mine+gp@4096", 79.0, (29, 20, 40), (-1.0, -2.1, 1.0), speed=9000.0),
        row("mine+none@512", 50, loss=(-30, -40, -20), speed=9999.0, base=True),
    ]
    result = recommend(rows, [], 50)
    assert (result.best, result.cheapest) == ("mine+se@4096", "mine+pcw@4096")
    assert "2,000 tokens a second against 500 tokens a second" in result.sentences[2]


UNDECIDED = r"^Undecided: mine\+ntk@4096 has the highest score"
NO_BASE = r"^mine\+ntk@4096 has the highest score \(80\.0\)\. Its base did not take"


@pytest.mark.parametrize(
    ("gain", "other", "n_queries", "words"),
    [
        ((5, -3, 12), row("mine+none@512", 70, loss=(-5, -12, 3), base=True), 50, UNDECIDED),
        ((100, math.nan, math.nan), row("mine+none@512", 0, base=True), 1, "1 query cannot"),
        (None, row("mine+pi@4096", 70, loss=(-10, -20, -3)), 50, NO_BASE),
    ],
    ids=["the queries cannot tell", "one query has no interval", "nothing is said about a gain without base"],
)
def test_what_decides_nothing_is_undecided_and_says_why(gain, other, n_queries, words) -> None:
    result = recommend([row("mine+ntk@4096", 80, gain), other], [], n_queries)
    assert result.verdict == "undecided" and re.search(words, result.sentences[0])


def test_when_the_base_or_bm25_is_best_it_says_that() -> None:
    base = row("mine+none@512", 60, base=True)
    other = row("mine+pi@4096", 40, (-20, -30, -10), (-20, -30, -10))
    assert recommend([base, other], [], 50).sentences[0].startswith("Nothing beats mine+none@512 on 50")
    lexical = row(BM25, 90, speed=None)
    result = recommend([lexical, base, other], ["LongEmbedQMSum"], 50)
    assert result.verdict == "nothing better" and result.sentences[0].startswith("Nothing beats bm25")
    assert result.sentences[-1] == "Type next: mteb run -m bm25 -t LongEmbedQMSum."


def test_drawn_queries_recommend_nothing_about_bm25() -> None:
    others = [row("mine+ntk@4096", 80, (30, 20, 40)), row("mine+none@512", 50, base=True)]
    rows = [row(BM25, 90, speed=None), *others]
    assert recommend(rows, [], 50, proxy=True).best == "mine+ntk@4096"


def test_a_search_is_loaded_by_search() -> None:
    rows = [row("mine+pcw@4096,center=corpus", 80, (30, 20, 40)), row("mine+none@512", 50, base=True)]
    assert 'mteb_longembed.search("mine+pcw@4096,center=corpus")' in recommend(rows, [], 50).sentences[-1]


BEST = row("mine+ntk@4096", 80, (30, 20, 40), speed=500.0)


def test_only_what_really_differs_is_cheaper() -> None:
    overlapping = row("mine+gp@4096", 79, (29, 20, 40), (-1, -1.5, 1), speeds=[490.0, 5000.0, 6000.0])
    result = recommend([BEST, overlapping], [], 50)
    assert result.cheapest == result.smallest == BEST.name
    assert "Nothing faster or smaller" in " ".join(result.sentences)
    small = row("mine+pi@4096", 79, (29, 20, 40), (-1, -1.5, 1), speed=400.0, bytes=512.0)
    result = recommend([BEST, overlapping, small], [], 50)
    assert (result.cheapest, result.smallest) == (BEST.name, small.name)
    assert "smaller vectors (0.5 KB a document against 3.0 KB)" in result.sentences[2]


def test_bm25_is_compared_with_the_best() -> None:
    for loss, words in [
        ((-20, -30, -10), "no vectors, scores 60.0: -20.0 points (-30.0 to -10.0) against the best."),
        ((-2, -5, 1), "-2.0 points (-5.0 to +1.0), so these queries cannot tell it from the best."),
        ((-2, math.nan, math.nan), "-2.0 points, so these queries cannot tell it from the best."),
    ]:
        rows = [BEST, row(BM25, 60, loss=loss, speed=None)]
        assert any(sentence.endswith(words) for sentence in recommend(rows, [], 50).sentences)
        assert "BM25, which" not in " ".join(recommend(rows, [], 50, proxy=True).sentences)


def test_a_longer_target_is_named_if_the_best_reads_too_little() -> None:
    def sentences_of(best: Row, *others: Row) -> str:
        return " ".join(recommend([best, *others], [], 50).sentences)

    half_read = {"share_read": 0.5, "enough_len": 32_768}
    short = row("mine+ntk@4096", 80, (30, 20, 40), **half_read)
    assert "reads 50% of the text: raise --target to 32k to read 90% or more" in sentences_of(short)
    assert "--target" not in sentences_of(BEST)
    # the others read that far already
    base = row("mine+none@512", 80, base=True, share_read=0.5, enough_len=2048)
    assert "--target" not in sentences_of(base, row("mine+ntk@4096", 70, (-10, -20, -5)))
    # one of them reads everything, and so has no target
    everything = row("mine+ntk@4096:past_target=read", 70, (-10, -20, -5))
    assert "--target" not in sentences_of(
        short, replace(everything, candidate=replace(everything.candidate, target_len=None))
    )


def test_halves_that_choose_differently_are_said() -> None:
    sentences = recommend([BEST], [], 50, Expected(71.0, (BEST.name, "mine+gp@4096"))).sentences
    assert sentences[0].endswith("But half of the queries choose mine+ntk@4096, the other half mine+gp@4096.")
    assert sentences[1].startswith("On new queries expect 71.0")
    assert "half" not in recommend([BEST], [], 50, Expected(71.0, (BEST.name,) * 2)).sentences[0]
    assert "needs 40 queries" in recommend([BEST], [], 39).sentences[1]


def test_a_longer_target_is_named_whoever_wins() -> None:
    short = row("mine+pcw@1024", 12, (2, 1, 3), (-76, -80, -70), share_read=0.21, enough_len=8192)
    short = replace(short, candidate=replace(short.candidate, target_len=1024))
    sentences = recommend([row(BM25, 88, speed=None), short], [], 50).sentences
    assert "mine+pcw@1024 reads 21% of the text: raise --target to 8k to read 90% or more." in sentences


def test_the_verdict_says_how_many_were_not_tried() -> None:
    (sentence, *_) = recommend([BEST], [], 50, untried="7 of 9 candidates").sentences
    assert sentence.endswith(" 7 of 9 candidates were not tried: --budget was too short.")
