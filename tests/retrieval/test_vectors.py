"""Vectors on disk: what loops over all of them give, a block in memory at a time."""

import tracemalloc

import numpy as np
import pytest

from mteb_longembed.errors import NumberError
from mteb_longembed.retrieval import vectors
from mteb_longembed.retrieval.vectors import CorpusVectors, document_scores


def corpus(seed: int) -> tuple[list[np.ndarray], np.ndarray]:
    generator = np.random.default_rng(seed)
    documents = [generator.normal(size=(generator.integers(1, 10), 6)) for _ in range(40)]
    # one document whose windows crowd out all others at first
    documents[3] = np.tile([2.0, 0, 0, 0, 0, 0], (200, 1)) + 0.01 * generator.normal(size=(200, 6))
    return documents, generator.normal(size=(12, 6))


def kept(documents: list[np.ndarray]) -> CorpusVectors:
    made = CorpusVectors()
    made.append(documents[:10])
    made.append(documents[10:])
    return made


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch) -> None:
    """Blocks of 20 vectors."""
    monkeypatch.setattr(vectors, "BLOCK_BYTES", 4 * 6 * 20)


def test_the_best_vector_gives_the_score_of_a_document() -> None:
    documents, queries = corpus(0)
    scores = document_scores(kept(documents), queries)
    for query, row in zip(queries, scores, strict=True):
        assert row == pytest.approx([max(float(one @ query) for one in rows) for rows in documents], abs=1e-4)


def test_vectors_on_disk_come_back_in_blocks_of_whole_documents():
    documents, _ = corpus(2)
    of_disk = kept(documents)
    blocks = list(of_disk.blocks())
    assert len(blocks) > 3 and max(len(rows) for counts, rows in blocks if len(counts) > 1) <= 20
    assert np.allclose(np.concatenate([rows for _, rows in blocks]), np.concatenate(documents), atol=1e-6)
    counts = np.concatenate([counts for counts, _ in blocks])
    assert counts.tolist() == list(map(len, documents)) and len(of_disk) == 40


def test_thousands_of_documents_with_64_vectors_are_never_in_memory_as_a_whole(monkeypatch) -> None:
    block = 2 << 20
    monkeypatch.setattr(vectors, "BLOCK_BYTES", block)
    n, several, width = 600, 64, 64
    draw = np.random.default_rng(0)
    queries = draw.standard_normal((20, width), np.float32)
    tracemalloc.start()
    try:
        kept = CorpusVectors()
        for i in range(n):
            rows = draw.standard_normal((several, width), np.float32)
            if i in (0, 300, n - 1):  # these have the first query itself among their vectors
                rows[i % several] = 10 * queries[0]
            kept.append([rows])
        scores = document_scores(kept, queries)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert {0, 300, n - 1} == set(np.argsort(-scores[0])[:3])
    # two blocks, each in fp32 and as read
    assert peak < 3.5 * block < 0.75 * n * several * width * 4


def test_a_vector_that_is_not_finite_is_refused() -> None:
    with pytest.raises(NumberError, match="vectors must be finite numbers"):
        CorpusVectors().append([np.array([1.0, np.nan])])
