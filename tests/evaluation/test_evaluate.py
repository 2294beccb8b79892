"""The evaluation in this process equals mteb's on every kind of candidate, and asks each text once."""

import json
from pathlib import Path
from typing import Any

import mteb
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mteb.models.model_meta import ModelMeta

from mteb_longembed.data.task import beir_task, files_task
from mteb_longembed.data.texts import data_identity
from mteb_longembed.errors import DataError
from mteb_longembed.evaluation.evaluate import covers_one, evaluate, first_with_ties
from mteb_longembed.evaluation.metrics import TOLERANCE, read_metric
from mteb_longembed.evaluation.split import Split, splits_of
from mteb_longembed.retrieval.make import make_scorer
from mteb_longembed.retrieval.mteb_search import MTEBSearch, matrices
from tests import tiny
from tests.own_data import beir, judge

METRICS = {
    "nDCG@10": "ndcg_at_10",
    "R@5": "recall_at_5",
    "AP@10": "map_at_10",
    "RR@10": "mrr_at_10",
    "P@3": "precision_at_3",
}
NAMES = [
    "BASE+none", "BASE+pi@128:vectors=4", "BASE+pcw@128:weights=idf,whiten=0.5",
    "BASE+pcw@128:fuse=words,query=sentences,vectors=window", "bm25@16", "bm25:window=9,query=sentences",
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

    meta = ModelMeta.create_empty(overwrites={"name": "me/fixed", "revision": "1"})
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


def test_a_document_with_the_id_of_the_query_and_those_that_are_no_candidates_do_not_count(tmp_path) -> None:
    split = split_of(tmp_path, 4, ["Success@1"])
    matrix = np.array([[1, 2, 3, 4]] * 4)
    assert evaluate(Fixed(matrix), split)["score"].tolist() == [0, 0, 0, 1]
    split.data["top_ranked"] = {f"q{i}": [f"d{i}", "d0"] for i in range(4)}
    assert evaluate(Fixed(matrix), split)["score"].tolist() == [1, 1, 1, 1]
    split.data["top_ranked"] = None
    split.task.skip_first_result = True
    assert evaluate(Fixed(matrix), split)["score"].tolist() == [0, 0, 1, 0]


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


def test_passages_are_those_of_the_language_of_the_documents(tmp_path: Path) -> None:
    # "Häuser" has the stem of "Haus" in German, and none that English knows
    house = "Das Haus ist alt."
    text = "Der Regen fällt. " * 90 + f"{house} " + "Wir gehen auf den Berg. " * 90
    judged = [{"qid": "q", "docid": "d", "answer": house}]
    found = {}
    for language in ("eng-Latn", "deu-Latn"):
        task = files_task(
            {"d": text, "other": "Die Katze schläft."}, {"q": "Häuser"}, judged, language=language
        )
        (split,) = splits_of(task, [read_metric("nDCG@1")])
        found[language] = evaluate(make_scorer("bm25"), split)["passage@1"].item()
    assert found == {"eng-Latn": 0, "deu-Latn": 1}


spans = st.tuples(st.integers(0, 30), st.integers(1, 12)).map(lambda pair: (pair[0], sum(pair)))


@settings(max_examples=200, deadline=None)
@given(spans, st.lists(spans, max_size=3))
def test_a_passage_answers_if_it_has_half_the_characters_of_one_that_does(passage, answers) -> None:
    marked = set(range(*passage))
    halves = [2 * len(marked & set(range(*answer))) >= answer[1] - answer[0] for answer in answers]
    assert covers_one(*passage, answers) == any(halves)


def test_passages_of_the_first_documents_are_scored_and_their_words_counted(tmp_path) -> None:
    root = beir(tmp_path, [f"number {i} is here" for i in range(7)], ["a", "b"])
    (split,) = splits_of(beir_task(judge(root, "q0\td1\t1\t0\t1", "q1\td6\t1\t0\t1")))
    matrix = np.array([[1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4]] * 2)
    found = evaluate(Fixed(matrix), split).set_index("query")
    # each passage is the first character of its document, which is a word of its own; the seventh is not looked at
    assert found[["passage@1", "passage@5"]].values.tolist() == [[0, 1], [0, 0]]
    assert found["context@5"].tolist() == [5 * value for value in found["context@1"]]
    assert found["context@1"].iloc[0] > 0


def test_judged_passages_are_characters_of_the_text_and_change_no_identity(tmp_path) -> None:
    root = beir(tmp_path, ["the key is here and there", "other"], ["where"])
    plain = data_identity(beir_task(root), "test")
    rows = [json.loads(line) for line in (root / "corpus.jsonl").read_text().splitlines()]
    task = beir_task(judge(root, "q0\td0\t1\t4\t7", "q0\td0\t1\t20\t25"))
    assert data_identity(task, "test") == plain
    assert task.passages("test") == {"q0": {"d0": [(4, 7), (20, 25)]}}
    rows[0]["title"] = " A title"
    (root / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)))
    task = beir_task(root)
    text = task.dataset["default"]["test"]["corpus"]["text"][0]
    assert [text[start:end] for start, end in task.passages("test")["q0"]["d0"]] == ["key", "there"]
    for passage in ("1\t4\t4", "0\t-1\t3", "1\t4\t26", "0\t4\t", "1\t\t7", "1\ta\tb"):
        with pytest.raises(DataError, match=r"row 1: start and end must be whole numbers of characters"):
            beir_task(judge(root, f"q0\td0\t{passage}", "q0\td1\t1\t0\t5"))


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
