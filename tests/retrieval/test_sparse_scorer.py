"""Searches with late-interaction and sparse models: exact scores, saved indexes, fusion with BM25, mteb's results."""

import json
from pathlib import Path
from typing import Any

import mteb
import numpy as np
import pytest
import torch
from mteb.models import MultiVectorWrapper, SparseEncoderWrapper
from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

import mteb_longembed as longembed
from mteb_longembed.comparing.candidates import candidates_of
from mteb_longembed.data.task import beir_task
from mteb_longembed.encoders.method import Method
from mteb_longembed.encoders.resolved import resolve
from mteb_longembed.encoders.whitening import sampled_rows
from mteb_longembed.errors import IncompatibleError, NumberError
from mteb_longembed.names import Identity
from mteb_longembed.retrieval import sparse_vectors
from mteb_longembed.retrieval.encoder import Encoder, load_encoder
from mteb_longembed.retrieval.encoding import Encoding
from mteb_longembed.retrieval.index import Index
from mteb_longembed.retrieval.recommended import recommended
from mteb_longembed.retrieval.scorer import Documents
from mteb_longembed.retrieval.sparse_scorer import SparseScorer
from mteb_longembed.retrieval.sparse_vectors import SparseVectors
from mteb_longembed.retrieval.vector_scorer import VectorScorer
from tests import tiny
from tests.comparing.conftest import compare
from tests.encoders.strategies.test_pcw import slow_windows
from tests.limits import same_vectors
from tests.metas import full_name
from tests.own_data import beir
from tests.retrieval.indexes import DOCUMENTS, MORE, QUERIES, searcher

