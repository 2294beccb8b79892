"""A whole comparison on a tiny model and a small corpus: evaluations, resume, budget, what is written."""

import gc
import json
import weakref
from typing import Any

import mteb
import pytest

from mteb_longembed.comparing import evaluate as running
from mteb_longembed.comparing import page as pages
from mteb_longembed.comparing.candidates import DEFAULT, MOST, Candidate, candidates_of
from mteb_longembed.comparing.pictures import drawings
from mteb_longembed.comparing.time_left import CandidateBar
from mteb_longembed.errors import InputError, UnknownNameError
from tests import tiny
from tests.comparing.conftest import compare

#: What a base tries with corpus weights.
WEIGHTED = [tail for tail in DEFAULT if "weights=" in tail]


@pytest.fixture
def small(base) -> list[Candidate]:
    return candidates_of(base, ["gp", "rp"])


def test_candidates_are_the_base_and_what_fits_it(base) -> None:
    names = [candidate.name.removeprefix(base) for candidate in candidates_of(base)]
    weighted = [f"+{tail.replace(':', '@128:')}" for tail in WEIGHTED]
    # windows of 128 tokens do not fit into this model
    first, last = ["+none@16", "+pcw@128", "+ntk@128"], ["+gp@128", "+ntk@128:vectors=64", "+pi@128"]
    assert names == [*first, "+pcw@128:vectors=window", *weighted, *last]
    (of_base,) = candidates_of(base, ["none"])
    assert of_base == candidates_of(base)[0] and of_base.is_base
    assert (of_base.trained_len, of_base.target_len) == (16, 16)
    assert [c.target_len for c in candidates_of(base, ["gp"], 64)] == [16, 64]


def test_plain_extrapolation_takes_part_where_the_positions_allow_it(base) -> None:
    rotary = [candidate.name for candidate in candidates_of("mini-rope")]
    assert {"mini-rope+none@4096", "mini-rope+se@4096"} < set(rotary) and len(set(rotary)) == MOST
    assert "mini-rope+none@1024" in [c.name for c in candidates_of("mini-rope", ["none"], "1k")]


def test_names_with_a_strategy_are_compared_with_their_base_if_it_takes_part(base) -> None:
    tails = ["none", "none:dtype=bf16", "none:vectors=8", "pi@64"]
    candidates = [c for tail in tails for c in candidates_of(f"{base}+{tail}")]
    assert {candidate.base for candidate in candidates} == {base}
    assert [candidate.is_base for candidate in candidates] == [True, False, False, False]


def test_candidates_that_cannot_be_are_told(base) -> None:
    with pytest.raises(UnknownNameError, match="unknown strategy 'gpp': did you mean 'gp'"):
        candidates_of(base, ["gpp"])
    with pytest.raises(InputError, match=r"^se does not fit .*, a model with absolute .*fit: none, pcw"):
        candidates_of(base, ["se"])
    with pytest.raises(InputError, match=r"^se does not fit"):
        candidates_of(base, ["none", "se"])
    with pytest.raises(InputError, match=r"^none does not fit .*takes at most its 16 trained positions"):
        candidates_of(base, ["none"], 64)


def test_the_ranking_is_that_of_mteb_and_each_model_is_loaded_once_and_alone(
    base, task, small, tmp_path, monkeypatch
) -> None:
    load = mteb.get_model
    alive = weakref.WeakSet()
    names = []

    def recorded(name: str, **options: Any) -> Any:
        gc.collect()
        assert not alive, "the model before is still there"
        names.append(name)
        model = load(name, **options)
        alive.add(model)
        return model

    monkeypatch.setattr(running.mteb, "get_model", recorded)
    compared = compare(small, task, tmp_path)
    assert sorted(names) == sorted(candidate.name for candidate in small)
    assert {row.name.removeprefix(base) for row in compared.rows} == {"+none@16", "+gp@128", "+rp@128"}
    assert compared.n_queries == 12 and len(compared.scores) == 3 * 12
    cache = mteb.ResultCache(tmp_path)
    for row in compared.rows:
        result = cache.load_task_result(compared.tasks[0], mteb.get_model_meta(row.name))
        assert result is not None and result.get_score() * 100 == pytest.approx(row.score.mean, abs=1e-3)
        assert row.cost.tokens_per_second > 0 and row.cost.vectors == 1 and row.cost.bytes == 32 * 4
    plain = json.loads(pages.as_json(compared))
    assert [c["name"] for c in plain["candidates"]] == [row.name for row in compared.rows]
    page = pages.page(compared, drawings(compared))
    assert all(row.label in page.replace("<wbr>", "") for row in compared.rows)
    assert set(compared.costs["candidate"]) == {row.name for row in compared.rows}
    assert pages.split_table(compared) is None

    again = compare(small, task, tmp_path)
    assert len(names) == len(small), "what has finished was loaded again"
    assert [(row.score, row.cost) for row in again.rows] == [(row.score, row.cost) for row in compared.rows]


def test_a_candidate_that_cannot_run_costs_itself_only(base, task, small, tmp_path, monkeypatch) -> None:
    load = mteb.get_model

    def failing(name, **kw):
        if "+gp" in name:
            raise InputError("gp does not work today.")
        return load(name, **kw)

    monkeypatch.setattr(running.mteb, "get_model", failing)
    result = compare(small, task, tmp_path)
    assert len(result.rows) == 2 and result.left_out[0].endswith("is left out: gp does not work today.")


