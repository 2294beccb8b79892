"""Several heads pool one pass: the rows of the others are read from the store, and equal those of their own pass."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import mteb_longembed as longembed
from mteb_longembed.encoders.model import with_head
from mteb_longembed.encoders.store import Counts, EmbeddingStore
from mteb_longembed.encoders.weights import Rule, TokenCounts, TokenWeights, count_tokens
from tests import tiny
from tests.own_data import beir

TEXTS = [f"aa bb {tiny.text(6 + 7 * i, i)}" for i in range(7)] + ["aa"]


def weighted(model: Any, counts: TokenCounts, rule: Rule) -> Any:
    table = TokenWeights.of_corpus(counts, rule, model.tokenizer)
    return with_head(model, model.head.weighted(table))


def by_window(model: Any) -> Any:
    return with_head(model, model.head.several("window", "cosine"))


def numbers(vectors: Any) -> list[np.ndarray]:
    return [np.asarray(torch.as_tensor(row)) for row in vectors]


@pytest.mark.parametrize("tail", ["+pi@64", "+pcw@64:size=12,vectors=window", "+pi@64:vectors=5"])
def test_another_head_pools_the_same_pass_and_is_then_read(folder: Path, tail: str, tmp_path: Path) -> None:
    model: Any = longembed.load(f"{folder}{tail}", device="cpu")
    counts = count_tokens(model, TEXTS)
    alone = {rule: numbers(weighted(model, counts, rule).encode_document(TEXTS)) for rule in ("sif", "idf")}
    want = numbers(model.encode_document(TEXTS))

    model.store = EmbeddingStore(tmp_path / "store")
    others: Any = {rule: weighted(model, counts, rule) for rule in ("sif", "idf")}
    model.also = list(others.values())
    vectors = model.encode_document(TEXTS)
    for got, own in zip(numbers(vectors), want, strict=True):
        assert np.array_equal(got, own)
    encoded = model.store.counts.tokens_encoded
    for rule, other in others.items():
        for got, own in zip(numbers(other.encode_document(TEXTS)), alone[rule], strict=True):
            assert np.abs(got - own).max() < 1e-6
    assert model.store.counts.tokens_encoded == encoded > 0


def test_the_mean_of_tokens_and_the_vectors_of_windows_come_from_one_pass(folder, tmp_path) -> None:
    """One weighted mean of `pcw` takes the tokens of documents, and a vector for each window those of windows."""
    model: Any = longembed.load(f"{folder}+pcw@64:size=12", device="cpu")
    counts = count_tokens(model, TEXTS)
    others: list[Any] = [
        weighted(model, counts, "sif"),
        by_window(model),
        by_window(weighted(model, counts, "sif")),
    ]
    want = [numbers(other.encode_document(TEXTS)) for other in others]
    store = EmbeddingStore(tmp_path / "store")
    for one in (model, *others):
        one.store = store
    model.also = others
    model.encode_document(TEXTS)
    encoded = store.counts.tokens_encoded
    for other, rows in zip(others, want, strict=True):
        for got, own in zip(numbers(other.encode_document(TEXTS)), rows, strict=True):
            assert np.abs(got - own).max() < 1e-6
    assert store.counts.tokens_encoded == encoded > 0


def test_compare_encodes_once_for_all_heads_of_one_trunk(folder, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("MTEB_LONGEMBED_STORE", str(tmp_path / "store"))
    tails = ["vectors=window", "vectors=window,weights=sif", "vectors=window,weights=idf"]
    tails.append("score=softmax,vectors=window,weights=sif")
    names = [f"{folder}+pcw@64:{tail}" for tail in tails]
    names += [f"{folder}+ntk@64{tail}" for tail in ("", ":weights=sif", ":weights=idf")]
    names += [f"{folder}+pcw@64:weights={rule}" for rule in ("sif", "idf")]
    documents = [tiny.text(40, seed) for seed in range(8)]
    data = beir(tmp_path / "data", documents, [text[:20] for text in documents])
    n_encoded: list[int] = []
    add = Counts.add
    monkeypatch.setattr(Counts, "add", lambda self, ran, read: (n_encoded.extend(ran), add(self, ran, read)))
    longembed.compare(names, data=data, bm25=False, folder=tmp_path, show=False)
    # one pass of windows, and one of `ntk`
    assert sum(n > 20 for n in n_encoded) == 2 * len(documents)  # queries are shorter