#: Kind -> the names of searches, behind their base.
TAILS = {
    "sparse": ["+pcw@128", "+pcw@128:vectors=window", "+ntk@128:fusion=bm25", "+pcw@128:fusion=bm25,vectors=window"],
    "late": ["+pcw@128", "+pcw@128:vectors=window", "+pi@128:fusion=bm25", "+pcw@128:fusion=bm25,vectors=window"],
}  # fmt: skip
CELLS = [(kind, tail) for kind, tails in TAILS.items() for tail in tails]


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folder of a tiny model of each kind."""
    root = tmp_path_factory.mktemp("bases")
    tiny.sparse("bert", root / "a")
    tiny.late("bert", root / "b", query_expansion={"strategy": "fixed", "attend": False, "length": 12})
    return {"sparse": root / "a" / "sparse", "late": root / "b" / "late"}


# ---- scores ---------------------------------------------------------------------------------------------------


def of_window(model: Any, ids: list[int], query: torch.Tensor) -> float:
    """Score one window, run through the stock modules."""
    row = torch.tensor([ids])
    with torch.inference_mode():
        features = model(
            {"input_ids": row, "attention_mask": torch.ones_like(row), "modality": "text"}, task="document"
        )
    if "sentence_embedding" in features:
        return float(query @ features["sentence_embedding"][0])
    tokens = features["token_embeddings"][0][features["attention_mask"][0].bool()]
    return float(np.mean([max(float(one @ token) for token in tokens) for one in query]))


@pytest.mark.parametrize("kind", ["sparse", "late"])
@pytest.mark.parametrize("overlap", [0, 5])
def test_the_best_window_of_a_document_counts(bases, kind, overlap):
    model = longembed.load(f"{bases[kind]}+none", device="cpu")
    queries = model.encode_query(QUERIES)
    if kind == "sparse":
        queries = queries.to_dense()
    documents = {key: DOCUMENTS[key] for key in ("d0", "d1", "d4", "d9")}  # 1 to 13 windows
    want = np.zeros((len(QUERIES), len(documents)))
    for row, query in enumerate(queries):
        for column, text in enumerate(documents.values()):
            ids = model.tokenizer(tiny.PROMPTS["document"] + text)["input_ids"]
            windows = slow_windows(len(ids), tiny.TRAINED, overlap, 3, 1)
            want[row, column] = max(
                of_window(model, [ids[place] for place in window], query) for window in windows
            )
    made = searcher(f"{bases[kind]}+pcw@128:overlap={overlap},vectors=window", documents)
    got = made.scorer.scores(QUERIES)
    same_vectors(got, want)


@pytest.mark.parametrize("tail", ["+pcw@128", "+ntk@128"])
def test_one_sparse_vector_scores_as_the_model_does(bases, tail):
    model = longembed.load(f"{bases['sparse']}{tail}", device="cpu")
    want = model.similarity(model.encode_query(QUERIES), model.encode_document(list(DOCUMENTS.values())))
    got = searcher(f"{bases['sparse']}{tail}").scorer.scores(QUERIES)
    same_vectors(got, want.to_dense() if want.is_sparse else want)


@pytest.mark.parametrize(("kind", "scorer_class"), [("sparse", SparseScorer), ("late", VectorScorer)])
def test_one_pass_gives_vectors_of_documents_and_of_windows(bases, kind, scorer_class):
    name = f"{bases[kind]}+pcw@128"
    shared = Encoding(load_encoder(resolve(Method.parse(name)), "cpu"))
    scorers = [
        Index(Identity("m", "1"), [scorer_class(shared, size, Method("m"))]) for size in (None, "window")
    ]
    documents = Documents(list(DOCUMENTS), list(DOCUMENTS.values()))
    for scorer, tail in zip(scorers, ("", ":vectors=window"), strict=True):
        scorer.fit(documents)
        same_vectors(scorer.scores(QUERIES), searcher(name + tail).scorer.scores(QUERIES))


def test_late_interaction_scores_as_the_model_does_for_each_token_of_a_query(bases):
    name = f"{bases['late']}+pcw@128"
    model = longembed.load(name, device="cpu")
    queries = model.encode_query(QUERIES)
    want = model.similarity(queries, model.encode_document(list(DOCUMENTS.values())))
    want = want / torch.tensor([len(query) for query in queries])[:, None]
    same_vectors(searcher(name).scorer.scores(QUERIES), want)


def sparse_documents(*counts: int) -> list[Any]:
    """Random documents with these numbers of vectors, `[vectors, 7]`."""
    numbers = np.random.default_rng(0)
    rows = [np.maximum(numbers.normal(size=(n, 7)), 0).astype(np.float32) for n in counts]
    return list(map(sparse_vectors.sparse.csr_array, rows))


@pytest.mark.parametrize(("n_scores", "blocks"), [(5, [1, 1, 1]), (21, [2, 1]), (99, [3])])
def test_sparse_vectors_are_compared_a_block_of_queries_at_a_time(n_scores, blocks, monkeypatch):
    monkeypatch.setattr(sparse_vectors, "BLOCK_SCORES", n_scores)
    asked = []
    best_vector = sparse_vectors.best_vector

    def noting(scores: np.ndarray, counts: np.ndarray) -> np.ndarray:
        asked.append(len(scores))
        return best_vector(scores, counts)

    monkeypatch.setattr(sparse_vectors, "best_vector", noting)
    documents = sparse_documents(1, 4, 2, 1)
    vectors = SparseVectors()
    vectors.append(documents)
    [queries] = sparse_documents(3)
    want = np.stack([(queries.toarray() @ one.toarray().T).max(axis=1) for one in documents], axis=1)
    same_vectors(vectors.scores(queries), want)
    assert asked == blocks


def test_sparse_vectors_go_and_are_sampled_with_their_documents():
    documents = sparse_documents(3, 4, 2, 1, 2)
    vectors = SparseVectors()

    def check(numbers: list[int]) -> None:
        rows = np.concatenate([documents[number].toarray() for number in numbers])
        assert vectors.counts.tolist() == [documents[number].shape[0] for number in numbers]
        assert vectors.rows.toarray().tolist() == rows.tolist()
        assert vectors.sample(99).toarray().tolist() == rows.tolist()
        assert vectors.sample(3).toarray().tolist() == rows[sampled_rows(len(rows), 3)].tolist()

    vectors.append(documents[:4])
    check([0, 1, 2, 3])
    vectors.keep_first(2)
    check([0, 1])
    vectors.append(documents[3:])
    check([0, 1, 3, 4])
    vectors.keep(np.array([False, True, False, True]))
    check([1, 4])
    vectors.append(documents[:1])
    check([1, 4, 0])
    with pytest.raises(NumberError):
        vectors.append([sparse_vectors.sparse.csr_array(np.array([[np.nan, 1]], np.float32))])
    check([1, 4, 0])


# ---- indexes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "tail"), CELLS)
def test_a_saved_index_gives_the_same_and_goes_on(bases, kind, tail, tmp_path):
    made = searcher(f"{bases[kind]}{tail}")
    want = made.search(QUERIES, 5)
    made.save(tmp_path / "index")
    opened = longembed.open_index(tmp_path / "index", device="cpu")
    assert opened.search(QUERIES, 5) == want
    opened.remove(["d3", "d5"])
    opened.add(list(MORE), list(MORE.values()))
    left = {key: text for key, text in DOCUMENTS.items() if key not in ("d3", "d5")} | MORE
    assert opened.n_vectors == searcher(f"{bases[kind]}{tail}", left).n_vectors
    [[hit]] = opened.search([MORE["e1"][:40]], 1)
    assert hit.id in left and hit.passage in left[hit.id]


# ---- mteb -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "tail"), [*CELLS, ("sparse", "+none"), ("late", "+none")])
def test_mteb_writes_results_that_its_cache_reads(bases, kind, tail, tmp_path):
    task = beir_task(beir(tmp_path / "data", list(DOCUMENTS.values()), QUERIES))
    model: Any = mteb.get_model(f"{bases[kind]}{tail}", device="cpu")
    if ":" not in tail:
        assert isinstance(model, {"sparse": SparseEncoderWrapper, "late": MultiVectorWrapper}[kind])
    cache = mteb.ResultCache(tmp_path / "cache")
    result = mteb.evaluate(model, [task], cache=cache, show_progress_bar=False)
    [file] = [path for path in (tmp_path / "cache").rglob("*.json") if path.name != "model_meta.json"]
    meta = json.loads(file.with_name("model_meta.json").read_text())
    described = mteb.get_model_meta(f"{bases[kind]}{tail}")
    assert meta["experiment_kwargs"] == described.experiment_kwargs
    assert meta["model_type"] == described.model_type
    expected = "hybrid" if "fusion" in tail else {"sparse": "sparse", "late": "late-interaction"}[kind]
    assert meta["model_type"] == [expected]
    [read] = cache.load_results([described], [task], load_experiments="match_kwargs").model_results
    scores = [of.task_results[0].scores["test"][0]["ndcg_at_10"] for of in (read, result)]
    assert scores[0] == scores[1]


@pytest.mark.parametrize("kind", ["sparse", "late"])
def test_a_model_in_memory_has_the_name_that_loads_it(bases, kind):
    name = f"{bases[kind]}+pcw@128"
    model = longembed.load(name, device="cpu")
    described = {"sparse": mteb.models.ModelMeta.from_sparse_encoder_model}
    meta = described.get(kind, mteb.models.ModelMeta.from_multi_vector_encoder_model)(model)
    assert full_name(meta) == full_name(mteb.get_model_meta(name))


def test_compare_tries_them_as_a_dense_base(bases, tmp_path):
    task = beir_task(beir(tmp_path / "data", list(DOCUMENTS.values()), QUERIES))
    names = {
        kind: [
            one.name.removeprefix(str(bases[kind]))
            for one in candidates_of(str(bases[kind]), ["pcw"], 128)[0]
        ]
        for kind in bases
    }
    assert names == {
        kind: [
            "+none@16",
            "+windows@128",
            "+windows@128:fusion=bm25",
            "+pcw@128:fusion=bm25",
            "+pcw@128",
        ]
        for kind in bases
    }
    every = [name for kind in bases for name in candidates_of(str(bases[kind]), ["pcw"], 128)[0]]
    table = compare(every, task, tmp_path / "out", bm25=True).to_dataframe()
    assert len(table) >= len(every) and (table["bytes"][[one.id for one in every]] > 0).all()


@pytest.mark.parametrize("kind", ["sparse", "late"])
def test_a_bare_name_gets_a_search_that_fits(bases, kind):
    assert recommended(str(bases[kind])) == f"{bases[kind]}+windows:fusion=bm25"


@pytest.mark.parametrize("kind", ["sparse", "late"])
@pytest.mark.parametrize("setting", ["whiten=0.5", "weights=idf", "score=softmax,temperature=1"])
def test_settings_of_dense_vectors_are_refused(bases, kind, setting):
    with pytest.raises(IncompatibleError, match="changes searches with dense vectors"):
        longembed.search(f"{bases[kind]}+pcw@128:{setting}", device="cpu")


# ---- passages -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sparse", "late"])
@pytest.mark.parametrize("tail", ["+none", "+pcw@128:vectors=window"])
def test_the_passage_is_the_best_short_window_of_the_text_that_is_read(bases, kind, tail):
    text = " ".join(f"{tiny.text(25, number, words=400)}." for number in range(40))
    made = searcher(f"{bases[kind]}{tail}", {"a": text})
    (hit,) = made.search(QUERIES[0])
    read = longembed.load(f"{bases[kind]}{tail}", device="cpu").max_seq_length
    windows = [hit.passage, text[:300].rsplit(".", 1)[0]]
    scores = made.index.shown.text_scores(QUERIES[0], windows)
    assert len(hit.passage) <= 500 and scores[0] >= scores[1]
    assert len(text[: hit.end].split()) <= read


@pytest.mark.parametrize("kind", ["sparse", "late"])
def test_without_passages_a_hit_has_the_text_that_was_read_and_nothing_is_encoded(bases, kind, monkeypatch):
    text = tiny.text(400, 1)
    made = longembed.search(f"{bases[kind]}+none", device="cpu", passages=False)
    made.add(["a"], [text])
    made.search(QUERIES[0])
    monkeypatch.setattr(Encoder, "encode", lambda *given: pytest.fail("a text is encoded"))
    (hit,) = made.search(QUERIES[0])
    assert hit.start == 0 and text.startswith(hit.passage) and len(hit.passage) < len(text)


@pytest.fixture(scope="module")
def masking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model of late interaction whose documents keep only tokens of a list, without one word."""
    root = tmp_path_factory.mktemp("masking")
    model = tiny.late("bert", root)
    mask = next(module for module in model if isinstance(module, MultiVectorMask))
    kept = set(model.tokenizer.convert_tokens_to_ids(tiny.WORDS[:400])) - {
        model.tokenizer.convert_tokens_to_ids(tiny.WORDS[5])
    }
    mask.keep_only_token_ids = sorted(kept)
    model.save_pretrained(str(root / "masking"), create_model_card=False)
    return root / "masking"


