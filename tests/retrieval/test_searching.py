"""Names with search parameters, in mteb: scores equal loops over vectors, and state does not survive an index."""

from pathlib import Path
from typing import Any

import mteb
import numpy as np
import pytest
from datasets import Dataset
from mteb.models.models_protocols import EncoderProtocol, SearchProtocol

import mteb_longembed as longembed
from mteb_longembed.encoders.strategies import ALGORITHM
from mteb_longembed.errors import IncompatibleError
from mteb_longembed.retrieval import heads as passes
from mteb_longembed.retrieval import vectors as corpus_vectors
from mteb_longembed.retrieval.scorer import full_name
from mteb_longembed.tasks.generated.passkey import LongEmbedPasskey
from tests import tiny

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


def expected(folder: Path, tail: str, documents: Dataset) -> dict[str, dict[str, float]]:
    """The score of every document by the definition, in loops, from the model's own `encode`."""
    model = longembed.load(f"{folder}{tail}", device="cpu")
    rows = [np.atleast_2d(np.asarray(v)) for v in model.encode_document(documents["text"])]
    queries = np.stack([np.atleast_2d(np.asarray(v))[0] for v in model.encode_query(QUERIES["text"])])
    scores = {}
    for name, query in zip(QUERIES["id"], queries, strict=True):
        pairs = zip(documents["id"], rows, strict=True)
        scores[name] = {i: max(float(row @ query) for row in vectors) for i, vectors in pairs}
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


@pytest.mark.parametrize("tail", ["+pi@128:vectors=4", "+pcw@128:size=9,vectors=window"])
def test_scores_are_those_of_the_definition_for_every_corpus(folder, tail, monkeypatch):
    # many blocks, so that the best documents come from several
    monkeypatch.setattr(corpus_vectors, "BLOCK_BYTES", 4 * 32 * 30)
    model = longembed.search(f"{folder}{tail}", device="cpu").protocol
    for seed in (0, 50):
        documents = corpus(seed)
        check(run(model, documents), expected(folder, tail, documents), 2e-3)  # half precision on disk


def test_a_search_has_mtebs_search_protocol_and_no_encode(folder):
    for tail in ("+pi@128:fuse=words", "+pi@128", "+pi@128:vectors=4"):
        model = longembed.search(f"{folder}{tail}", device="cpu").protocol
        assert isinstance(model, SearchProtocol) and not isinstance(model, EncoderProtocol)
        assert not hasattr(model, "encode")
    name = f"{folder}+pi@128:fuse=words,vectors=4"
    assert not hasattr(mteb.get_model(name, device="cpu"), "encode")


@pytest.mark.parametrize(
    ("tail", "kind", "similarity", "version"),
    [
        ("+pi@128,whiten=0.5", "dense", "cosine", "-se8"),
        ("+pi@128,vectors=4", "late-interaction", "MaxSim", ""),
        ("+pi@128,fuse=words,trust=0.4,vectors=4", "hybrid", "MaxSim", "-se8-bm25_0_3_0p4"),
    ],
)
def test_mteb_knows_name_kind_and_version(folder, tail, kind, similarity, version):
    meta = mteb.get_model_meta(f"{folder}{tail}")
    assert full_name(meta) == f"local/model{tail}"
    assert (meta.model_type, meta.similarity_fn_name.value) == ([kind], similarity)
    assert meta.experiment_kwargs["algorithm"] == f"{ALGORITHM}{version}"
    model = longembed.search(f"{folder}{tail}", device="cpu").protocol
    assert (model.mteb_model_meta.name, model.mteb_model_meta.revision) == (meta.name, meta.revision)
    assert model.mteb_model_meta.experiment_kwargs == meta.experiment_kwargs


def test_several_vectors_run_in_mteb_with_documents_in_chunks_of_bytes(folder, monkeypatch):
    tail = "+pi@128:vectors=4"
    monkeypatch.setattr(passes, "CALL_BYTES", 4 * 32 * 32 * 5)
    model = mteb.get_model(f"{folder}{tail}", device="cpu")
    calls = []
    encode = passes.Pass._encode

    def noting(*args):
        calls.append(len(args[2]))
        return encode(*args)

    monkeypatch.setattr(passes.Pass, "_encode", noting)
    check(run(model, corpus(0)), expected(folder, tail, corpus(0)), 1e-5)
    assert calls == [5, 5, 2, 3]  # documents in three calls, and the queries


@pytest.mark.parametrize("tail", ["", ":fuse=words", ":vectors=4"])
def test_candidates_are_scored_among_themselves(folder, tail):
    model = longembed.search(f"{folder}+pi@128{tail}", device="cpu").protocol
    documents = corpus(0)
    ranked = {"q0": documents["id"][:3], "q1": documents["id"][4:9], "q2": documents["id"]}
    everything = run(model, documents, top_k=100)
    got = run(model, documents, top_k=4, top_ranked=ranked)
    for query, candidates in ranked.items():
        assert set(got[query]) <= set(candidates) and len(got[query]) == min(4, len(candidates))
        if "fuse" not in tail:
            for document, score in got[query].items():
                assert abs(score - everything[query][document]) < 2e-3


def test_a_task_without_search_refuses_it_by_its_name(folder):
    model = longembed.search(f"{folder}+pi@128:whiten=0.5", device="cpu").protocol
    task = mteb.get_task("STSBenchmark")
    message = r"local/model\+pi@128,whiten=0\.5 .*STSBenchmark does not support Search"
    with pytest.raises(TypeError, match=message):
        task.evaluate(model, split="test", encode_kwargs={})


def test_a_base_that_compares_by_distance_has_no_map(tmp_path):
    file = tiny.saved("bert", tmp_path) / "config_sentence_transformers.json"
    file.write_text(file.read_text().replace('"cosine"', '"euclidean"'))
    with pytest.raises(IncompatibleError, match="compared by cosine or dot product, got euclidean"):
        longembed.search(f"{tmp_path / 'model'}+pi@128:whiten=0.5", device="cpu")
