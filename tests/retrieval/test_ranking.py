"""The best documents of each query: equal to a stable sort of all scores, a block of queries at a time."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from mteb_longembed.retrieval import ranking
from mteb_longembed.retrieval.ranking import best_documents


class Given:
    """Scores that are given, for queries that are their numbers."""

    def __init__(self, matrix: np.ndarray) -> None:
        self.matrix = matrix
        self.asked: list[int] = []

    def scores(self, queries: Sequence[str]) -> np.ndarray:
        self.asked.append(len(queries))
        return self.matrix[list(map(int, queries))]


@pytest.mark.parametrize(("n_scores", "asked"), [(1, [1] * 7), (35, [3, 3, 1]), (99, [7])])
def test_the_best_documents_are_the_first_ones_of_a_stable_sort(n_scores: int, asked, monkeypatch) -> None:
    monkeypatch.setattr(ranking, "MATRIX", n_scores)
    matrix = np.random.default_rng(0).choice([-np.inf, -1, 0, 1, 2], (7, 11))
    for top_k in (1, 3, 11, 20):
        scorer: Any = Given(matrix)
        found = best_documents(scorer, list(map(str, range(7))), top_k, 11)
        for row, pairs in zip(matrix.tolist(), found, strict=True):
            ranked = sorted((-score, index) for index, score in enumerate(row) if score > -np.inf)
            assert pairs == [(-score, index) for score, index in ranked[:top_k]]
        assert scorer.asked == asked
    assert best_documents(Given(np.zeros((7, 0))), ["0"], 3, 0) == [[]]  # type: ignore[arg-type]
