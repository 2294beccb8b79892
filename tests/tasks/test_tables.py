"""Folders that the `datasets` library has written become tasks."""

from __future__ import annotations

from pathlib import Path

import pytest
from datasets import Dataset, DatasetDict

from mteb_longembed.errors import DataError
from mteb_longembed.tasks.beir import beir_task, files_task

CORPUS = {
    "_id": ["1", "2", "3"],
    "title": ["Bees", "", None],
    "text": ["They dance.", "Rain falls.", "Hail."],
}
QUERIES = {"_id": ["a", "b"], "text": ["dancing insects", "only in training"]}
QRELS = {"query-id": ["a", "a"], "corpus-id": ["1", "3"], "score": [2, 1]}


def saved(root: Path, **changed: dict) -> Path:
    """As `DatasetDict.save_to_disk` writes it."""
    tables = {"corpus": CORPUS, "queries": QUERIES, "qrels": QRELS, **changed}
    DatasetDict({name: Dataset.from_dict(rows) for name, rows in tables.items()}).save_to_disk(str(root))
    return root


def published(root: Path, **changed: dict) -> Path:
    """As a repository on the hub holds it: a folder each, one Parquet file a split."""
    tables = {"corpus": CORPUS, "queries": QUERIES, "qrels": QRELS, **changed}
    for name, rows in tables.items():
        split = "test" if name == "qrels" else name
        (root / name).mkdir(parents=True)
        Dataset.from_dict(rows).to_parquet(str(root / name / f"{split}-00000-of-00001.parquet"))
    return root


def flat(root: Path, **changed: dict) -> Path:
    root.mkdir()
    for name, rows in {"corpus": CORPUS, "queries": QUERIES, "qrels": QRELS, **changed}.items():
        Dataset.from_dict(rows).to_parquet(str(root / f"{name}.parquet"))
    return root


@pytest.mark.parametrize("write", [saved, published, flat])
def test_each_layout_is_read(tmp_path: Path, write) -> None:
    task = beir_task(write(tmp_path / "mine"))
    task.load_data()
    data = task.dataset["default"]["test"]
    assert data["corpus"]["text"][:] == ["Bees They dance.", "Rain falls.", "Hail."]
    assert data["queries"][:] == {"id": ["a"], "text": ["dancing insects"]}
    assert data["relevant_docs"] == {"a": {"1": 2, "3": 1}}


def test_ids_and_scores_may_be_numbers(tmp_path: Path) -> None:
    numbers = {"query-id": ["a"], "corpus-id": [2], "score": [1.0]}
    task = beir_task(saved(tmp_path / "mine", corpus=CORPUS | {"_id": [1, 2, 3]}, qrels=numbers))
    task.load_data()
    assert task.dataset["default"]["test"]["relevant_docs"] == {"a": {"2": 1}}


def test_tables_and_files_can_be_mixed(tmp_path: Path) -> None:
    saved(tmp_path / "mine")
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nb\t2\t1\n")
    task = files_task(tmp_path / "mine" / "corpus", tmp_path / "mine" / "queries", tmp_path / "qrels.tsv")
    task.load_data()
    assert task.dataset["default"]["test"]["relevant_docs"] == {"b": {"2": 1}}


def test_another_split_of_the_judgements(tmp_path: Path) -> None:
    root = saved(tmp_path / "mine")
    judged = DatasetDict({"dev": Dataset.from_dict(QRELS), "test": Dataset.from_dict(QRELS).select([1])})
    judged.save_to_disk(str(root / "qrels"))
    task = beir_task(root)
    task.load_data()
    assert task.dataset["default"]["test"]["relevant_docs"] == {"a": {"3": 1}}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"qrels": QRELS | {"corpus-id": ["1", "9"]}},
            r"qrels, row 2: expected the id of a document, got '9'",
        ),
        (
            {"corpus": CORPUS | {"_id": ["1", "2", "1"]}},
            r"corpus, row 3: expected each id once, got '1' again",
        ),
        ({"queries": {"_id": ["a"]}}, r"queries, row 1: .* text is missing"),
        ({"queries": {"_id": ["a", "b"], "text": ["x", " "]}}, r"queries, row 2: .* text is empty"),
        ({"corpus": {"_id": [], "text": []}}, r"corpus: expected rows, got an empty table"),
    ],
)
def test_damage_is_named_with_table_and_row(tmp_path: Path, changed, message: str) -> None:
    with pytest.raises(DataError, match=message):
        beir_task(saved(tmp_path / "mine", **changed)).load_data()


def test_a_damaged_table_is_told_in_one_sentence(tmp_path: Path) -> None:
    root = flat(tmp_path / "mine")
    (root / "corpus.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(
        DataError, match=r"corpus\.parquet: expected a table that the datasets library has saved"
    ):
        beir_task(root).load_data()


def test_an_empty_parquet_table_is_told(tmp_path: Path) -> None:
    root = flat(tmp_path / "mine", corpus={"_id": [], "text": []})
    with pytest.raises(
        DataError, match=r"corpus\.parquet: expected rows with _id, title, text, got an empty table"
    ):
        beir_task(root).load_data()


def test_a_missing_table_is_named_at_once(tmp_path: Path) -> None:
    root = flat(tmp_path / "mine")
    (root / "queries.parquet").unlink()
    with pytest.raises(DataError, match=r"queries: expected a file or a folder with files, found none"):
        beir_task(root)
