"""Each sentence of the recommendation, where it is true and where it is not."""

import math
from dataclasses import replace

import pytest

from mteb_longembed.comparing.candidates import BM25, Candidate, short_names
from mteb_longembed.comparing.ranking import Expected, Row
from mteb_longembed.comparing.recommendation import Recommendation, Setting, recommend
from mteb_longembed.comparing.table import percent
from tests.comparing.frames import SETTING, row

BASE = row("org/mine+none@512", 50, base=True, best=(-30, -40, -20))
BEST = row("org/mine+ntk@4096", 80, "winner", first=0.99, gain=(30, 20, 40), speed=500.0)
LEADER = replace(BEST, standing="leader", first_share=0.71)
RIVAL = row("org/mine+pi@4096", 74, "equal", best=(-6, -16, 2), first=0.22, more=63, speed=500.0)


def advise(*rows: Row, expected: Expected | None = None, **setting: object) -> Recommendation:
    return recommend(list(rows), replace(SETTING, **setting), expected)


def said(advice: Recommendation) -> str:
    return " ".join([*advice.answer, *advice.notes])


# ---- who wins


def test_a_winner_is_named_with_its_distance_to_the_next_and_to_its_base() -> None:
    second = row("org/mine+pi@4096", 74, best=(-6, -9, -2))
    advice = advise(BEST, second, BASE)
    assert (advice.verdict, advice.best, advice.recommended) == ("winner", BEST.name, BEST.name)
    use, certainty, price = advice.answer
    assert use == 'Use +ntk@4096. Type: mteb_longembed.load("org/mine+ntk@4096")'
    assert certainty == (
        "It scores 80.0 on 50 queries and is first in 99 % of their resamples: 6.0 points (2.0 to 9.0) above "
        "+pi@4096 and 30.0 points (20.0 to 40.0) above its base."
    )
    assert price == (
        "It encodes 500 tokens a second (base: 1,000), keeps 1 vector of 3.0 KB a document and reads 100 % of the text."
    )
    assert advice.out == (second.name, BASE.name) and not advice.equals


def test_a_base_that_wins_is_kept() -> None:
    base = row("org/mine+none@512", 80, "winner", base=True, first=0.98)
    advice = advise(base, row("org/mine+pi@4096", 60, best=(-20, -30, -10), gain=(-20, -30, -10)))
    assert advice.use == "Stay with base: nothing that was tried is better."


def test_a_leader_that_is_not_sure_is_no_winner_and_says_how_many_more_queries_would_tell() -> None:
    advice = advise(LEADER, RIVAL, BASE)
    assert advice.verdict == "undecided" and advice.equals == (RIVAL.name,) and advice.out == (BASE.name,)
    assert advice.use == "Use +ntk@4096 for now: it scores highest, but these queries do not decide."
    assert advice.certainty == (
        "+ntk@4096 leads (80.0), +pi@4096 cannot be told from it on 50 queries (first in 71 % and 22 % of resamples); "
        "about 65 more queries like these would."
    )
    assert "is first in" not in advice.certainty


def test_a_base_that_is_not_surely_first_is_kept_for_now() -> None:
    base = replace(BASE, standing="leader", diff_to_best=None, first_share=0.6)
    advice = advise(base, replace(RIVAL, first_share=0.4))
    assert advice.use == "Stay with base for now: nothing that was tried is surely better."


def test_of_equal_scores_nobody_is_said_to_lead() -> None:
    same = replace(RIVAL, score=LEADER.score, more_queries=math.inf)
    assert advise(LEADER, same).certainty.startswith(
        "+ntk@4096 scores highest, though not alone (80.0), +pi@4096"
    )
    assert "though not alone" not in advise(LEADER, RIVAL).certainty


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (3, "about 5 more"),
        (97, "about 100 more"),
        (412, "about 450 more"),
        (501, "many more"),
        (math.inf, "many more"),
    ],
)
def test_further_queries_are_rounded_and_many_above_ten_times(more, words) -> None:
    assert words in advise(LEADER, replace(RIVAL, more_queries=more)).certainty


def test_many_equals_are_counted_and_not_listed() -> None:
    rivals = [replace(RIVAL, label=f"+pi@{i}") for i in range(6)]
    sentence = advise(LEADER, *rivals).certainty
    assert "+pi@0, +pi@1, +pi@2 and 3 more cannot be told from it" in sentence


@pytest.mark.parametrize("n", [1, 2])
def test_with_one_or_two_queries_nothing_is_claimed(n) -> None:
    advice = advise(LEADER, replace(RIVAL, more_queries=math.inf), n_queries=n)
    assert advice.verdict == "nothing" and advice.typed == ""
    assert advice.use == "Nothing can be said yet."
    assert advice.certainty.startswith(("1 query cannot decide", "2 queries cannot decide"))
    assert "leads" not in said(advice) and "first in" not in said(advice)


