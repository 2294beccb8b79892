"""Vectors on disk: what loops over all of them give, a block in memory at a time."""

import tracemalloc
from typing import Any

import numpy as np
import pytest

from mteb_longembed.encoders.whitening import sampled_rows
from mteb_longembed.errors import NumberError
from mteb_longembed.retrieval import vectors
from mteb_longembed.retrieval.vectors import CorpusVectors, WindowTokens, document_scores


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
    """Blocks of 20 vectors, and of 5 query vectors."""
    monkeypatch.setattr(vectors, "BLOCK_BYTES", 4 * 6 * 20)
    monkeypatch.setattr(vectors, "BLOCK_SCORES", 5 * 20)


@pytest.mark.parametrize("few", [0, 48])
def test_the_best_vector_gives_the_score_of_a_document(few: int, monkeypatch) -> None:
    monkeypatch.setattr(vectors, "FEW", few)  # both orders of the product
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


def test_the_tokens_of_hundreds_of_queries_are_compared_in_blocks_too(monkeypatch) -> None:
    monkeypatch.setattr(vectors, "BLOCK_BYTES", 1 << 20)
    monkeypatch.setattr(vectors, "BLOCK_SCORES", 1 << 16)
    n, several, n_queries, n_tokens = 100, 16, 200, 20
    draw = np.random.default_rng(0)
    made = kept(list(draw.standard_normal((n, several, 6), np.float32)))
    queries = draw.standard_normal((n_queries, n_tokens, 6), np.float32)
    tracemalloc.start()
    try:
        scores = document_scores(made, queries.reshape(-1, 6), counts=np.full(n_queries, n_tokens))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    rows = np.concatenate([made.document(index) for index in range(n)]).reshape(n, several, 6)
    for query in (0, 77, n_queries - 1):
        want = (queries[query] @ rows.transpose(0, 2, 1)).max(axis=2).mean(axis=1)
        assert scores[query] == pytest.approx(want, abs=1e-5)
    assert peak < 4 * (1 << 20) < 4 * n * several * n_queries * n_tokens / 6


def test_a_vector_that_is_not_finite_is_refused() -> None:
    with pytest.raises(NumberError, match="vectors must be finite numbers"):
        CorpusVectors().append([np.array([1.0, np.nan])])


class Disk:
    """An index in memory: what is written is read again."""

    def __init__(self) -> None:
        self.written: dict[str, list[np.ndarray]] = {}
        self.settings: dict[str, Any] = {}

    def array(self, name: str, *parts: np.ndarray) -> None:
        self.written[name] = list(parts)

    def segments(self, name: str) -> list[np.ndarray]:
        return self.written[name]

    def arrays(self, group: str, arrays: dict[str, np.ndarray] | None = None) -> dict[str, np.ndarray]:
        for name, array in (arrays or {}).items():
            self.array(f"{group}.{name}", array)
        start = f"{group}."
        return {name[len(start) :]: rows[0] for name, rows in self.written.items() if name.startswith(start)}


def reopened(made: CorpusVectors) -> Any:
    disk: Any = Disk()
    made.save(disk, "it")
    opened = type(made)()
    opened.restore(disk, "it")
    return opened


