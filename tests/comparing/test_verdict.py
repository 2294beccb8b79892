"""Each sentence of the answer, where it is true and where it is not."""

import re
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import pytest

from mteb_longembed.comparing.candidates import Candidate
from mteb_longembed.comparing.costs import Cost
from mteb_longembed.comparing.summary import Row
from mteb_longembed.comparing.verdict import (
    Advice,
    Setting,
    advise,
    cautions,
    gate,
    operations_of,
    percent,
    times_base,
    type_next,
)
from mteb_longembed.errors import InputError
from mteb_longembed.evaluation.resampling import Interval
from tests.comparing.frames import BASE, FUSED, GOOD, KEY, LEXICAL, OTHER, answers, fake, frame, summary

SETTING = Setting(tasks=["LongEmbedPasskey"], n_queries=50, n_clusters=50)


def rows(*changes: dict[str, Any], of: Sequence[Row] | None = None) -> list[Row]:
    """Three candidates, of which the leader is not sure, with fields changed row by row."""
    made = list(summary({GOOD: 40, OTHER: 37, BASE: 25}, 50) if of is None else of)
    of_cost = {field.name for field in fields(Cost)}
    for number, change in enumerate(changes):
        own = {name: value for name, value in change.items() if name not in of_cost}
        cost = {name: value for name, value in change.items() if name in of_cost}
        made[number] = replace(made[number], cost=replace(made[number].cost, **cost), **own)
    return made


LEADING = rows({"near_share": 0.71}, {"near_share": 0.22})


def advice(made: Sequence[Row], **setting: object) -> Advice:
    return advise(made, replace(SETTING, **setting))


# ---- how sure


def test_what_alone_is_good_enough_is_the_winner() -> None:
    found = advice(summary({GOOD: 40, OTHER: 30, BASE: 20}, 50, {GOOD: {"flops": 8e6}}))
    assert (found.verdict, found.best, found.recommended) == ("winner", GOOD.id, GOOD.id)
    use, certainty, price = found.answer
    assert use == 'Use +ntk@4096: it alone is good enough. Type: mteb_longembed.load("org/mine+ntk@4096")'
    assert certainty.startswith("It scores 80.0 ") and certainty.endswith(" of the resamples of 50 queries.")
    assert price == (
        "It needs 8 times the operations of the base, keeps 3.0 KB of vectors per document, reads 100 % of the text."
    )


def test_a_leader_that_is_not_sure_says_who_may_be_best() -> None:
    found = advice(LEADING, n_clusters=12)
    assert (found.verdict, found.recommended) == ("undecided", GOOD.id)
    assert found.use.startswith("Use +ntk@4096 for now: ")
    assert (
        "in 71 % of the resamples of 50 queries in 12 clusters; not separated from it: +pi@4096 "
        in found.certainty
    )
    assert re.search(r"About [\d,]+ more such queries would separate the first two\.$", found.certainty)
    behind = rows({"near_share": 0.9}, {"standing": "behind"}, {"standing": "behind"})
    assert advice(behind).certainty.endswith(" of the resamples of 50 queries.")


@pytest.mark.parametrize("n_rivals", [2, 3, 4])
def test_three_rivals_are_named_whose_share_is_at_least_one_in_a_hundred(n_rivals) -> None:
    leader, rival, last = LEADING
    rivals = [replace(rival, id=str(n), label=f"+rival{n}", near_share=0.01) for n in range(n_rivals)]
    rare = replace(last, standing=rival.standing, near_share=0.0099)
    found = advice([leader, *rivals, rare]).certainty
    names = [f"+rival{n} (1 %)" for n in range(n_rivals)]
    if n_rivals == 4:
        names[3:] = ["1 more"]
    assert found.partition("not separated from it: ")[2].partition(". About")[0] == ", ".join(names)


def test_an_interrupted_comparison_says_so_first() -> None:
    found = advise(LEADING, SETTING, unfinished="3 of 17 candidates, interrupted")
    assert found.use.startswith("3 of 17 candidates, interrupted. So far: use +ntk@4096 for now: ")


