"""Data of one's own: three files in the forms that people have."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from mteb_longembed.errors import DataError
from mteb_longembed.tasks.beir import beir_task, files_task


def write(path: Path, rows: list[dict]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("document", ["_id", "id", "doc_id"])
@pytest.mark.parametrize("query", ["_id", "qid", "query_id"])
def test_ids_have_the_names_that_people_use(tmp_path, document, query) -> None:
    corpus = write(
        tmp_path / "docs.jsonl", [{document: "a", "text": "x"}, {document: "b", "title": "T", "text": "y"}]
    )
    queries = write(tmp_path / "q.jsonl", [{query: "1", "text": "who?"}, {query: "2", "text": "not judged"}])
    qrels = tmp_path / "qrels.tsv"
    qrels.write_text("query-id\tcorpus-id\tscore\n1\tb\t1\n")
    task = files_task(corpus, queries, qrels)
    task.load_data()
    data = task.dataset["default"]["test"]
    assert data["corpus"]["text"] == ["x", "T y"] and data["queries"]["id"] == ["1"]
    assert data["relevant_docs"] == {"1": {"b": 1}}


def test_judgements_may_be_json_lines_and_the_layout_that_of_longembed(tmp_path) -> None:
    write(tmp_path / "corpus.jsonl", [{"doc_id": "a", "text": "x"}])
    write(tmp_path / "queries.jsonl", [{"qid": "1", "text": "who?"}])
    (tmp_path / "qrels.jsonl.gz").write_bytes(gzip.compress(b'{"qid": "1", "doc_id": "a"}\n'))
    task = beir_task(tmp_path)
    task.load_data()
    assert task.dataset["default"]["test"]["relevant_docs"] == {"1": {"a": 1}}


def test_other_data_are_another_task(tmp_path) -> None:
    corpus = write(tmp_path / "docs.jsonl", [{"_id": "a", "text": "x"}])
    queries = write(tmp_path / "q.jsonl", [{"_id": "1", "text": "who?"}])
    qrels = tmp_path / "qrels.tsv"
    qrels.write_text("1\ta\t1\n")
    name = files_task(corpus, queries, qrels).metadata.name
    assert name.startswith("docs-") and name == files_task(corpus, queries, qrels).metadata.name
    write(corpus, [{"_id": "a", "text": "another"}])
    assert files_task(corpus, queries, qrels).metadata.name != name


@pytest.mark.parametrize(
    ("corpus", "qrels", "message"),
    [
        (
            '{"_id": "a", "text": "x"}\n{"_id": "a", "text": "y"}\n',
            "1\ta\t1\n",
            r"docs\.jsonl, line 2: expected each id once",
        ),
        ('{"_id": "a"\n', "1\ta\t1\n", r"docs\.jsonl, line 1: .*invalid JSON"),
        (
            '{"_id": "a", "text": "x"}\n',
            "1\tb\t1\n",
            r"qrels\.tsv, line 1: expected the id of a document, got 'b'",
        ),
        (
            '{"_id": "a", "text": "x"}\n',
            "1\ta\t1\n1 a 1\n",
            r"qrels\.tsv, line 2: expected query id, document id",
        ),
    ],
)
def test_broken_data_name_file_and_line(tmp_path, corpus, qrels, message) -> None:
    (tmp_path / "docs.jsonl").write_text(corpus)
    write(tmp_path / "q.jsonl", [{"_id": "1", "text": "who?"}])
    (tmp_path / "qrels.tsv").write_text(qrels)
    with pytest.raises(DataError, match=message):
        files_task(tmp_path / "docs.jsonl", tmp_path / "q.jsonl", tmp_path / "qrels.tsv").load_data()


def test_a_file_that_is_not_there_is_named(tmp_path) -> None:
    with pytest.raises(
        DataError, match=r"nothing\.jsonl: expected a file or a folder with files, found none"
    ):
        files_task(tmp_path / "nothing.jsonl", tmp_path / "q.jsonl", tmp_path / "qrels.tsv")