def test_the_only_one_that_finished_is_not_called_a_winner_of_anything() -> None:
    advice = advise(LEADER)
    assert advice.certainty == "It is the only one that finished, with 80.0 on 50 queries."


# ---- equal enough


NEAR = row("org/mine+pcw@4096", 79.5, "equal", best=(-0.5, -2.1, 1.0), equivalence=(-1.6, 0.7), speed=2000.0)


def test_a_cheaper_one_that_is_equal_enough_is_recommended_and_why() -> None:
    advice = advise(LEADER, NEAR, BASE)
    assert (advice.verdict, advice.recommended) == ("equivalent", NEAR.name)
    assert advice.use == "Use +pcw@4096: it is as good as +ntk@4096 within 2 points, and cheaper."
    assert advice.certainty == (
        "+pcw@4096 has 79.5, +ntk@4096 80.0: the difference of -0.5 points on 50 queries lies within 2 points by two "
        "one-sided tests at 5 % (90 % interval -1.6 to +0.7)."
    )
    assert "2,000 tokens a second" in advice.price and NEAR.name in advice.typed


@pytest.mark.parametrize(
    "change",
    [
        {"equivalence": replace(NEAR.equivalence, low=-2.1)},
        {"equivalence": replace(NEAR.equivalence, high=2.0)},
        {"cost": replace(NEAR.cost, speeds=[490.0, 5000.0, 6000.0])},
        {"cost": replace(NEAR.cost, bytes=9999.0)},
        {"cost": replace(NEAR.cost, device="another")},
    ],
    ids=["may lose 2 points", "may gain 2 points", "may be slower", "larger vectors", "measured elsewhere"],
)
def test_what_is_not_surely_equal_and_cheaper_is_not_recommended(change) -> None:
    assert advise(LEADER, replace(NEAR, **change), BASE).recommended == LEADER.name


def test_smaller_vectors_are_cheaper_too_unless_they_are_slower() -> None:
    small = replace(NEAR, cost=replace(NEAR.cost, bytes=512.0, speeds=[500.0] * 3))
    assert advise(LEADER, small).recommended == small.name
    slow = replace(small, cost=replace(small.cost, speeds=[100.0] * 3))
    assert advise(LEADER, slow).recommended == LEADER.name


def test_bm25_is_the_cheapest_of_all() -> None:
    lexical = row(BM25, 79.5, "equal", best=(-0.5, -2.1, 1.0), equivalence=(-1.6, 0.7), speed=None)
    assert advise(LEADER, NEAR, lexical).recommended == BM25
    assert advise(LEADER, NEAR, lexical).price == (
        "It encodes nothing and keeps no vectors; its index holds the words."
    )


# ---- what else


def test_bm25_is_compared_with_the_best_unless_it_is_apart() -> None:
    for change, words in [
        ({}, "no vectors, scores 60.0: -20.0 points (-30.0 to -10.0) against +ntk@4096."),
        ({"standing": "equal"}, "so these queries cannot tell it from +ntk@4096."),
    ]:
        lexical = replace(row(BM25, 60, best=(-20, -30, -10), speed=None), **change)
        assert any(sentence.endswith(words) for sentence in advise(BEST, lexical).notes)
    apart = row(BM25, 90, "apart", best=(10, 5, 20), speed=None)
    advice = advise(apart, BEST, synthetic_queries=True)
    assert advice.best == BEST.name and "BM25, which" not in said(advice)
    assert "sentences drawn from the documents" in said(advice)
    assert "sentences drawn" not in said(advise(BEST, BASE))


def test_a_longer_target_is_named_if_no_candidate_of_the_base_reads_enough() -> None:
    half_read = {"share_read": 0.5, "enough_len": 32_768}
    short = row("org/mine+ntk@4096", 80, "winner", first=1.0, **half_read)
    advice = advise(short)
    assert advice.use == "Use +ntk@4096."
    assert advice.price.endswith("and reads 50 % of the text: raise --target to 32k to read 90 % or more.")
    assert "--target" not in said(advise(BEST))
    # the others read that far already
    base = row("org/mine+none@512", 80, "winner", base=True, share_read=0.5, enough_len=2048)
    assert "--target" not in said(advise(base, row("org/mine+ntk@4096", 70, best=(-10, -20, -5))))
    # whoever wins
    behind = row("org/mine+pcw@1024", 12, best=(-76, -80, -70), share_read=0.21, enough_len=8192)
    behind = replace(behind, candidate=replace(behind.candidate, target_len=1024))
    lexical = row(BM25, 88, "winner", speed=None, first=1.0)
    advice = advise(lexical, behind)
    assert advice.use == "Use bm25 for now: the models have read too little of the text to be judged."
    assert advice.price == (
        "It encodes nothing and keeps no vectors; its index holds the words of whole documents, while +pcw@1024 "
        "reads 21 % of the text: raise --target to 8k to read 90 % or more."
    )
    # a winner that reads all, by chunks of one's own, needs no longer target
    chunks = replace(BEST, candidate=replace(BEST.candidate, chunks_of="org/mine", chunker="halves"))
    assert "--target" not in said(advise(chunks, behind))
    whole = replace(behind, cost=replace(behind.cost, share_read=1.0))
    advice = advise(lexical, whole)
    assert advice.use == "Use bm25." and "--target" not in advice.price