@pytest.mark.parametrize(
    ("n", "n_clusters", "begin"), [(1, 1, "1 query cannot"), (60, 5, "60 queries in 5 clusters cannot")]
)
def test_with_fewer_than_six_clusters_nothing_is_claimed(n, n_clusters, begin) -> None:
    found = advice(summary({GOOD: n, BASE: 0}, n), n_queries=n, n_clusters=n_clusters)
    assert (found.verdict, found.typed) == ("nothing", "") and found.certainty.startswith(begin)
    assert "judge 40 or more" in found.certainty


def test_six_clusters_are_enough_for_a_claim() -> None:
    assert advice(summary({GOOD: 6, BASE: 0}, 6), n_queries=6, n_clusters=6).verdict == "winner"


def test_the_only_one_is_not_called_a_winner_of_anything() -> None:
    alone = advice(summary({GOOD: 40}, 50))
    assert (alone.verdict, alone.certainty) == ("only", "It scores 80.0 on 50 queries.")


# ---- good enough, and cheaper


def near(**change: Any) -> list[Row]:
    """A leader, and one that is good enough and needs half of the operations, but for what is changed."""
    return rows({"near_share": 0.98}, {"near_share": 0.97, "flops": 5e5, **change}, of=LEADING)


def test_the_cheapest_of_those_that_are_good_enough_is_recommended_and_why() -> None:
    found = advice(near())
    assert (found.verdict, found.recommended) == ("good enough", OTHER.id)
    assert found.use == "Use +pi@4096: it is the cheapest that is good enough."
    assert found.certainty == (
        "It scores 74.0 and is less than 2 points behind all others in 97 % of the resamples of 50 queries."
    )
    assert OTHER.name in found.typed


@pytest.mark.parametrize(
    ("change", "recommended"),
    [
        ({"near_share": 0.94}, GOOD),
        ({"near_share": 0.95}, OTHER),
        ({"bytes": 9999.0}, GOOD),
        ({"flops": 1e6}, GOOD),
        ({"flops": None}, GOOD),
        ({"flops": 1e6, "bytes": 512.0}, OTHER),
        ({"flops": 4e6, "bytes": 512.0}, GOOD),
    ],
)
def test_only_what_is_surely_good_enough_and_cheaper_is_recommended(change, recommended) -> None:
    assert advice(near(**change)).recommended == recommended.id


def test_what_is_good_enough_is_used_also_if_the_one_with_the_highest_score_is_not() -> None:
    made = rows({"near_share": 0.9}, {"near_share": 0.96}, of=LEADING)
    assert advice(made).recommended == OTHER.id


SMALL = {"bytes": 3072.0, "near_share": 0.3}


def named(*changes: dict[str, Any]) -> str:
    """What is named beside a leader with 45 vectors."""
    leader = {"bytes": 3072.0 * 45, "vectors": 45.0, "near_share": 0.8}
    return advice(rows(leader, *changes, of=LEADING)).use.partition("do not decide.")[2]


def test_of_what_costs_as_little_the_highest_score_is_named_and_only_if_it_may_well_be_near() -> None:
    assert named(SMALL, SMALL).startswith(" +pi@4096 is cheaper, and less than 2 points behind in 30 % ")
    assert " is cheaper, and less than 2 points behind in 25 % " in named({**SMALL, "near_share": 0.25})
    # the second one of a class never stands for it
    assert named({**SMALL, "near_share": 0.24}, SMALL) == ""
    # where the cheapest class is not near, the next one is named
    assert "+pi@4096 is cheaper" in named(SMALL, {"bytes": 99.0, "near_share": 0.0})
    assert "base is cheaper" in named(SMALL, {"bytes": 1536.0, "near_share": 0.3})


# ---- cost