def test_after_an_interrupt_only_what_is_missing_runs(base, task, small, tmp_path, monkeypatch) -> None:
    load = mteb.get_model
    names = []

    def interrupted(name: str, **options: Any) -> Any:
        names.append(name)
        if len(names) == 3:
            raise KeyboardInterrupt
        return load(name, **options)

    monkeypatch.setattr(running.mteb, "get_model", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compare(small, task, tmp_path)
    assert len(compare(small, task, tmp_path).rows) == 3
    assert names[3:] == names[2:3]


def test_under_a_budget_free_ones_run_first_then_named_and_what_would_take_longer_is_named(
    base, task, small, tmp_path, monkeypatch
) -> None:
    rates = {"none": 1e4, "gp": 1e6, "rp": 1e-3, "pi": 1e3}
    monkeypatch.setattr(running, "measure", lambda model, _: ([rates[model.first.strategy.KEY]] * 3, 4))
    named = candidates_of(f"{base}+pi@128")
    result = compare([*small, *named], task, tmp_path, budget=600, bm25=True)
    order = [name.removeprefix(base) for name in result.costs["candidate"]]
    assert order[:4] == ["bm25", "+pi@128", "+none@16", "+gp@128"]
    assert "fuse=bm25" in order[4] and len(result.rows) == 5
    assert f"{base}+rp@128: about 8" in result.skipped[0] and "minutes" in result.skipped[0]
    assert "1 of 5 candidates were not tried: --budget was too short." in result.recommendation.notes
    hurried = compare(small, task, tmp_path / "h", budget=1e-3, bm25=True)
    assert [row.name for row in hurried.rows] == ["bm25"]
    assert "3 of 4 candidates were not tried: --budget was too short." in hurried.recommendation.notes
    with pytest.raises(InputError, match=r"^compare must finish at least one candidate, got none: give "):
        compare(small[2:], task, tmp_path / "x", budget=600)
    with pytest.raises(InputError, match=r"^compare needs at least one candidate"):
        compare([], task, tmp_path / "r")


def test_the_bar_is_never_done_before_its_candidates_are() -> None:
    bar = CandidateBar(2, show=True)
    bar.begin("one", 100)
    bar.update(50)
    assert bar.n == pytest.approx(0.5)
    bar.initial += 1_000_000  # as an engine does for stored tokens
    bar.update(5_000)
    assert bar.n == pytest.approx(0.99) and bar.format_dict["rate"] > 0
    bar.finish()
    bar.begin("two", 0)
    bar.update(10)
    assert bar.n == 1
    bar.finish()
    assert bar.n == 2
    bar.close()


def test_rows_that_the_base_does_not_use_several_vectors_and_late_chunking_take_part(tmp_path) -> None:
    tiny.sentence_transformer("bert", tmp_path, max_position_embeddings=512)
    (tmp_path / "model/sentence_bert_config.json").write_text('{"max_seq_length": 256}')

    def tails(*given: Any) -> list[str]:
        return [c.name.partition("+")[2] for c in candidates_of(str(tmp_path / "model"), *given)]

    pieces = ["pcw@2048:vectors=window", "pcw@2048:size=128,vectors=window"]
    weighted = [tail.replace(":", "@2048:") for tail in WEIGHTED]
    first = ["none@256", "pcw@2048", "ntk@2048", "none@512:trained_len=512", pieces[0]]
    assert tails(None, "2k") == [*first, *weighted, "gp@2048", pieces[1]]
    assert tails(["pcw"], 2048) == ["none@256", "pcw@2048", *pieces, weighted[0], weighted[3]]
    assert tails(["none"]) == ["none@256", "none@512:trained_len=512"]
    assert tails(["none"], 300) == ["none@256", "none@300:trained_len=300"]


def test_searches_and_several_vectors_are_compared_like_models(base, task, tmp_path) -> None:
    tails = ("none@16", "pcw@128,index=flat,size=10", "pcw@128,size=10,vectors=window")
    candidates = [Candidate(f"{base}+{t}", base, i == 0, 16, 128 if i else 16) for i, t in enumerate(tails)]
    result = compare(candidates, task, tmp_path, bm25=True)
    assert not result.left_out
    rows = {row.name.removeprefix(f"{base}+"): row for row in result.rows}
    assert len(rows) == 5 and any("fuse=bm25" in name for name in rows)
    assert rows[tails[1]].cost.vectors == 1 and rows[tails[2]].cost.vectors > 3
    assert rows["bm25"].cost.tokens_per_second is None and rows["bm25"].diff_to_base is None


def test_queries_are_encoded_once_for_all_candidates(base, task, small, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("MTEB_LONGEMBED_STORE", str(tmp_path / "store"))
    alone = compare(small[:1], task, tmp_path / "one")
    monkeypatch.setenv("MTEB_LONGEMBED_STORE", str(tmp_path / "another"))
    together = compare(small, task, tmp_path / "all")
    queries = 12 * 8  # six words and two special tokens each
    assert alone.costs["tokens_shared"].sum() == 0 and together.costs["tokens_shared"].sum() == 2 * queries
    assert together.costs["tokens_encoded"].sum() == alone.costs["tokens_encoded"].sum() + 2 * 12 * 40
