"""The evaluation in this process equals mteb's on every kind of candidate, and asks each text once."""

from itertools import permutations
from pathlib import Path
from typing import Any

import mteb
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mteb_longembed.data.task import beir_task
from mteb_longembed.errors import DataError
from mteb_longembed.evaluation.evaluate import evaluate, first_rank, first_with_ties
from mteb_longembed.evaluation.metrics import TOLERANCE, read_metric
from mteb_longembed.evaluation.split import Split, splits_of
from mteb_longembed.plugin.search import MTEBSearch
from mteb_longembed.retrieval.make import make_scorer
from mteb_longembed.retrieval.ranking import matrices
from tests import tiny
from tests.own_data import beir

METRICS = {
    "nDCG@10": "ndcg_at_10",
    "R@5": "recall_at_5",
    "AP@10": "map_at_10",
    "RR@10": "mrr_at_10",
    "P@3": "precision_at_3",
}
NAMES = [
    "BASE+none", "BASE+pi@128:vectors=4", "BASE+pcw@128:weights=idf,whiten=0.5",
    "BASE+pcw@128:fusion=bm25,query=sentences,vectors=window", "bm25@16", "bm25:window=9,query=sentences",
]  # fmt: skip


def split_of(root: Path, n: int = 24, metrics: Any = METRICS, **options: Any) -> Split:
    texts = [f"{tiny.text(5 + 4 * i, i)}. {tiny.text(30, 100 + i)}." for i in range(n)]
    queries = [f"{' '.join(text.split()[2:9])}. {tiny.text(4, i)}." for i, text in enumerate(texts)]
    task = beir_task(beir(root, texts, queries))
    (split,) = splits_of(task, [read_metric(metric) for metric in metrics], **options)
    return split


@pytest.mark.parametrize("name", NAMES)
def test_each_metric_is_that_of_mteb(name: str, folder: Path, tmp_path: Path) -> None:
    name = name.replace("BASE", str(folder))
    split = split_of(tmp_path)
    ours = evaluate(make_scorer(name, "cpu"), split)
    assert not ours["is_tied"].any()
    model = mteb.get_model(name, device="cpu")
    result = mteb.evaluate(model, split.task, cache=None, show_progress_bar=False, co2_tracker=False)
    ((scores,),) = result.task_results[0].scores.values()
    for column, (_, theirs) in zip(["score", *list(METRICS)[1:]], METRICS.items(), strict=True):
        assert ours[column].mean() == pytest.approx(scores[theirs], abs=1e-5), column


class Fixed:
    """A scorer of a matrix."""

    name = "me/fixed"
    revision = "1"
    lowest = None

    def __init__(self, matrix: np.ndarray) -> None:
        self.matrix = matrix

    def fit(self, documents: Any) -> None:
        self.documents = documents

    def scores(self, queries: Any) -> np.ndarray:
        return self.matrix[: len(queries)]

    def passages(self, queries: Any, numbers: Any) -> Any:
        return [[(0, 1) for _ in row] for row in numbers]


def test_ties_count_with_their_mean_over_the_whole_row(tmp_path: Path) -> None:
    split = split_of(tmp_path, 12, ["nDCG@1"])
    scores = evaluate(Fixed(np.full((12, 12), 0.5)), split)
    assert scores["is_tied"].all() and np.allclose(scores["score"], 1 / 12)


def test_documents_that_are_no_candidates_and_a_skipped_first_one_do_not_count(tmp_path) -> None:
    split = split_of(tmp_path, 4, ["Success@1"])
    matrix = np.array([[1, 2, 3, 4]] * 4)
    assert evaluate(Fixed(matrix), split)["score"].tolist() == [0, 0, 0, 1]
    split.data["top_ranked"] = {f"q{i}": [f"d{i}", "d0"] for i in range(4)}
    assert evaluate(Fixed(matrix), split)["score"].tolist() == [1, 1, 1, 1]
    split.data["top_ranked"] = None
    split.task.skip_first_result = True
    assert evaluate(Fixed(matrix), split)["score"].tolist() == [0, 0, 1, 0]


def test_a_document_with_the_id_of_the_query_counts_unless_the_task_ignores_it(tmp_path) -> None:
    split = split_of(tmp_path, 4, ["Success@1"])
    split.data["queries"] = split.data["queries"].map(lambda row: {"id": f"d{row['id'][1]}"})
    split.data["relevant_docs"] = {f"d{i}": {"d3": 1} for i in range(4)}
    for ignored, want in ((False, [1, 1, 1, 1]), (True, [1, 1, 1, 0])):
        split.task.ignore_identical_ids = ignored
        assert evaluate(Fixed(np.array([[1, 2, 3, 4]] * 4)), split)["score"].tolist() == want


def test_a_row_names_its_task_and_split_and_the_best_document_that_is_relevant(tmp_path: Path) -> None:
    split = split_of(tmp_path, 4, ["nDCG@3"])
    split.judged["q0"] = {"d3": 0, "d2": -1, "gone": 1, "d1": 1}
    row = evaluate(Fixed(np.array([[1, 2, 3, 4]] * 4)), split).iloc[0]
    assert (row["task"], row["split"], row["query"]) == (split.task.metadata.name, "test", "q0")
    assert (row["rank"], row["best_relevant"], row["top_document"]) == (3, "d1", "d3")
    # the third of three ranks, and two relevant documents at best
    assert row["score"] == pytest.approx((1 / 2) / (1 + 0.6309298))


