"""The index of windows gives what comparing everything gives."""

import math
import tracemalloc

import numpy as np
import pytest

from mteb_longembed.retrieval import vectors, windows_index
from mteb_longembed.retrieval.vectors import BLOCK_BYTES, TEMPERATURE, CorpusVectors, document_scores
from mteb_longembed.retrieval.windows_index import WindowIndex


def corpus(seed: int) -> tuple[list[np.ndarray], np.ndarray]:
    generator = np.random.default_rng(seed)
    documents = [generator.normal(size=(generator.integers(1, 10), 6)) for _ in range(40)]
    # one document whose windows crowd out all others at first
    documents[3] = np.tile([2.0, 0, 0, 0, 0, 0], (200, 1)) + 0.01 * generator.normal(size=(200, 6))
    return documents, generator.normal(size=(12, 6))


def slowly(documents: list[np.ndarray], query: np.ndarray, top_k: int) -> list[tuple[float, int]]:
    best = [(max(float(row @ query) for row in rows), i) for i, rows in enumerate(documents)]
    return sorted(best, reverse=True)[:top_k]


def kept(documents: list[np.ndarray]) -> CorpusVectors:
    made = CorpusVectors()
    made.append(documents[:10])
    made.append(documents[10:])
    return made


@pytest.fixture(autouse=True)
def small_blocks(request, monkeypatch) -> None:
    """Blocks of 20 vectors."""
    if "memory" not in request.node.name:
        monkeypatch.setattr(vectors, "BLOCK_BYTES", 4 * 6 * 20)


def built(documents: list[np.ndarray]) -> WindowIndex:
    return WindowIndex(kept(documents).blocks())


@pytest.mark.parametrize("top_k", [1, 5, 39, 40, 500])
def test_an_index_of_too_few_vectors_for_lists_is_exact(top_k):
    documents, queries = corpus(0)
    queries[0] = [1, 0, 0, 0, 0, 0]
    scores, indices = built(documents).search(queries, top_k)
    for query, values, row in zip(queries, scores, indices, strict=True):
        want = slowly(documents, query, top_k)
        assert row == [i for _, i in want]
        assert np.allclose(values, [score for score, _ in want], atol=1e-4)


def lists(monkeypatch, probed: int) -> tuple[WindowIndex, list[np.ndarray], np.ndarray]:
    monkeypatch.setattr(windows_index, "IVF_FROM", 50)
    monkeypatch.setattr(windows_index, "PROBED", probed)
    documents, queries = corpus(4)
    return built(documents), documents, queries


def test_all_lists_together_give_what_comparing_everything_gives(monkeypatch):
    index, documents, queries = lists(monkeypatch, probed=1)
    scores, indices = index.search(queries, 5)
    for query, values, row in zip(queries, scores, indices, strict=True):
        want = slowly(documents, query, 5)
        assert np.allclose(values, [score for score, _ in want], atol=5e-3)  # numbers are halves
        assert len(set(row) & {i for _, i in want}) >= 4


def test_the_nearest_lists_hold_most_and_others_are_searched_until_there_are_enough(monkeypatch):
    index, documents, queries = lists(monkeypatch, probed=10**6)
    scores, indices = index.search(queries, 40)
    assert all(sorted(row) == list(range(40)) for row in indices)  # one list at first, all in the end
    assert all(values == sorted(values, reverse=True) for values in scores)
    _, first = index.search(queries, 1)
    hits = [row[0] == slowly(documents, query, 1)[0][1] for row, query in zip(first, queries, strict=True)]
    assert np.mean(hits) >= 0.5


def test_vectors_on_disk_come_back_in_blocks_of_whole_documents():
    documents, _ = corpus(2)
    of_disk = kept(documents)
    blocks = list(of_disk.blocks())
    assert len(blocks) > 3 and max(len(b.rows) for b in blocks if len(b.counts) > 1) <= 20
    assert np.allclose(np.concatenate([b.rows for b in blocks]), np.concatenate(documents), atol=1e-6)
    assert [b.first for b in blocks] == np.cumsum([0, *(len(b.counts) for b in blocks)])[:-1].tolist()
    assert len(of_disk) == 40


def test_with_softmax_all_vectors_of_a_document_count():
    documents, queries = corpus(3)
    documents = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in documents]
    scores = document_scores(kept(documents), queries, "softmax")
    for query, values in zip(queries, scores, strict=True):
        want = []
        for rows in documents:
            exponents = [float(vector @ query) / TEMPERATURE for vector in rows]
            top = max(exponents)
            mean = math.fsum(math.exp(x - top) for x in exponents) / len(exponents)
            want.append(TEMPERATURE * (top + math.log(mean)))
        assert np.allclose(values, want, atol=1e-4)


def test_ten_thousand_documents_of_64_vectors_are_never_in_memory_as_a_whole() -> None:
    n, several, width = 10_000, 64, 128
    draw = np.random.default_rng(0)
    queries = draw.standard_normal((20, width), np.float32)
    tracemalloc.start()
    try:
        kept = CorpusVectors()
        for i in range(n):
            rows = draw.standard_normal((several, width), np.float32)
            if i in (0, 5_000, n - 1):  # these have the first query itself among their vectors
                rows[i % several] = 10 * queries[0]
            kept.append([rows])
        scores = document_scores(kept, queries)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert {0, 5_000, n - 1} == set(np.argsort(-scores[0])[:3])
    # two blocks, each in fp32 and as read
    assert peak < 3.5 * BLOCK_BYTES < 0.75 * n * several * width * 4