def test_the_score_to_expect_and_halves_that_choose_differently_are_said() -> None:
    advice = advise(BEST, RIVAL, expected=Expected(71.0, (BEST.name, RIVAL.name)))
    assert "Half of the queries choose +ntk@4096, the other half +pi@4096." in advice.notes
    assert "On new queries expect 71.0: one half of the queries chose, the other half scored." in advice.notes
    same = advise(BEST, RIVAL, expected=Expected(71.0, (BEST.name,) * 2))
    assert "Half of the queries" not in said(same)
    assert "needs 40 queries" in said(advise(BEST, n_queries=39)) and "needs 40" not in said(same)


def test_how_many_were_not_tried_is_said() -> None:
    tried = advise(BEST, n_untried=7, n_asked=9)
    assert "7 of 9 candidates were not tried: --budget was too short." in tried.notes
    assert "not tried" not in said(advise(BEST))


# ---- what to type


MINE = Setting(tasks=["org/mine"], n_queries=50, corpus="my docs.jsonl")


@pytest.mark.parametrize(
    ("name", "on_tasks"),
    [
        ("mini-ape+ntk@4096", 'mteb_longembed.load("mini-ape+ntk@4096")'),
        ("mini-ape+none@512", 'mteb_longembed.load("mini-ape+none@512")'),
        ("mini-ape+pcw:vectors=window", 'mteb_longembed.load("mini-ape+pcw:vectors=window")'),
        ("mini-ape+pcw:fuse=bm25", 'mteb_longembed.search("mini-ape+pcw:fuse=bm25")'),
        ("mini-ape+pcw:index=flat", 'mteb_longembed.search("mini-ape+pcw:index=flat")'),
        ("mini-ape+pcw:weights=sif", 'mteb_longembed.search("mini-ape+pcw:weights=sif")'),
        (
            "mini-ape+pcw:score=softmax,vectors=window,weights=idf",
            'mteb_longembed.search("mini-ape+pcw:score=softmax,vectors=window,weights=idf")',
        ),
        (BM25, "mteb run -m bm25 -t LongEmbedPasskey"),
    ],
)
def test_what_to_type_is_right_for_every_kind_of_name(name, on_tasks) -> None:
    candidate = Candidate(name, "" if name == BM25 else "mini-ape")
    winner = replace(BEST, candidate=candidate)
    assert recommend([winner], SETTING).typed == on_tasks
    assert recommend([winner], MINE).typed == (
        f"mteb-longembed search {name} --corpus 'my docs.jsonl' \"YOUR QUESTION\""
    )


def test_the_language_of_the_files_is_in_what_to_type() -> None:
    typed = recommend([BEST], replace(MINE, language="zho-Hans")).typed
    assert typed.endswith("--corpus 'my docs.jsonl' --language zho-Hans \"YOUR QUESTION\"")


def test_a_chunker_of_ones_own_is_given_in_python() -> None:
    candidate = Candidate("x-chunks.y", "mini-ape", chunks_of="mini-ape", chunker="halves")
    typed = recommend([replace(BEST, candidate=candidate)], MINE).typed
    assert typed == 'mteb_longembed.search("mini-ape", chunker=halves)'


# ---- short names


def test_short_names_leave_out_what_all_have_in_common() -> None:
    path = "/models/all-MiniLM-L6-v2"
    one = [
        Candidate(f"{path}+none@256", path, is_base=True),
        Candidate(f"{path}+gp@1k", path),
        Candidate(BM25, ""),
    ]
    assert list(short_names(one).values()) == ["base", "+gp@1k", "bm25"]
    two = [*one, Candidate("e5-base+gp@1k", "e5-base")]
    assert list(short_names(two).values()) == [
        "all-MiniLM-L6-v2",
        "all-MiniLM-L6-v2+gp@1k",
        "bm25",
        "e5-base+gp@1k",
    ]
    alike = [Candidate("/a/m+gp@1k", "/a/m"), Candidate("/b/m+gp@1k", "/b/m")]
    assert list(short_names(alike).values()) == ["/a/m+gp@1k", "/b/m+gp@1k"]


@pytest.mark.parametrize(
    ("share", "text"), [(0, "0 %"), (1e-4, "<1 %"), (0.5, "50 %"), (0.996, ">99 %"), (1, "100 %")]
)
def test_a_share_that_is_not_all_is_not_written_so(share, text) -> None:
    assert percent(share) == text