@pytest.mark.parametrize("grade", [0, -1])
def test_a_split_without_a_relevant_document_is_told(grade: int, tmp_path: Path) -> None:
    split = split_of(tmp_path, 3)
    for query in split.judged:
        split.judged[query] = {"d0": grade}
    with pytest.raises(DataError, match="test: no query has a relevant document to be scored by"):
        evaluate(Fixed(np.eye(3)), split)


def test_scores_are_equal_within_a_millionth_of_the_largest_that_is_kept() -> None:
    scores = np.array([1000, 1.0, 0.9995, 0.9, -1e9])
    assert first_with_ties(scores, 2).tolist() == [0, 1, 2]
    assert first_with_ties(scores, 2, 0.0).tolist() == [0, 1]
    assert first_with_ties(np.array([0.1, 0.5, 0.1]), 2, 0.0).tolist() == [0, 1, 2]
    # step by step
    assert first_with_ties(np.array([1 - 1.8e-6, 1 - 0.9e-6, 1]), 1).tolist() == [0, 1, 2]


def test_a_score_that_is_no_number_is_told(tmp_path: Path) -> None:
    matrix = np.zeros((4, 4))
    matrix[2, 1] = np.inf
    with pytest.raises(DataError, match="me/fixed must give numbers, or minus infinity"):
        evaluate(Fixed(matrix), split_of(tmp_path, 4))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from([0.1, 0.2, 0.2 + 1e-8, 0.3, -np.inf]), min_size=1, max_size=9), st.integers(1, 9)
)
def test_the_first_with_ties_are_those_of_a_sorted_list(values: list[float], n: int) -> None:
    found = first_with_ties(np.array(values), n)
    ranked = sorted((value for value in values if np.isfinite(value)), reverse=True)
    want = ranked[:n]
    for value in ranked[n:]:
        if want[-1] - value > TOLERANCE * max(map(abs, want)):
            break
        want.append(value)
    assert sorted(np.array(values)[found], reverse=True) == want


def test_instructions_are_read_with_their_queries(tmp_path: Path) -> None:
    split = split_of(tmp_path, 3)
    rows = split.data["queries"]
    split.data["queries"] = rows.add_column("instruction", ["find it"] * 3)
    assert split.queries["q0"] == f"{rows['text'][0]} find it"


spans = st.tuples(st.integers(0, 30), st.integers(1, 12)).map(lambda pair: (pair[0], sum(pair)))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.ones((4, 3)), r"a matrix of 4 queries x 4 documents, got a ndarray of 4 x 3 float64 values"),
        (np.ones((3, 4)), r"got a ndarray of 3 x 4 float64 values"),
        (np.ones(4), r"got a ndarray of 4 float64 values"),
        (np.ones((4, 4, 1)), r"got a ndarray of 4 x 4 x 1 float64 values"),
        (None, r"got a NoneType of no object values"),
        (3.0, r"got a float of no float64 values"),
        ([["a"] * 4] * 4, r"got a list of 4 x 4 <U1 values"),
        ([[1.0], [1.0, 2.0]], r"got rows of different lengths"),
        ({"q0": {"d0": 1.0}}, r"got a dict of no object values"),
        (np.full((4, 4), np.nan), r"numbers, or minus infinity .*, got NaN or infinity"),
    ],
)
def test_scores_that_are_no_matrix_of_queries_and_documents_are_told(tmp_path, given, message) -> None:
    class Given(Fixed):
        def scores(self, queries: Any) -> Any:
            return self.matrix

    with pytest.raises(DataError, match=rf"^me/fixed must give .*{message}.*: give "):
        evaluate(Given(given), split_of(tmp_path, 4))
    corpus = split_of(tmp_path / "other", 4).documents
    search = MTEBSearch(Given(given))
    search.scorer.fit(corpus)
    with pytest.raises(DataError, match=rf"^me/fixed must give .*{message}"):
        list(matrices(search.scorer, ["a"] * 4, 4))


def test_scores_may_be_lists_tensors_and_integers_and_minus_infinity_is_not_ranked(tmp_path) -> None:
    split = split_of(tmp_path, 4)
    for matrix in (
        np.eye(4).tolist(),
        torch.eye(4),
        np.eye(4, dtype=int),
        np.where(np.eye(4) > 0, 1, -np.inf),
    ):

        class Given(Fixed):
            def scores(self, queries: Any) -> Any:
                return self.matrix

        assert evaluate(Given(matrix), split)["score"].tolist() == [1, 1, 1, 1]


def test_the_rank_of_the_best_relevant_document_is_a_mean_over_orders_and_nan_if_none_is_ranked(
    tmp_path,
) -> None:
    split = split_of(tmp_path, 4)  # query i has document i
    matrix = np.array([[1, 2, 3, 4], [5, 5, 0, 5], [9, 8, 7, -np.inf], [4, 3, 2, -np.inf]])
    rows = evaluate(Fixed(matrix), split)
    assert rows["rank"].tolist()[:3] == [4, 2, 3] and np.isnan(rows["rank"][3])
    assert rows["top_document"].tolist() == ["d3", "d0", "d0", "d0"]
    assert rows["best_relevant"].tolist() == ["d0", "d1", "d2", ""]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=5), st.data())
def test_a_rank_is_the_mean_over_all_orders_of_equal_scores(scores: list[int], data: st.DataObject) -> None:
    indices = st.integers(0, len(scores) - 1)
    relevant = data.draw(st.lists(indices, min_size=1, max_size=3, unique=True))
    first = []
    for order in permutations(range(len(scores))):
        ranked = sorted(order, key=lambda number: -scores[number])
        first.append(min(map(ranked.index, relevant)) + 1)
    assert first_rank(np.array(scores, float), relevant) == pytest.approx(np.mean(first))
