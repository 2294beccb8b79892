"""Each sentence of the advice, where it is true and where it is not."""

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from mteb_longembed.comparing.advice import (
    Advice,
    Setting,
    advise,
    findings,
    percent,
    short_documents,
    ties,
    type_next,
    unknown_tokens,
)
from mteb_longembed.comparing.candidates import Candidate
from tests.comparing.frames import BASE, FUSED, GOOD, KEY, LEXICAL, OTHER, answers, frame, summary

SETTING = Setting(tasks=["LongEmbedPasskey"], n_queries=50)


def rows(*changes: dict[str, Any], of: pd.DataFrame | None = None) -> pd.DataFrame:
    """Three candidates, of which the leader is not sure, with further columns changed row by row."""
    made = summary({GOOD: 40, OTHER: 37, BASE: 25}, 50) if of is None else of.copy()
    for number, change in enumerate(changes):
        for column, value in change.items():
            made.iloc[number, made.columns.get_loc(column)] = value
    return made


LEADING = rows({"first_share": 0.71}, {"standing": "equal", "first_share": 0.22, "more_queries": 63.0})


def advice(made: pd.DataFrame, **setting: object) -> Advice:
    return advise(made, replace(SETTING, **setting))


# ---- who wins


def test_a_winner_is_named_with_its_distance_to_the_next_and_to_its_base() -> None:
    found = advice(summary({GOOD: 40, OTHER: 30, BASE: 25}, 50, {GOOD: {"tokens_per_second": 500.0}}))
    assert (found.verdict, found.best, found.recommended) == ("winner", GOOD.id, GOOD.id)
    use, certainty, price = found.answer
    assert use == 'Use +ntk@4096. Type: mteb_longembed.load("org/mine+ntk@4096")'
    assert certainty.startswith("It scores 80.0 on 50 queries and ranks first in ")
    assert ": 20.0 points (" in certainty and ") above +pi@4096 and 30.0 points (" in certainty
    assert price == (
        "It encodes 500 tokens a second (base: 1,000), keeps 1 vector of 3.0 KB a document and reads 100 % of the text."
    )


def test_a_base_that_wins_is_kept() -> None:
    assert (
        advice(summary({BASE: 45, OTHER: 20}, 50)).use == "Stay with base: nothing that was tried is better."
    )
    unsure = summary({BASE: 45, OTHER: 43}, 50)
    assert advice(unsure).use == "Stay with base for now: nothing that was tried is surely better."


def test_a_leader_that_is_not_sure_says_how_many_more_queries_would_tell_in_most_cases() -> None:
    found = advice(LEADING)
    assert found.verdict == "undecided"
    assert found.use == "Use +ntk@4096 for now: it scores highest, but these queries do not decide."
    assert found.certainty == (
        "+ntk@4096 has the highest score (80.0); +pi@4096 cannot be told from it on 50 queries (first in 71 % and 22 % "
        "of bootstrap resamples); with about 63 more queries like these a difference would show in 80 % of cases."
    )


def test_what_has_the_same_scores_is_not_told_apart_by_more_queries() -> None:
    found = advice(summary({GOOD: 40, OTHER: 40}, 50, {OTHER: {"bytes": 9999.0}}))
    assert found.certainty == (
        "+ntk@4096 has the highest score (80.0). The same score on every query: +pi@4096."
    )
    assert found.use == "Use +ntk@4096."
    cheaper = advice(summary({GOOD: 40, OTHER: 40}, 50, {OTHER: {"bytes": 512.0}}))
    assert (
        cheaper.recommended == OTHER.id and "have the same score on each of 50 queries" in cheaper.certainty
    )


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (0, "about 5 more"),
        (62.1, "about 63 more"),
        (412, "about 412 more"),
        (501, "many more"),
        (float("inf"), "many more"),
    ],
)
def test_further_queries_are_rounded_and_many_above_ten_times(more, words) -> None:
    assert words in advice(rows({}, {"more_queries": float(more)}, of=LEADING)).certainty


@pytest.mark.parametrize("n", [1, 2])
def test_with_one_or_two_queries_nothing_is_claimed(n) -> None:
    found = advice(summary({GOOD: n, BASE: 0}, n), n_queries=n)
    assert (found.verdict, found.typed, found.use) == ("nothing", "", "Nothing can be said yet.")
    assert found.certainty.startswith(("1 query cannot decide", "2 queries cannot decide"))


def test_the_only_one_is_not_called_a_winner_of_anything_and_bm25_is_not_forgotten() -> None:
    alone = advice(summary({GOOD: 40}, 50))
    assert alone.certainty == "It is the only one that finished, with 80.0 on 50 queries."
    beside = advice(summary({GOOD: 40, LEXICAL: 45}, 50, synthetic_queries=True))
    assert beside.certainty == "It is the only one without BM25 that finished, with 80.0 on 50 queries."


# ---- equal enough and cheaper


def near(**change: object) -> pd.DataFrame:
    """A leader, and one that is equal enough and twice as fast, but for what is changed."""
    fast = {"slowest": 2000.0, "tokens_per_second": 2000.0, "fastest": 2000.0}
    return rows({}, {"equal_low": -1.6, "equal_high": 0.7, **fast, **change}, of=LEADING)