def check_same(made: CorpusVectors, documents: list[np.ndarray]) -> None:
    """The vectors equal the documents' vectors, however they are read."""
    rows = np.concatenate(documents).astype(np.float32)
    assert (len(made), made.n_vectors, made.width) == (len(documents), len(rows), rows.shape[1])
    assert made.counts.tolist() == list(map(len, documents))
    for index, document in enumerate(documents):
        assert (made.document(index) == document.astype(np.float32)).all()
    for first in (0, len(documents) // 2, len(documents)):
        blocks = [(counts.tolist(), block) for counts, block in made.blocks(first)]
        assert [n for counts, _ in blocks for n in counts] == list(map(len, documents[first:]))
        assert sum(len(block) for _, block in blocks) == sum(map(len, documents[first:]))
        if blocks:
            assert (
                np.concatenate([block for _, block in blocks]) == rows[-sum(map(len, documents[first:])) :]
            ).all()
    assert (made.sample() == rows).all()
    for most in (1, 7, 50):
        assert (made.sample(most) == rows[sampled_rows(len(rows), most)]).all()


def test_vectors_are_the_same_when_documents_are_added_left_out_saved_and_opened() -> None:
    documents, _ = corpus(3)
    made = kept(documents[:20])
    check_same(made, documents[:20])
    made.keep_first(15)
    made.append(documents[20:])
    documents[15:20] = []
    check_same(made, documents)
    opened = reopened(reopened(made))  # nothing was new
    check_same(opened, documents)
    opened.append(documents[:5])
    documents += documents[:5]
    check_same(opened, documents)
    check_same(reopened(opened), documents)
    stay = np.arange(len(documents)) % 3 > 0
    documents = [document for document, stays in zip(documents, stay, strict=True) if stays]
    for one in (made, opened):
        one.keep(stay[: len(one)])
        one.append([np.ones(6)])
        check_same(one, [*documents[: len(one) - 1], np.ones((1, 6))])


def slow_window_scores(documents: list[np.ndarray], queries: list[np.ndarray]) -> np.ndarray:
    """The mean over the vectors of a query of the best token of a window; of the best window of each document."""
    found = np.full((len(queries), len(documents)), -np.inf)
    for row, query in enumerate(queries):
        for column, windows in enumerate(documents):
            for window in windows.reshape(-1, *windows.shape[-2:]):
                tokens = window[window.any(axis=1)]
                if len(tokens):
                    found[row, column] = max(found[row, column], (query @ tokens.T).max(axis=1).mean())
    return found


def test_of_token_vectors_the_best_window_counts_also_when_documents_are_left_out_saved_and_opened() -> None:
    draw = np.random.default_rng(4)
    documents = [draw.normal(size=(n, 5, 6)) for n in (1, 4, 2, 3, 1, 9, 2)]
    documents.append(draw.normal(size=(4, 6)))  # one window
    for number, document in enumerate(documents):
        document[..., 5 - number % 3 :, :] = 0  # windows with fewer tokens
    documents[3] *= 0.01  # tokens of other documents would score more
    documents[3][1:] = 0  # windows without tokens
    documents[5][0, 1:] = 0  # a window with one
    queries = [draw.normal(size=(n, 6)) for n in (3, 1, 2)]
    given = np.concatenate(queries), None, None, None, np.array([3, 1, 2])

    def check(made: CorpusVectors, numbers: list[int]) -> None:
        want = slow_window_scores([documents[number] for number in numbers], queries)
        assert document_scores(made, *given) == pytest.approx(want, abs=1e-5)

    made = WindowTokens()
    made.append(documents[:5])
    made.append(documents[5:])
    check(made, list(range(8)))
    opened = reopened(made)
    check(opened, list(range(8)))
    stay = np.array([1, 0, 1, 1, 1, 1, 0, 1], bool)
    for one in (made, opened):
        one.keep(stay)
        check(one, [0, 2, 3, 4, 5, 7])
        one.keep_first(4)
        one.append(documents[6:7])
        check(one, [0, 2, 3, 4, 6])


def test_a_score_is_divided_by_the_length_of_its_vector_after_the_offset_of_its_query() -> None:
    documents, queries = corpus(5)
    offsets = np.arange(12.0)[:, None].astype(np.float32)
    lengths = np.arange(1.0, 1 + sum(map(len, documents)), dtype=np.float32)
    found = document_scores(kept(documents), queries, None, offsets, lengths)
    ends = np.cumsum(list(map(len, documents)))
    for query, offset, row in zip(queries, offsets, found, strict=True):
        scores = (np.concatenate(documents) @ query + offset) / lengths
        want = [max(own) for own in np.split(scores, ends[:-1])]
        assert row == pytest.approx(want, abs=1e-4)
