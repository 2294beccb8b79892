"""A whole comparison on a tiny model and a small corpus: passes, resuming, budget, passages, queries."""

import gc
import re
import weakref
from typing import Any

import mteb
import numpy as np
import pytest

import mteb_longembed
from mteb_longembed.comparing import compare as comparing
from mteb_longembed.comparing import run
from mteb_longembed.comparing.candidates import Candidate, candidates_of, named
from mteb_longembed.comparing.costs import Cost
from mteb_longembed.comparing.live import Display
from mteb_longembed.comparing.run import Result
from mteb_longembed.comparing.schedule import derived_candidates
from mteb_longembed.data.task import beir_task, files_task
from mteb_longembed.encoders.batching import Engine
from mteb_longembed.errors import INTERRUPTED, InputError, UnknownNameError
from mteb_longembed.evaluation.split import splits_of
from mteb_longembed.retrieval.make import make_scorer
from tests import tiny
from tests.comparing.conftest import compare
from tests.comparing.frames import LEXICAL, frame
from tests.own_data import beir


@pytest.fixture
def small(base) -> list[Candidate]:
    return candidates_of(base, ["gp", "rp"])[0]


def test_the_ranking_is_that_of_mteb_and_each_model_is_loaded_once_and_alone(
    base, task, small, tmp_path, monkeypatch
) -> None:
    load = run.load_for_search
    alive = weakref.WeakSet()
    names = []

    def recorded(resolved: Any, device: Any) -> Any:
        gc.collect()
        assert not alive, "the model before is still there"
        names.append(str(resolved.method))
        model = load(resolved, device)
        alive.add(model)
        return model

    monkeypatch.setattr(run, "load_for_search", recorded)
    compared = compare(small, task, tmp_path)
    assert sorted(name.partition("+")[2] for name in names) == ["gp@128", "none@16", "rp@128"]
    summary = compared.to_dataframe()
    assert {name.removeprefix(base) for name in summary.index} == {"+none@16", "+gp@128", "+rp@128"}
    assert compared.setting.n_queries == 12 and len(compared.scores) == 3 * 12
    for row in summary.itertuples():
        assert row.tokens_per_second > 0 and row.vectors == 1 and row.bytes == 32 * 4
    assert len(repr(compared)) < 2_000 and compared.advice.use in repr(compared)
    again = compare(small, task, tmp_path)
    assert len(names) == len(small), "what has finished was loaded again"
    same = ["score", "score_low", "score_high", "tokens_per_second", "flops", "bytes"]
    assert again.summary[same].equals(compared.summary[same])


def test_candidates_of_one_pass_encode_each_document_and_each_query_once(
    base, task, tmp_path, monkeypatch, capsys
) -> None:
    found = [c for c in candidates_of(base, ["pcw"], 128)[0] if "pcw" in str(c.method)]
    n_encoded = []
    forward = Engine._forward

    def noting(self, ids):
        n_encoded.extend(map(len, ids))
        return forward(self, ids)

    monkeypatch.setattr(Engine, "_forward", noting)
    vectors = [one for one in found if one.kind != "fusion"]
    result = compare(vectors, task, tmp_path / "out", show=True)
    assert len(result.summary) == 11 and not result.texts("left out")
    assert re.search(r" (\d\.\d+k)/\1 ", capsys.readouterr().err.splitlines()[-1])
    # for each size of windows 12 documents of 40 tokens and 12 queries of 8; and the sentences for a temperature
    assert n_encoded.count(40) == 36 and n_encoded.count(8) == 24 and len(n_encoded) == 60
    # hybrids, one of which is the best, have temperatures too
    n_encoded.clear()
    both = compare(found, task, tmp_path / "both", bm25=True)
    assert len(both.summary) == 21 and n_encoded.count(40) == 48
    # a quick comparison adds BM25 by passage alone
    assert len(compare(found, task, tmp_path / "both", bm25=True, quick=True).summary) == 15


