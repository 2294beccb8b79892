"""Scores of documents from the scores of their vectors: what loops give, also where a document has no vector."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from mteb_longembed.retrieval.scores import all_vectors, best_vector, mean_of_queries, with_the_rest_last
from mteb_longembed.retrieval.sparse_vectors import SparseVectors
from mteb_longembed.retrieval.vectors import CorpusVectors, WindowTokens, document_scores

COUNTS = st.lists(st.integers(0, 3), min_size=1, max_size=6)


def drawn(counts: list[int], n_queries: int = 2) -> tuple[np.ndarray, list[np.ndarray]]:
    """Random scores of vectors, `[queries, vectors]`, and the scores of each document."""
    scores = np.random.default_rng(sum(counts)).normal(size=(n_queries, sum(counts))).astype(np.float32)
    ends = np.cumsum([0, *counts])
    return scores, [scores[:, start:end] for start, end in pairwise(ends)]


@given(COUNTS)
def test_a_document_without_a_vector_has_no_score_and_never_that_of_its_neighbour(counts: list[int]) -> None:
    scores, of_documents = drawn(counts)
    best = best_vector(scores, np.array(counts))
    joined = all_vectors(scores, np.array(counts), 0.5)
    for column, own in enumerate(of_documents):
        if not own.size:
            assert np.isneginf(best[:, column]).all() and np.isneginf(joined[:, column]).all()
            continue
        assert (best[:, column] == own.max(axis=1)).all()
        assert joined[:, column] == pytest.approx(0.5 * np.log(np.exp(own / 0.5).mean(axis=1)), abs=1e-5)


@given(COUNTS)
def test_a_query_without_a_vector_scores_every_document_zero(counts: list[int]) -> None:
    scores, of_queries = drawn(counts)
    found = mean_of_queries(scores.T, np.array(counts))
    for row, own in zip(found, of_queries, strict=True):
        want = own.mean(axis=1) if own.size else [0, 0]
        assert row == pytest.approx(want, abs=1e-6)


def test_documents_without_a_vector_come_last_with_finite_scores() -> None:
    scores = np.array([[-np.inf, 0.5, -3.0, -np.inf]], np.float32)
    (row,) = with_the_rest_last(scores)
    assert np.isfinite(row).all() and row[0] == row[3] < -3 and row[0] == pytest.approx(-3)
    assert with_the_rest_last(np.full((1, 2), -np.inf, np.float32)).tolist() == [[0, 0]]


@pytest.mark.parametrize("block", [1, 40, 1 << 20])
@pytest.mark.parametrize("temperature", [None, 0.5])
@given(counts=COUNTS)
def test_vectors_of_each_class_score_as_loops_do_with_documents_that_have_none(block, temperature, counts):
    draw = np.random.default_rng(len(counts))
    documents = [draw.normal(size=(n, 4)).astype(np.float32) for n in counts]
    queries = draw.normal(size=(3, 4)).astype(np.float32)
    want = np.full((3, len(counts)), -np.inf)
    for column, rows in enumerate(documents):
        if len(rows):
            of_rows = queries @ rows.T
            want[:, column] = of_rows.max(axis=1)
            if temperature is not None:
                want[:, column] = temperature * np.log(np.exp(of_rows / temperature).mean(axis=1))
    want = with_the_rest_last(want)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mteb_longembed.retrieval.vectors.BLOCK_BYTES", block)
        made = CorpusVectors()
        made.append(documents)
        assert document_scores(made, queries, temperature) == pytest.approx(want, abs=1e-5)
    if temperature is None:
        windows = WindowTokens()
        windows.append(documents)
        assert document_scores(windows, queries) == pytest.approx(want, abs=1e-5)
        of_terms = SparseVectors()
        of_terms.append(map(sparse.csr_array, documents))
        assert of_terms.scores(sparse.csr_array(queries)) == pytest.approx(want, abs=1e-5)