@pytest.mark.parametrize("tail", TAILS["late"])
def test_a_document_that_keeps_no_token_comes_last_as_in_stock(masking: Path, tail: str, tmp_path) -> None:
    others = {"a": tiny.text(9, 1), "b": tiny.text(40, 2), "c": tiny.text(90, 8)}
    for number in range(4):
        rows = list(others.items())
        rows.insert(number, ("empty", f"{tiny.WORDS[5]} {tiny.WORDS[5]}"))
        made = searcher(f"{masking}{tail}", dict(rows))
        (row,) = made.scorer.scores([QUERIES[0]])
        assert np.isfinite(row).all() and abs(row).max() < 1000
        hits = made.search(QUERIES[0], 4)
        assert len(hits) == 4 and hits[-1].id == "empty"
        assert hits[-1].passage == dict(rows)["empty"]
        made.save(tmp_path / str(number))
        assert longembed.open_index(tmp_path / str(number), device="cpu").search(QUERIES[0], 4) == hits
        made.remove(["b"])
        assert [hit.id for hit in made.search(QUERIES[0], 4)] == [hit.id for hit in hits if hit.id != "b"]
    alone = searcher(f"{masking}{tail}", {"empty": tiny.WORDS[5]})
    assert len(alone.search(QUERIES[0], 4)) == 1