def test_a_cheaper_one_that_is_equal_enough_is_recommended_and_why() -> None:
    found = advice(near())
    assert (found.verdict, found.recommended) == ("equivalent", OTHER.id)
    assert found.use == "Use +pi@4096: it is as good as +ntk@4096 within 2 points, and cheaper."
    assert (
        "lies within 2 points by two one-sided tests at 5 % (90 % interval -1.6 to +0.7)" in found.certainty
    )
    assert "2,000 tokens a second" in found.price and OTHER.name in found.typed


@pytest.mark.parametrize(
    "change",
    [{"equal_low": -2.1}, {"equal_high": 2.0}, {"slowest": 1100.0}, {"bytes": 9999.0}, {"device": "another"}],
    ids=["may lose 2 points", "may gain 2 points", "may be slower", "larger vectors", "measured elsewhere"],
)
def test_what_is_not_surely_equal_and_cheaper_is_not_recommended(change) -> None:
    assert advice(near(**change)).recommended == GOOD.id


def test_smaller_vectors_are_cheaper_too_unless_they_are_slower() -> None:
    same = {"slowest": 1000.0, "tokens_per_second": 1000.0, "fastest": 1000.0, "bytes": 512.0}
    assert advice(near(**same)).recommended == OTHER.id
    assert advice(near(**same | {"fastest": 100.0, "slowest": 100.0})).recommended == GOOD.id


def test_bm25_is_the_cheapest_of_all_and_a_fusion_costs_an_index_more_than_its_model() -> None:
    with_words = summary({GOOD: 40, LEXICAL: 40}, 50)
    assert advice(with_words).recommended == LEXICAL.id
    assert advice(with_words).price == "It encodes nothing and keeps no vectors; its index holds the words."
    fused = summary({FUSED: 40, GOOD: 40}, 50)
    assert advice(fused).recommended == GOOD.id
    assert advice(summary({FUSED: 40}, 50)).price.endswith("An index of words comes on top of its vectors.")


# ---- what to type


@pytest.mark.parametrize(
    ("candidate", "typed"),
    [
        (GOOD, 'mteb_longembed.load("org/mine+ntk@4096")'),
        (BASE, 'mteb_longembed.load("org/mine+none@512")'),
        (FUSED, 'mteb_longembed.search("org/mine+ntk@4096:fuse=bm25")'),
        (
            replace(GOOD, name="m+pcw:whiten=0.5", base="m", kind="search"),
            'mteb_longembed.search("m+pcw:whiten=0.5")',
        ),
        (LEXICAL, "mteb run -m bm25:window=200 -t LongEmbedPasskey"),
        (Candidate("ada-002", "ada-002", "api"), "mteb run -m ada-002 -t LongEmbedPasskey"),
        (replace(GOOD, key="halves"), 'mteb_longembed.search("org/mine+ntk@4096", chunker=halves)'),
    ],
)
def test_what_to_type_is_right_for_every_kind(candidate, typed) -> None:
    made = summary({candidate: 40}, 50)
    assert advice(made).typed == typed
    if not candidate.key:
        own = replace(SETTING, corpus="my docs.jsonl", language="zho-Hans")
        (row,) = made.itertuples()
        assert type_next(row, own) == (
            f"mteb-longembed search {candidate.name} --corpus 'my docs.jsonl' --language zho-Hans \"YOUR QUESTION\""
        )


# ---- what else


def test_the_score_to_expect_is_said_and_that_queries_were_drawn() -> None:
    (known,) = findings(SETTING, 71.0)
    assert known.text.startswith("Expected score on new queries: 71.0")
    drawn, unknown = findings(replace(SETTING, synthetic_queries=True), None)
    assert "sentences drawn from the documents" in drawn.text and "it needs 40 queries" in unknown.text


@pytest.mark.parametrize(
    ("share", "text"), [(0, "0 %"), (1e-4, "<1 %"), (0.5, "50 %"), (0.996, ">99 %"), (1, "100 %")]
)
def test_a_share_that_is_not_all_is_not_written_so(share, text) -> None:
    assert percent(share) == text


# ---- what misleads


@pytest.mark.parametrize(("longest", "is_said"), [(512, True), (513, False)])
def test_documents_that_all_fit_the_window_are_called_short(longest, is_said) -> None:
    sentences = short_documents(summary({BASE: 20, GOOD: 10}, of={BASE: {"longest": longest}}))
    assert bool(sentences) == is_said
    assert all("the longest has 512 tokens, and base reads 512" in sentence for sentence in sentences)


def test_queries_that_equal_scores_decide_are_counted() -> None:
    made = summary({BASE: 4}, 8)
    (sentence,) = ties(frame({BASE: {KEY: answers(4, 8)}}, tied=3), made)
    assert "3 of 8 queries" in sentence and "mean over all orders" in sentence
    assert not ties(frame({BASE: {KEY: answers(4, 8)}}), made)


@pytest.mark.parametrize(("share", "is_said"), [(0.9, True), (0.01, False)])
def test_tokens_that_a_tokenizer_does_not_know_are_said(share, is_said) -> None:
    sentences = unknown_tokens(summary({BASE: 20}, of={BASE: {"share_unknown": share}}))
    assert bool(sentences) == is_said
    assert all("The tokenizer of mine does not know 90 %" in sentence for sentence in sentences)