def test_bm25_is_the_cheapest_of_all_and_a_fusion_costs_an_index_more_than_its_model() -> None:
    with_bm25 = summary({GOOD: 400, LEXICAL: 400}, 500)
    found = advice(with_bm25, n_queries=500, n_clusters=500)
    assert found.recommended == LEXICAL.id
    assert found.price == "It encodes nothing and keeps no vectors; its index holds the terms."
    assert advice(summary({FUSED: 400, GOOD: 400}, 500), n_clusters=500).recommended == GOOD.id
    assert advice(summary({FUSED: 40}, 50)).price.endswith("has an index of terms too.")


def test_operations_are_compared_with_those_of_the_own_base() -> None:
    other = fake("a/first+none@512", "base", 512, 512)
    changes: dict[Candidate, dict[str, Any]] = {
        GOOD: {"flops": 8e6},
        other: {"flops": 1e6},
        BASE: {"flops": 2e6},
    }
    made = summary({GOOD: 40, other: 30, BASE: 20}, 50, changes)
    assert times_base(made[0], made) == 4
    assert "needs 4 times the operations of the base" in advice(made).price


def test_the_price_of_a_base_is_in_kib_and_an_api_has_no_known_operations() -> None:
    (base,) = rows({"bytes": 2.0**20}, of=summary({BASE: 40}, 50))
    assert advice([base]).price == "It keeps 1,024.0 KB of vectors per document, reads 100 % of the text."
    (beside_text,) = rows({"bytes": 2.0**20, "text_bytes": 2.0**18}, of=summary({BASE: 40}, 50))
    assert "keeps 1,024.0 KB of vectors for 256.0 KB of text per document" in advice([beside_text]).price
    assert operations_of(replace(base, kind="bm25")) == 0
    assert operations_of(replace(base, kind="api")) == 1e6


def test_bm25_without_query_expansion_is_cheaper_than_with_it() -> None:
    name = "org/mine+lexical"
    near = fake(name, "bm25")
    found = advice(summary({near: 400, LEXICAL: 400, GOOD: 400}, 500), n_clusters=500)
    assert found.recommended == LEXICAL.id
    # the model reads terms, and no share of the text
    assert advice(summary({near: 400}, 500)).price == "It encodes each term once, about 0 tokens."


# ---- what to type


@pytest.mark.parametrize(
    ("candidate", "typed"),
    [
        (GOOD, 'mteb_longembed.load("org/mine+ntk@4096")'),
        (FUSED, 'mteb_longembed.search("org/mine+ntk@4096:fusion=bm25")'),
        (LEXICAL, "mteb run -m bm25:window=200 -t LongEmbedPasskey"),
        (fake("ada-002", "api"), "mteb run -m ada-002 -t LongEmbedPasskey"),
    ],
)
def test_what_to_type_is_right_for_every_kind(candidate, typed) -> None:
    made = summary({candidate: 40}, 50)
    assert advice(made).typed == typed
    own = replace(SETTING, corpus="my docs.jsonl", language="zho-Hans")
    (row,) = made
    assert type_next(row, own) == (
        f"mteb-longembed search {candidate.name} --corpus 'my docs.jsonl' --language zho-Hans \"YOUR QUESTION\""
    )


@pytest.mark.parametrize("candidate", [LEXICAL, fake("ada-002", "api")])
def test_data_in_memory_get_a_line_of_python_and_never_an_unknown_task(candidate) -> None:
    (row,) = summary({candidate: 40}, 50)
    typed = type_next(row, Setting(language="deu"))
    assert typed == f'mteb_longembed.search("{candidate.name}", language="deu")'


def test_names_are_typed_with_their_own_letters_and_without_escapes() -> None:
    (row,) = summary({fake("org/größe+ntk@4096", "strategy"): 40}, 50)
    assert type_next(row, SETTING) == 'mteb_longembed.load("org/größe+ntk@4096")'


# ---- cautions


