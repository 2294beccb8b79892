"""Searches that are fitted on their corpus: scores equal slow definitions, and the map outlives what is added."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import Dataset

import mteb_longembed as longembed
from mteb_longembed.encoders.model import with_head
from mteb_longembed.encoders.store import EmbeddingStore
from mteb_longembed.errors import InputError
from tests import tiny
from tests.encoders.test_adapt import slow_whitening
from tests.retrieval.test_searching import QUERIES, WHERE, check, corpus, run

SEVERAL_SENTENCES = Dataset.from_dict(
    {"id": ["q0", "q1"], "text": ["Aa bb cc. Dd aa? Never seen!", tiny.text(7, 3).capitalize()]}
)


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def slow_scores(
    folder: Path, tail: str, documents: Dataset, queries: Dataset, power: float, rule: str = "max"
):
    """Every score by the definition. With one vector of `pcw` the map is fitted on its windows."""
    model: Any = longembed.load(f"{folder}{tail}", device="cpu")
    plain: Any = with_head(model, model.head.unscaled())
    vectors = [np.atleast_2d(np.asarray(rows)) for rows in plain.encode_document(documents["text"])]
    fitted_on = vectors
    if "pcw" in tail and "vectors" not in tail:
        fitted_on = [
            np.asarray(rows)
            for rows in with_head(
                plain, replace(plain.head, vectors="window", normalize=False)
            ).encode_document(documents["text"])
        ]
    mean, matrix = slow_whitening(np.concatenate(fitted_on), power)
    asked = [np.atleast_2d(np.asarray(rows))[0] for rows in plain.encode_query(queries["text"])]
    scores: dict[str, dict[str, float]] = {}
    for name, query in zip(queries["id"], asked, strict=True):
        q = unit((query - mean) @ matrix)
        of_documents = {}
        for key, rows in zip(documents["id"], vectors, strict=True):
            cosines = unit((rows - mean) @ matrix) @ q
            of_documents[key] = float(cosines.max())
            if rule == "softmax":
                of_documents[key] = float(0.05 * np.log(np.exp(cosines / 0.05).mean()))
        scores[name] = of_documents
    return scores


@pytest.mark.parametrize(
    ("tail", "settings", "with_store"),
    [
        ("+none:", "whiten=0.5", False),
        ("+pi@128:", "whiten=0.5", True),
        ("+pcw@128:size=9", ",whiten=0.5", False),
        ("+pcw@128:size=9", ",whiten=0.5", True),
        ("+pcw@128:vectors=window", ",whiten=0.5", False),
        ("+pi@128:vectors=4", ",whiten=0.5", True),
        ("+pcw@128:size=9,vectors=window", ",score=softmax,temperature=0.05,whiten=0.5", False),
    ],
)
def test_whitened_scores_are_those_of_the_definition(
    folder, tail, settings, with_store, tmp_path, monkeypatch
) -> None:
    if with_store:
        monkeypatch.setenv("MTEB_LONGEMBED_STORE", str(tmp_path))
    model: Any = longembed.search(f"{folder}{tail}{settings}", device="cpu").protocol
    rule = "softmax" if "softmax" in settings else "max"
    for seed in (0, 50):  # the second corpus has a map of its own
        documents = corpus(seed)
        got = run(model, documents)
        check(got, slow_scores(folder, tail.rstrip(":"), documents, QUERIES, 0.5, rule), 2e-4)


def test_whitening_encodes_nothing_more_than_plain_vectors(folder, tmp_path, encoded) -> None:
    model: Any = longembed.search(f"{folder}+pcw@128:whiten=0.5", device="cpu").protocol
    embedder = model.scorer.encoded.model
    embedder.store = EmbeddingStore(tmp_path)
    model.index(corpus(0), **WHERE)
    n_tokens = sum(len(embedder.tokenizer(f"passage : {text}")["input_ids"]) for text in corpus(0)["text"])
    assert embedder.store.counts.tokens_encoded <= n_tokens


@pytest.mark.parametrize("tail", ["weights=idf,whiten=0.5", "weights=sif"])
def test_weights_and_map_stay_when_documents_are_added_and_a_new_search_fits_anew(folder, tail) -> None:
    name = f"{folder}+pi@128:{tail}"
    first, more = corpus(0), corpus(50)
    searcher = longembed.search(name, device="cpu")
    searcher.add(first["id"], first["text"])
    before = {hit.id: hit.score for hit in searcher.search("aa bb", k=40)}
    searcher.add(more["id"], more["text"])
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
    assert "whitening needs two different vectors of documents, got 1: it changes nothing" in caplog.text


# ---- queries by sentence -----------------------------------------------------------------------------------


@pytest.mark.parametrize("score", ["max", "softmax"])
def test_the_score_is_the_mean_over_the_sentences(folder, score) -> None:
    tail = f"+pcw@128:size=9,score={score},vectors=window"
    whole: Any = longembed.search(f"{folder}{tail}", device="cpu").protocol
    parts: Any = longembed.search(f"{folder}{tail},query=sentences", device="cpu").protocol
    for model in (whole, parts):
        model.index(corpus(0), **WHERE)
    want = dict.fromkeys(corpus(0)["id"], 0.0)
    for sentence in ("Aa bb cc.", "Dd aa?", "Never seen!"):
        asked = Dataset.from_dict({"id": ["s"], "text": [sentence]})
        for key, value in whole.search(asked, top_k=12, **WHERE)["s"].items():
            want[key] += value / 3
    got = parts.search(SEVERAL_SENTENCES, top_k=12, **WHERE)
    assert got["q0"] == pytest.approx(want, abs=1e-5)
    # a query of one sentence is unchanged
    assert got["q1"] == pytest.approx(whole.search(SEVERAL_SENTENCES, top_k=12, **WHERE)["q1"], abs=1e-6)


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        ("+pi@128:query=sentences", "^query=sentences asks for places in a document, so it needs vectors="),
        ("+pi@128:vectors=4,query=words", "^query must be sentences, got 'words'"),
    ],
)
def test_queries_by_sentence_need_several_vectors_and_all_scores(folder, tail, message) -> None:
    with pytest.raises(InputError, match=message):
        longembed.search(f"{folder}{tail}")


@pytest.mark.parametrize(
    ("tail", "rule"), [("+pcw@64", "idf"), ("+pcw@64:vectors=window", "idf"), ("+gp@64:vectors=4", None)]
)
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
