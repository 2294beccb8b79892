"""Names with search parameters, in mteb: scores equal slow definitions, also of settings fitted on the corpus."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import mteb
import numpy as np
import pytest
from datasets import Dataset
from mteb.models.models_protocols import SearchProtocol

import mteb_longembed as longembed
from mteb_longembed.data.stored_texts import stored_texts
from mteb_longembed.encoders.adapt import with_pooling
from mteb_longembed.encoders.embedding_cache import EmbeddingCache
from mteb_longembed.encoders.pooling import Pooling
from mteb_longembed.encoders.strategies import ALGORITHM
from mteb_longembed.errors import IncompatibleError
from mteb_longembed.evaluation import split
from mteb_longembed.plugin.search import MTEBSearch
from mteb_longembed.retrieval import vectors as corpus_vectors
from mteb_longembed.tasks.generated.passkey import LongEmbedPasskey
from tests import tiny
from tests.encoders.test_adapt import slow_whitening
from tests.metas import full_name

WHERE: dict[str, Any] = {
    "task_metadata": LongEmbedPasskey.metadata, "hf_split": "test_256", "hf_subset": "default",
    "encode_kwargs": {"batch_size": 8}, "num_proc": None,
}  # fmt: skip


def corpus(seed: int, n: int = 12) -> Dataset:
    texts = [f"{tiny.text(5 + 9 * i, seed + i)}. {tiny.text(9, seed)}." for i in range(n)]
    return Dataset.from_dict({"id": [f"d{seed}_{i}" for i in range(n)], "title": [""] * n, "text": texts})


QUERIES = Dataset.from_dict({"id": ["q0", "q1", "q2"], "text": [tiny.text(n, 7) for n in (5, 8, 12)]})


def run(model: Any, documents: Dataset, top_k: int = 5, **options: Any) -> dict[str, dict[str, float]]:
    model.index(documents, **WHERE)
    return model.search(QUERIES, top_k=top_k, **WHERE, **options)


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def slow_scores(
    folder: Path, tail: str, documents: Dataset, power: float | None = None, rule: str = "max"
) -> dict[str, dict[str, float]]:
    """Every score by the definition, in loops. With one vector of `pcw` the map is fitted on its windows."""
    model: Any = longembed.load(f"{folder}{tail}", device="cpu")
    plain: Any = with_pooling(model, Pooling.of(model).unscaled())
    vectors = [np.atleast_2d(np.asarray(rows)) for rows in plain.encode_document(documents["text"])]
    fitted_on = vectors
    if "pcw" in tail and "vectors" not in tail:
        of_windows = with_pooling(plain, replace(Pooling.of(plain), vectors="window", normalize=False))
        fitted_on = list(map(np.asarray, of_windows.encode_document(documents["text"])))
    mean, matrix = np.zeros(32), np.eye(32)
    if power is not None:
        mean, matrix = slow_whitening(np.concatenate(fitted_on), power)
    query_vectors = [np.atleast_2d(np.asarray(rows))[0] for rows in plain.encode_query(QUERIES["text"])]
    scores: dict[str, dict[str, float]] = {}
    for name, query in zip(QUERIES["id"], query_vectors, strict=True):
        q = unit((query - mean) @ matrix)
        of_documents = {}
        for key, rows in zip(documents["id"], vectors, strict=True):
            cosines = unit((rows - mean) @ matrix) @ q
            of_documents[key] = float(cosines.max())
            if rule == "softmax":
                of_documents[key] = float(0.05 * np.log(np.exp(cosines / 0.05).mean()))
        scores[name] = of_documents
    return scores


def check(got: dict[str, dict], want: dict[str, dict], error: float, top_k: int = 5) -> None:
    """The right scores, and no better document left out."""
    assert got.keys() == want.keys()
    for query, scores in want.items():
        assert len(got[query]) == min(top_k, len(scores))
        for document, score in got[query].items():
            assert abs(score - scores[document]) < error
        bound = sorted(scores.values(), reverse=True)[len(got[query]) - 1]
        assert min(scores[document] for document in got[query]) > bound - error


@pytest.mark.parametrize(
    ("tail", "kind", "similarity", "version"),
    [
        ("+pi@128,whiten=0.5", "dense", "cosine", "-se11"),
        ("+pi@128,vectors=4", "late-interaction", "MaxSim", ""),
        ("+pi@128,fusion=bm25,lexical_weight=0.4,vectors=4", "hybrid", "MaxSim", "-se11-bm25_0_3_0p4"),
    ],
)
def test_mteb_knows_name_kind_and_version(folder, tail, kind, similarity, version):
    meta = mteb.get_model_meta(f"{folder}{tail}")
    assert full_name(meta) == f"local/model{tail}"
    assert (meta.model_type, meta.similarity_fn_name.value) == ([kind], similarity)
    assert meta.experiment_kwargs["algorithm"] == f"{ALGORITHM}{version}"
    model = MTEBSearch(longembed.search(f"{folder}{tail}", device="cpu").scorer)
    assert isinstance(model, SearchProtocol) and not hasattr(model, "encode")
    assert (model.mteb_model_meta.name, model.mteb_model_meta.revision) == (meta.name, meta.revision)
    assert model.mteb_model_meta.experiment_kwargs == meta.experiment_kwargs


@pytest.mark.parametrize("tail", [":fusion=bm25", ":vectors=4"])
def test_candidates_are_scored_among_themselves(folder, tail):
    model = MTEBSearch(longembed.search(f"{folder}+pi@128{tail}", device="cpu").scorer)
    documents = corpus(0)
    ranked = {"q0": documents["id"][:3], "q1": documents["id"][4:9], "q2": documents["id"]}
    everything = run(model, documents, top_k=100)
    got = run(model, documents, top_k=4, top_ranked=ranked)
    for query, candidates in ranked.items():
        assert set(got[query]) <= set(candidates) and len(got[query]) == min(4, len(candidates))
        if "fusion" not in tail:
            for document, score in got[query].items():
                assert abs(score - everything[query][document]) < 2e-3


def test_a_task_without_search_refuses_it_by_its_name(folder):
    model = MTEBSearch(longembed.search(f"{folder}+pi@128:whiten=0.5", device="cpu").scorer)
    task = mteb.get_task("STSBenchmark")
    message = r"local/model\+pi@128,whiten=0\.5 .*STSBenchmark does not support Search"
    with pytest.raises(TypeError, match=message):
        task.evaluate(model, split="test", encode_kwargs={})


def test_a_base_that_compares_by_distance_has_no_map(tmp_path):
    file = tiny.saved("bert", tmp_path) / "config_sentence_transformers.json"
    file.write_text(file.read_text().replace('"cosine"', '"euclidean"'))
    with pytest.raises(IncompatibleError, match="compared by cosine or dot product, got euclidean"):
        longembed.search(f"{tmp_path / 'model'}+pi@128:whiten=0.5", device="cpu")


SEVERAL_SENTENCES = Dataset.from_dict(
    {"id": ["q0", "q1"], "text": ["Aa bb cc. Dd aa? Never seen!", tiny.text(7, 3).capitalize()]}
)


@pytest.mark.parametrize(
    ("tail", "settings", "with_store"),
    [
        ("+pi@128:vectors=4", "", False),
        ("+pcw@128:size=9,vectors=window", "", True),
        ("+none:", "whiten=0.5", False),
        ("+pcw@128:size=9", ",whiten=0.5", True),
        ("+pcw@128:vectors=window", ",whiten=0.5", False),
        ("+pi@128:vectors=4", ",whiten=0.5", True),
        ("+pcw@128:size=9,vectors=window", ",score=softmax,temperature=0.05,whiten=0.5", False),
    ],
)
def test_scores_are_those_of_the_definition_for_every_corpus(
    folder, tail, settings, with_store, tmp_path, monkeypatch
) -> None:
    if with_store:
        monkeypatch.setenv("MTEB_LONGEMBED_CACHE", str(tmp_path))
    # many blocks, so that the best documents come from several
    monkeypatch.setattr(corpus_vectors, "BLOCK_BYTES", 4 * 32 * 30)
    model: Any = MTEBSearch(longembed.search(f"{folder}{tail}{settings}", device="cpu").scorer)
    rule = "softmax" if "softmax" in settings else "max"
    power = 0.5 if "whiten" in settings else None
    for seed in (0, 50):  # the second corpus has a map of its own
        documents = corpus(seed)
        got = run(model, documents)
        check(got, slow_scores(folder, tail.rstrip(":"), documents, power, rule), 2e-4)


def test_whitening_encodes_nothing_more_than_plain_vectors(folder, tmp_path, encoded) -> None:
    model: Any = MTEBSearch(longembed.search(f"{folder}+pcw@128:whiten=0.5", device="cpu").scorer)
    embedder = model.scorer.shown.encoding.encoder.model
    embedder.embedding_cache = EmbeddingCache(tmp_path)
    model.index(corpus(0), **WHERE)
    n_tokens = sum(len(embedder.tokenizer(f"passage : {text}")["input_ids"]) for text in corpus(0)["text"])
    assert embedder.embedding_cache.counts.tokens_encoded <= n_tokens


@pytest.mark.parametrize("tail", ["weights=idf,whiten=0.5", "weights=sif"])
def test_weights_and_map_stay_when_documents_are_added_and_a_new_search_fits_anew(folder, tail, capfd):
    name = f"{folder}+pi@128:{tail}"
    first, more = corpus(0), corpus(50)
    searcher = longembed.search(name, device="cpu")
    capfd.readouterr()
    searcher.add(first["id"], first["text"])
    before = {hit.id: hit.score for hit in searcher.search("aa bb", k=40)}
    searcher.add(more["id"], more["text"])
    assert capfd.readouterr().err == ""  # no bars
    after = {hit.id: hit.score for hit in searcher.search("aa bb", k=40)}
    assert {key: after[key] for key in before} == pytest.approx(before, abs=1e-6)
    whole = longembed.search(name, device="cpu")
    whole.add([*first["id"], *more["id"]], [*first["text"], *more["text"]])
    want = {hit.id: hit.score for hit in whole.search("aa bb", k=40)}
    assert want != pytest.approx(after, abs=1e-4)


def test_one_document_is_searched_without_a_map(folder, caplog) -> None:
    searcher = longembed.search(f"{folder}+pi@128:whiten=0.5", device="cpu")
    searcher.add(["a"], ["one text"])
    with caplog.at_level("WARNING"):
        assert [hit.id for hit in searcher.search("one")] == ["a"]
    assert "whitening needs two different vectors, got 1: it changes nothing" in caplog.text


def test_texts_without_titles_are_read_where_they_are(monkeypatch) -> None:
    written: list[object] = []
    monkeypatch.setattr(split, "stored_texts", lambda rows: written.append(rows) or stored_texts(rows))
    titled = corpus(0)
    metadata = WHERE["task_metadata"]
    bare = split.documents_of(titled.remove_columns("title"), metadata, "default")
    assert not written and list(bare.texts) == titled["text"][:]
    assert list(split.documents_of(titled, metadata, "default").texts) == list(bare.texts) and written


# ---- queries by sentence -----------------------------------------------------------------------------------


def test_the_score_is_the_mean_over_the_sentences(folder) -> None:
    tail = "+pcw@128:size=9,score=softmax,vectors=window"
    whole: Any = MTEBSearch(longembed.search(f"{folder}{tail}", device="cpu").scorer)
    parts: Any = MTEBSearch(longembed.search(f"{folder}{tail},query=sentences", device="cpu").scorer)
    for model in (whole, parts):
        model.index(corpus(0), **WHERE)
    want = dict.fromkeys(corpus(0)["id"], 0.0)
    for sentence in ("Aa bb cc.", "Dd aa?", "Never seen!"):
        queries = Dataset.from_dict({"id": ["s"], "text": [sentence]})
        for key, value in whole.search(queries, top_k=12, **WHERE)["s"].items():
            want[key] += value / 3
    got = parts.search(SEVERAL_SENTENCES, top_k=12, **WHERE)
    assert got["q0"] == pytest.approx(want, abs=1e-5)
    # a query of one sentence is unchanged
    assert got["q1"] == pytest.approx(whole.search(SEVERAL_SENTENCES, top_k=12, **WHERE)["q1"], abs=1e-6)


@pytest.mark.parametrize(("tail", "rule"), [("+pcw@64", "idf"), ("+gp@64:vectors=4", None)])
def test_what_adapt_makes_and_saves_searches_as_the_name_does(folder, tail, rule, tmp_path) -> None:
    texts = [tiny.text(10 + 7 * i, i) for i in range(12)]
    ids = [f"d{i}" for i in range(12)]
    queries = [" ".join(text.split()[2:9]) for text in texts]
    settings = "whiten=0.5" if rule is None else f"weights={rule},whiten=0.5"
    adapted: Any = longembed.adapt(f"{folder}{tail}", texts, weights=rule, show_progress_bar=False)
    adapted.save_pretrained(str(tmp_path / "saved"))
    scores = []
    for name in (f"{folder}{tail}{',' if ':' in tail else ':'}{settings}", str(tmp_path / "saved")):
        searcher = longembed.search(name, passages=False)
        searcher.add(ids, texts)
        scores.append(searcher.scorer.scores(queries))
    assert scores[1] == pytest.approx(scores[0], abs=1e-4)


@pytest.mark.parametrize(("size", "dtype"), [(3, "fp32"), (4, "fp32"), (4, "bf16")])
def test_each_token_of_a_query_finds_its_best_chunk(folder, size, dtype) -> None:
    """A chunk is the mean of token embeddings of length 1, without special tokens; of a text without others, of all."""
    name = f"{folder}+pi@128:dtype={dtype}"
    model = longembed.load(name, device="cpu")

    def tokens(kind: str, texts: list[str]) -> list[np.ndarray]:
        found = []
        for text in texts:  # one by one, so without padding
            row = np.asarray(model.encode([text], prompt_name=kind, output_value="token_embeddings")[0])
            own = row[3:-1]  # behind [CLS] and the prompt's two tokens
            found.append(unit(own if len(own) else row))
        return found

    documents = [*corpus(0)["text"], "", tiny.WORDS[5]]
    queries = [*QUERIES["text"], tiny.WORDS[7]]
    want = []
    for query in tokens("query", queries):
        of_documents = []
        for text, rows in zip(documents, tokens("document", documents), strict=True):
            step = size if text else len(rows)
            starts = range(0, len(rows), step)
            chunks = unit(np.stack([rows[start : start + step].mean(axis=0) for start in starts]))
            of_documents.append(np.mean([max(chunks @ token) for token in query]))
        want.append(of_documents)
    late = MTEBSearch(
        longembed.search(f"{name},query=tokens,vectors={size}", device="cpu", precision="fp32").scorer
    )
    rows = {"id": list(map(str, range(len(documents)))), "title": [""] * len(documents), "text": documents}
    late.index(Dataset.from_dict(rows), **WHERE)
    tolerance = 1e-5 if dtype == "fp32" else 1e-2
    assert late.scorer.scores(queries) == pytest.approx(np.array(want), abs=tolerance)


def test_a_model_that_compares_by_a_distance_is_searched_as_mteb_does(tmp_path: Path) -> None:
    folder = tiny.saved("bert", tmp_path)
    settings = json.loads((folder / "config_sentence_transformers.json").read_text())
    settings["similarity_fn_name"] = "euclidean"
    (folder / "config_sentence_transformers.json").write_text(json.dumps(settings))
    texts = {f"d{seed}": tiny.text(12, seed) for seed in range(6)}
    searcher = longembed.search(f"{folder}+pi@64", device="cpu")
    searcher.add(texts, texts.values())
    model: Any = longembed.load(f"{folder}+pi@64", device="cpu")
    query = tiny.text(5, 3)
    want = model.similarity(model.encode_query([query]), model.encode_document(list(texts.values())))[0]
    found = {hit.id: hit.score for hit in searcher.search(query)}
    assert list(found) == [f"d{index}" for index in want.argsort(descending=True).tolist()]
    assert [found[key] for key in texts] == pytest.approx(want.tolist(), abs=1e-4)
    with pytest.raises(IncompatibleError, match=r"compared by cosine or dot product, got euclidean"):
        longembed.search(f"{folder}+pi@64:whiten=0.5", device="cpu")
