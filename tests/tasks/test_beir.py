"""A folder in BEIR's file format becomes a task."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from mteb_longembed.errors import DataError
from mteb_longembed.tasks.beir import beir_task

CORPUS = (
    '{"_id": "1", "title": "Bees", "text": "They dance."}\n{"_id": "2", "title": "", "text": "Rain falls."}\n'
)
QUERIES = '{"_id": "a", "text": "dancing insects"}\n{"_id": "b", "text": "only in training"}\n'
QRELS = "query-id\tcorpus-id\tscore\na\t1\t2\n"


def folder(
    root: Path, corpus: str = CORPUS, queries: str = QUERIES, qrels: str = QRELS, split: str = "test"
) -> Path:
    (root / "qrels").mkdir()
    (root / "corpus.jsonl").write_text(corpus)
    (root / "queries.jsonl.gz").write_bytes(gzip.compress(queries.encode()))
    (root / "qrels" / f"{split}.tsv").write_text(qrels)
    return root


def test_titles_are_joined_and_only_judged_queries_are_asked(tmp_path: Path) -> None:
    task = beir_task(folder(tmp_path))
    task.load_data()
    data = task.dataset["default"]["test"]
    assert data["corpus"]["text"][:] == ["Bees They dance.", "Rain falls."]
    assert data["queries"][:] == {"id": ["a"], "text": ["dancing insects"]}
    assert data["relevant_docs"] == {"a": {"1": 2}}
    assert task.metadata.name == tmp_path.name


def test_another_split_is_another_file(tmp_path: Path) -> None:
    task = beir_task(folder(tmp_path, split="dev"), split="dev")
    task.load_data()
    assert list(task.dataset["default"]) == ["dev"]


def test_documents_may_lack_title_or_text(tmp_path: Path) -> None:
    task = beir_task(folder(tmp_path, corpus='{"_id": "1", "text": ""}\n{"_id": "2", "title": "x"}\n'))
    task.load_data()
    assert task.dataset["default"]["test"]["corpus"]["text"][:] == ["", "x"]


def test_a_missing_file_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"expected a folder in BEIR's format, found no qrels/test\.tsv"):
        beir_task(folder(tmp_path, split="dev"))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"qrels": QRELS + "a\t9\t1\n"}, r"test\.tsv, line 3: expected the id of a document, got '9'"),
        ({"qrels": QRELS + "z\t1\t1\n"}, r"test\.tsv, line 3: expected the id of a query, got 'z'"),
        (
            {"qrels": QRELS + "a 1 1\n"},
            r"test\.tsv, line 3: expected query id, .* tabs between them, got 'a 1 1'",
        ),
        ({"qrels": QRELS + "a\t1\tyes\n"}, r"test\.tsv, line 3: .* a whole number"),
        ({"corpus": CORPUS + "{\n"}, r"corpus\.jsonl, line 3: expected one JSON object"),
        ({"queries": '{"_id": "a"}\n'}, r"queries\.jsonl\.gz, line 1: .* text is missing"),
    ],
)
def test_damage_is_named_with_file_and_line(tmp_path: Path, changed: dict[str, str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        beir_task(folder(tmp_path, **changed)).load_data()