@pytest.mark.parametrize(
    ("cost", "tied", "said"),
    [
        ({"longest": 512}, 0, "the longest has 512 tokens, and base reads 512"),
        ({"share_unknown": 0.9}, 0, "90 % of the documents' tokens are unknown to the tokenizer of base:"),
        ({}, 3, "base has ties that affect its score (3 queries): "),
        ({"share_unknown": 0.05}, 0, "5 % of the documents' tokens are unknown"),
        ({"longest": 513, "share_unknown": 0.0499}, 0, ""),
        ({"longest": 0}, 0, ""),
    ],
)
def test_what_misleads_is_said_where_it_is_true(cost, tied, said) -> None:
    scores = frame({BASE: {KEY: answers(4, 8)}}, tied)
    found = cautions(scores, summary({BASE: 4, GOOD: 2}, 8, of={BASE: cost}))
    assert len(found) == bool(said) and all(said in note.text for note in found)


def test_a_base_is_cautioned_about_also_where_another_candidate_leads() -> None:
    rows_of = summary({GOOD: 6, BASE: 4}, 8, of={BASE: {"share_unknown": 0.9}})
    assert rows_of[0].id == GOOD.id
    (note,) = cautions(frame({GOOD: {KEY: answers(6, 8)}, BASE: {KEY: answers(4, 8)}}), rows_of)
    assert note.text.startswith("90 % of the documents' tokens are unknown to the tokenizer of base:")


# ---- a gate, and shares


def test_a_gate_closes_if_the_whole_interval_is_below_zero() -> None:
    scores = frame({GOOD: {KEY: answers(40)}, BASE: {KEY: answers(10)}, OTHER: {KEY: answers(38)}})
    setting = Setting(n_queries=40, n_clusters=40)
    is_open, said = gate(scores, setting, GOOD.id, BASE.id)
    start = f"{BASE.id} is significantly below {GOOD.id}: -75.0 points (95 % interval -"
    assert not is_open and said.startswith(start) and said.endswith(") on 40 queries.")
    is_open, said = gate(scores, setting, BASE.id, GOOD.id)
    assert is_open and f"{GOOD.id} is not significantly below {BASE.id}: +75.0 points" in said
    assert gate(scores, setting, GOOD.id, OTHER.id)[0]
    # half a point on each query is enough, also with two candidates alone
    slightly = frame(
        {GOOD: {KEY: {f"q{i}": 0.5 for i in range(300)}}, BASE: {KEY: {f"q{i}": 0.495 for i in range(300)}}}
    )
    assert not gate(slightly, setting, GOOD.id, BASE.id)[0]
    with pytest.raises(InputError, match="a gate needs two runs that have finished"):
        gate(scores, setting, GOOD.id, FUSED.id)


def test_a_gate_stays_open_where_the_interval_ends_at_zero() -> None:
    # three of eight queries are the same: too few differ, and the upper end is exactly 0
    scores = frame({GOOD: {KEY: answers(8, 8)}, BASE: {KEY: answers(3, 8)}})
    is_open, said = gate(scores, Setting(n_queries=8, n_clusters=8), GOOD.id, BASE.id)
    assert is_open and " to +0.0) on 8 queries." in said


def test_only_exactly_none_and_all_are_0_and_100_percent() -> None:
    shares = {
        0: "0 %",
        1e-4: "<1 %",
        0.005: "<1 %",
        0.0051: "1 %",
        0.9949: "99 %",
        0.995: ">99 %",
        0.9999: ">99 %",
        1: "100 %",
    }
    assert {share: percent(share) for share in shares} == shares


def test_two_that_a_thousand_more_queries_would_not_separate_are_equal_and_the_cheaper_is_named() -> None:
    near = Interval(-0.1, -2.0, 1.9)
    for changes, end in (({"bytes": 99.0}, "+pi@4096 is the cheaper one."), ({}, "they cost the same.")):
        found = advice(rows({"near_share": 0.71}, {"near_share": 0.7, "to_best": near, **changes}))
        assert found.certainty.endswith(f". +ntk@4096 and +pi@4096 are equal in practice; {end}")
        assert "more such queries" not in found.certainty