def test_the_bar_counts_the_tokens_of_all_passes_and_is_full_at_the_end(base, tmp_path, monkeypatch) -> None:
    seen: list[tuple[float, float, str]] = []

    class Recorded(Display):
        def begin(self, label: str) -> None:
            super().begin(label)
            self.label = label

        def update(self, n: float) -> None:
            super().update(n)
            seen.append((self.n, self.total, self.label))

    monkeypatch.setattr(comparing, "Display", Recorded)
    texts = [f"{tiny.text(30, seed).capitalize()}. {tiny.text(30, seed + 99)}." for seed in range(6)]
    task = beir_task(beir(tmp_path / "data", texts, [text[:40] for text in texts]))
    found = compare([base], task, tmp_path / "out", bm25=True, show=True, strategies=["pcw", "gp"], target=32)
    assert not found.texts("left out")
    assert seen[-1][0] == seen[-1][1]
    assert sorted(n for n, _, _ in seen) == [n for n, _, _ in seen]
    # the base is read first
    assert next(desc for n, _, desc in seen if n) == "base"


def test_an_interrupt_answers_from_what_has_finished_and_the_same_call_goes_on(
    base, task, small, tmp_path, monkeypatch
) -> None:
    load = run.load_for_search
    names = ["before", "anything"]

    def interrupted(resolved: Any, device: Any) -> Any:
        names.append(str(resolved.method))
        if len(names) == 3:
            raise KeyboardInterrupt
        return load(resolved, device)

    monkeypatch.setattr(run, "load_for_search", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compare(small, task, tmp_path)
    names.clear()
    found = compare(small, task, tmp_path)
    assert len(found.summary) == 2 and not found.is_complete and found.advice.use
    assert found.texts("left out") == [f"1 candidate has not run: {INTERRUPTED}"]
    again = compare(small, task, tmp_path)
    assert len(again.summary) == 3 and again.is_complete
    assert names[3:] == names[2:3]


def test_an_interrupt_after_the_last_candidate_answers(base, task, small, tmp_path, monkeypatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(comparing, "shown_passages", interrupted)
    found = compare(small, task, tmp_path)
    assert len(found.summary) == 3 and found.is_complete and found.advice.use and found.passages.empty


def test_without_a_candidate_and_with_options_that_are_none_there_is_one_sentence(base, task, tmp_path):
    mteb_longembed.load(f"{base}+pi@64").save_pretrained(str(tmp_path / "saved"))
    with pytest.raises(InputError, match="saved is extended already, so nothing is left to compare"):
        compare([str(tmp_path / "saved")], task, tmp_path)
    with pytest.raises(InputError, match=r"^compare needs at least one candidate"):
        compare([], task, tmp_path / "r")
    for options in ({"strategies": ["ntk"]}, {"target": "2k"}):
        with pytest.raises(InputError, match="need a base, got none: name one, or leave them out"):
            compare(["mini-ape+gp@1024"], task, tmp_path, **options)
    for keyword, near in (("folder", "output_folder"), ("output", "output_folder"), ("querys", "queries")):
        with pytest.raises(
            UnknownNameError, match=f"^unknown keyword of compare '{keyword}': did you mean '{near}'"
        ):
            mteb_longembed.compare(["bm25"], tasks=[task], **{keyword: tmp_path})
    with pytest.raises(InputError, match=r"got data= and language="):
        mteb_longembed.compare(
            ["bm25"], mteb_longembed.Data(tasks=[task]), language="deu", output_folder=tmp_path
        )


def test_queries_about_one_document_are_one_group(tmp_path) -> None:
    judged = {f"q{i}": {f"d{i // 3}": 1} for i in range(12)}
    task = files_task({f"d{i}": tiny.text(20, i) for i in range(4)}, {key: key for key in judged}, judged)
    found = compare([], task, tmp_path, runs={"mine": judged})
    assert found.setting.queries == "12 queries in 4 clusters"


def test_searches_and_several_vectors_are_compared_like_models(base, task, tmp_path) -> None:
    tails = ("none@16", "pcw@128:size=10,whiten=0.5", "pcw@128:size=10,vectors=window")
    found = [named(f"{base}+{tail}") for tail in tails]
    known = set(mteb.models.model_implementations.MODEL_REGISTRY)
    result = compare(found, task, tmp_path, bm25=True)
    assert not result.texts("left out")
    assert set(mteb.models.model_implementations.MODEL_REGISTRY) == known
    rows = result.summary.set_index("label")
    assert len(rows) == 5 and rows["kind"].tolist().count("fusion") == 1
    assert rows.loc["+windows@128:size=10", "vectors"] > 3
    assert rows.isna().loc["bm25:window=200", "tokens_per_second"]


def test_the_fusion_is_of_the_best_whatever_its_name(task) -> None:
    def done(candidate: Candidate, score: float) -> Result:
        return Result(candidate, frame({candidate: {("T", "s"): {"q": score}}}), Cost())

    splits = splits_of(task)
    first, second = (named(f"mini-ape+{tail}") for tail in ("pi@1024", "gp@1024"))
    for order in ((first, second), (second, first)):
        found = derived_candidates([done(c, 1.0) for c in (*order, LEXICAL)], splits, pytest.fail)
        assert found[0].name == f"{order[0].name}:fusion=bm25"


def test_where_queries_have_sentences_each_is_also_searched_on_its_own(base, tmp_path) -> None:
    texts = [tiny.text(60, seed) for seed in range(6)]
    parts = [text.split() for text in texts]
    queries = [f"{' '.join(p[:5]).capitalize()}. {' '.join(p[-5:]).capitalize()}." for p in parts]
    root = beir(tmp_path / "data", texts, queries)
    result = compare([base], beir_task(root), tmp_path / "out", bm25=True, strategies="pcw", target=32)
    near = f"{base}+lexical"
    by_sentence = f"{base}+lexical:query=sentences"
    assert {near, by_sentence, "bm25:window=200,query=sentences"} < set(result.summary.index)
    assert not result.texts("left out")
    assert sum("query=sentences" in name for name in result.summary.index) >= 4


class FirstWords:
    """The best documents of a first scorer, ordered by how many words of the query they begin with."""

    name = "me/first-words"
    revision = "1"

    def __init__(self, first: Any) -> None:
        self.first = first
        self.passages = first.passages

    def fit(self, documents: Any) -> None:
        self.first.fit(documents)
        self.texts = documents.texts

    def scores(self, queries: Any) -> np.ndarray:
        scores = self.first.scores(queries)
        for query, row in zip(queries, scores, strict=True):
            for number in np.argsort(-row)[:5]:
                row[number] = 100 + len(set(query.split()) & set(self.texts[number].split()[:6]))
        return scores


class Limited(FirstWords):
    name = "me/limited"

    def scores(self, queries: Any) -> np.ndarray:
        raise RuntimeError("429: slow down")


def test_a_reranker_is_one_class_and_the_error_of_one_candidate_leaves_the_others_running(
    base, task, tmp_path
):
    own = [kind(make_scorer("bm25")) for kind in (FirstWords, Limited)]
    result = compare([named(f"{base}+none"), *own], task, tmp_path)
    assert result.summary.loc["me/first-words", "kind"] == "own"
    assert result.summary.loc["me/first-words", "score"] > 50
    assert result.texts("left out") == ["me/limited is left out: RuntimeError: 429: slow down"]
    again = compare([named(f"{base}+none"), FirstWords(make_scorer("bm25"))], task, tmp_path)
    assert again.scores.equals(result.scores)


def test_a_printed_command_has_no_way_up_in_its_path(tmp_path, monkeypatch) -> None:
    data = beir(
        tmp_path / "data",
        [tiny.text(20, seed) for seed in range(6)],
        [tiny.text(5, seed) for seed in range(6)],
    )
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    files = {
        "corpus": "../data/corpus.jsonl",
        "queries": "../data/queries.jsonl",
        "qrels": "../data/qrels/test.tsv",
    }
    result = mteb_longembed.compare("bm25", **files, output_folder=tmp_path / "out", show=False)
    folder = mteb_longembed.compare("bm25", "../here/../data", output_folder=tmp_path / "out", show=False)
    for one in (result, folder):
        assert str(data / "corpus.jsonl") in one.advice.typed and ".." not in one.advice.typed


def test_a_scorer_of_version_0_9_is_told_what_it_lacks(task, tmp_path) -> None:
    old: Any = FirstWords(make_scorer("bm25"))
    old = type("Old", (), {"fit": old.fit, "scores": old.scores, "passages": old.passages, "meta": None})()
    for models in (old, [old]):
        with pytest.raises(InputError, match=r"^a scorer needs a name and a revision.* got a Old without"):
            compare(models, task, tmp_path)
