"""The rule, on constructed rows with known winners, ties and noise."""

from __future__ import annotations

import math

from mteb_longembed.comparing.candidates import BM25, Candidate
from mteb_longembed.comparing.costs import Cost
from mteb_longembed.comparing.ranking import Expected, Row
from mteb_longembed.comparing.recommendation import recommend
from mteb_longembed.statistics.intervals import Interval


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
    found = recommend(rows, ["LongEmbedPasskey"], 50)
    assert (found.verdict, found.best, found.cheapest) == ("better", "mine+ntk@4096", "mine+ntk@4096")
    assert found.sentences[0] == (
        "mine+ntk@4096 is best with 80.0, +30.0 points against its base (+20.0 to +40.0 on 50 queries)."
    )
    assert 'mteb_longembed.load("mine+ntk@4096")' in found.sentences[-1]
    assert "mteb run -m mine+ntk@4096 -t LongEmbedPasskey" in found.sentences[-1]


def test_a_cheaper_one_that_surely_loses_less_than_two_points_is_named() -> None:
    rows = [
        row("mine+se@4096", 80, (30, 20, 40), speed=500.0),
        row("mine+pcw@4096", 79.5, (29, 20, 40), (-0.5, -1.9, 1.0), speed=2000.0),
        row("mine+gp@4096", 79.0, (29, 20, 40), (-1.0, -2.1, 1.0), speed=9000.0),
        row("mine+none@512", 50, loss=(-30, -40, -20), speed=9999.0, base=True),
    ]
    found = recommend(rows, [], 50)
    assert (found.best, found.cheapest) == ("mine+se@4096", "mine+pcw@4096")
    assert "2,000 tokens a second against 500 tokens a second" in found.sentences[2]


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
    assert found.sentences[-1] == "Type next: mteb run -m bm25 -t LongEmbedQMSum."


def test_drawn_queries_recommend_nothing_about_bm25() -> None:
    rows = [
        row(BM25, 90, speed=None),
        row("mine+ntk@4096", 80, (30, 20, 40)),
        row("mine+none@512", 50, base=True),
    ]
    assert recommend(rows, [], 50, proxy=True).best == "mine+ntk@4096"


def test_a_search_is_loaded_by_search() -> None:
    rows = [row("mine+pcw@4096,center=corpus", 80, (30, 20, 40)), row("mine+none@512", 50, base=True)]
    assert 'mteb_longembed.search("mine+pcw@4096,center=corpus")' in recommend(rows, [], 50).sentences[-1]


def test_without_its_base_nothing_is_said_about_a_gain() -> None:
    found = recommend([row("mine+ntk@4096", 80), row("mine+pi@4096", 70, loss=(-10, -20, -3))], [], 50)
    assert found.verdict == "undecided"
    assert found.sentences[0] == (
        "mine+ntk@4096 has the highest score (80.0). Its base did not take part, so nothing is known about what it "
        "gains."
    )


BEST = row("mine+ntk@4096", 80, (30, 20, 40), speed=500.0)


def test_only_what_really_differs_is_cheaper() -> None:
    overlapping = row("mine+gp@4096", 79, (29, 20, 40), (-1, -1.5, 1), speeds=[490.0, 5000.0, 6000.0])
    found = recommend([BEST, overlapping], [], 50)
    assert found.cheapest == found.smallest == BEST.name and "Nothing faster or smaller" in " ".join(
        found.sentences
    )
    small = row("mine+pi@4096", 79, (29, 20, 40), (-1, -1.5, 1), speed=400.0, bytes=512.0)
    found = recommend([BEST, overlapping, small], [], 50)
    assert (found.cheapest, found.smallest) == (BEST.name, small.name)
    assert "smaller vectors (0.5 KB a document against 3.0 KB)" in found.sentences[2]


def test_bm25_is_compared_with_the_best() -> None:
    for loss, words in [
        (
            (-20, -30, -10),
            "BM25, which needs no vectors, scores 60.0: -20.0 points (-30.0 to -10.0) against the best.",
        ),
        ((-2, -5, 1), "-2.0 points (-5.0 to +1.0), so these queries cannot tell it from the best."),
    ]:
        rows = [BEST, row(BM25, 60, loss=loss, speed=None)]
        assert any(sentence.endswith(words) for sentence in recommend(rows, [], 50).sentences)
        assert not any(
            "BM25, which" in sentence for sentence in recommend(rows, [], 50, proxy=True).sentences
        )


def test_a_longer_target_is_named_if_the_best_reads_too_little() -> None:
    def said(best: Row, *others: Row) -> str:
        return " ".join(recommend([best, *others], [], 50).sentences)

    half = {"share_read": 0.5, "enough_len": 32_768}
    short = row("mine+ntk@4096", 80, (30, 20, 40), **half)
    assert "reads 50% of the text: raise --target to 32k to read 90% or more" in said(short)
    assert "--target" not in said(BEST)
    # the others read that far already
    base = row("mine+none@512", 80, base=True, share_read=0.5, enough_len=2048)
    assert "--target" not in said(base, row("mine+ntk@4096", 70, (-10, -20, -5)))


def test_halves_that_choose_differently_are_said() -> None:
    said = recommend([BEST], [], 50, Expected(71.0, (BEST.name, "mine+gp@4096"))).sentences
    assert said[0].endswith("But half of the queries choose mine+ntk@4096, the other half mine+gp@4096.")
    assert said[1].startswith("On new queries expect 71.0")
    assert "half" not in recommend([BEST], [], 50, Expected(71.0, (BEST.name,) * 2)).sentences[0]
    assert "needs 40 queries" in recommend([BEST], [], 39).sentences[1]
