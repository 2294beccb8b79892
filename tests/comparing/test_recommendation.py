"""The rule, on constructed rows with known winners, ties and noise."""

from __future__ import annotations

import math

from mteb_longembed.comparing.candidates import BM25, Candidate
from mteb_longembed.comparing.costs import Cost
from mteb_longembed.comparing.ranking import Row
from mteb_longembed.comparing.recommendation import recommend
from mteb_longembed.statistics.intervals import Interval


def row(
    name: str, score: float, gain=None, loss=None, speed: float | None = 1000.0, base: bool = False
) -> Row:
    return Row(
        Candidate(name, "" if name == BM25 else "mine", is_base=base),
        Interval(score, score - 5, score + 5),
        None if gain is None else Interval(*gain),
        None if gain is None else 0.01,
        None if loss is None else Interval(*loss),
        Cost(speed, 1.0, 3072.0, 1.0),
    )


def test_the_best_is_named_with_its_gain_and_the_command_to_type() -> None:
    rows = [row("mine+ntk@4096", 80, (30, 20, 40)), row("mine+none@512", 50, loss=(-30, -40, -20), base=True)]
    found = recommend(rows, ["LongEmbedPasskey"], 50)
    assert (found.verdict, found.best, found.cheapest) == ("better", "mine+ntk@4096", "mine+ntk@4096")
    assert found.sentences[0] == (
        "mine+ntk@4096 is best with 80.0, +30.0 points against its base (+20.0 to +40.0 on 50 queries)."
    )
    assert 'mteb_longembed.load("mine+ntk@4096")' in found.sentences[2]
    assert "mteb run -m mine+ntk@4096 -t LongEmbedPasskey" in found.sentences[2]


def test_a_cheaper_one_that_surely_loses_less_than_two_points_is_named() -> None:
    rows = [
        row("mine+se@4096", 80, (30, 20, 40), speed=500.0),
        row("mine+pcw@4096", 79.5, (29, 20, 40), (-0.5, -1.9, 1.0), speed=2000.0),
        row("mine+gp@4096", 79.0, (29, 20, 40), (-1.0, -2.1, 1.0), speed=9000.0),
        row("mine+none@512", 50, loss=(-30, -40, -20), speed=9999.0, base=True),
    ]
    found = recommend(rows, [], 50)
    assert (found.best, found.cheapest) == ("mine+se@4096", "mine+pcw@4096")
    assert "2,000 tokens a second against 500 tokens a second" in found.sentences[1]


def test_a_difference_that_the_queries_cannot_tell_is_undecided() -> None:
    rows = [row("mine+ntk@4096", 55, (5, -3, 12)), row("mine+none@512", 50, loss=(-5, -12, 3), base=True)]
    found = recommend(rows, [], 50)
    assert found.verdict == "undecided"
    assert found.sentences[0].startswith("Undecided: mine+ntk@4096 has the highest score")


def test_one_query_has_no_interval_and_decides_nothing() -> None:
    rows = [row("mine+ntk@4096", 100, (100, math.nan, math.nan)), row("mine+none@512", 0, base=True)]
    found = recommend(rows, [], 1)
    assert found.verdict == "undecided" and "1 query cannot" in found.sentences[0]


def test_when_the_base_or_bm25_is_best_it_says_that() -> None:
    base = row("mine+none@512", 60, base=True)
    other = row("mine+pi@4096", 40, (-20, -30, -10), (-20, -30, -10))
    assert recommend([base, other], [], 50).sentences[0].startswith("Nothing beats mine+none@512 on these 50")
    lexical = row(BM25, 90, speed=None)
    found = recommend([lexical, base, other], ["LongEmbedQMSum"], 50)
    assert found.verdict == "nothing better" and found.sentences[0].startswith("Nothing beats bm25")
    assert found.sentences[2] == "Type next: mteb run -m bm25 -t LongEmbedQMSum."


def test_drawn_queries_recommend_nothing_about_bm25() -> None:
    rows = [
        row(BM25, 90, speed=None),
        row("mine+ntk@4096", 80, (30, 20, 40)),
        row("mine+none@512", 50, base=True),
    ]
    assert recommend(rows, [], 50, proxy=True).best == "mine+ntk@4096"


def test_a_search_is_loaded_by_search() -> None:
    rows = [row("mine+pcw@4096,center=corpus", 80, (30, 20, 40)), row("mine+none@512", 50, base=True)]
    assert 'mteb_longembed.search("mine+pcw@4096,center=corpus")' in recommend(rows, [], 50).sentences[2]


def test_without_its_base_nothing_is_said_about_a_gain() -> None:
    found = recommend([row("mine+ntk@4096", 80), row("mine+pi@4096", 70, loss=(-10, -20, -3))], [], 50)
    assert found.verdict == "undecided"
    assert found.sentences[0] == (
        "mine+ntk@4096 has the highest score (80.0). Its base did not take part, so nothing is known about what it "
        "gains."
    )
