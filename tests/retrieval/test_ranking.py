"""The best documents of each query: equal to a stable sort of all scores, a block of queries at a time."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from mteb_longembed.errors import DataError
from mteb_longembed.retrieval import ranking
from mteb_longembed.retrieval.ranking import best_documents


class Given:
    """Scores that are given, for queries that are their numbers."""

    name = "me/given"

    def __init__(self, matrix: np.ndarray | torch.Tensor) -> None:
        self.matrix = matrix
        self.asked: list[int] = []

    def scores(self, queries: Sequence[str]) -> np.ndarray | torch.Tensor:
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


def test_scores_may_be_a_tensor_of_a_model_that_is_trained() -> None:
    scorer: Any = Given(torch.tensor([[1.0, 3.0, 2.0]], requires_grad=True))
    assert best_documents(scorer, ["0"], 2, 3) == [[(3.0, 1), (2.0, 2)]]


def test_a_matrix_of_another_shape_is_told_with_the_shape_that_it_must_have() -> None:
    scorer: Any = Given(np.zeros((2, 4)))
    message = (
        r"^me/given must give scores as a matrix of 2 queries x 3 documents, got a ndarray of 2 x 4 float64"
    )
    with pytest.raises(DataError, match=message):
        best_documents(scorer, ["0", "1"], 2, 3)


@pytest.mark.parametrize("score", [np.nan, np.inf])
def test_a_score_that_has_no_rank_is_refused(score: float) -> None:
    scorer: Any = Given(np.array([[1.0, -np.inf, score]]))
    with pytest.raises(DataError, match=r"^me/given must give numbers, or minus infinity .*: give finite"):
        best_documents(scorer, ["0"], 2, 3)


def test_rows_of_different_lengths_are_refused() -> None:
    scorer: Any = SimpleNamespace(name="me/given", scores=lambda queries: [[1.0], [1.0, 2.0]])
    message = (
        r"^me/given must give scores as a matrix of 2 queries x 2 documents, got rows of different lengths"
    )
    with pytest.raises(DataError, match=message):
        best_documents(scorer, ["0", "1"], 2, 2)
