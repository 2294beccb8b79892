"""A task from local files: which files of a folder are read, and what the task is called."""

import re
import tracemalloc
from pathlib import Path

import pyarrow
import pytest

from mteb_longembed.data.sources import Data
from mteb_longembed.data.task import beir_task, files_task
from mteb_longembed.data.texts import data_identity
from mteb_longembed.errors import DataError, InputError
from mteb_longembed.evaluation.split import splits_of
from tests.own_data import DOCUMENTS, HEADING, JUDGED, QUERY_ROWS, content, json_lines, write


def test_several_splits_share_documents_and_have_their_own_queries(tmp_path: Path) -> None:
    root = write(tmp_path, DOCUMENTS, QUERY_ROWS, JUDGED)
    (root / "qrels.jsonl").unlink()
    (root / "qrels").mkdir()
    (root / "qrels" / "test.tsv").write_text(HEADING + "q0\td0\t2\n")
    (root / "qrels" / "dev.tsv").write_text(HEADING + "q1\td1\t1\n")
    task = beir_task(root, ["test", "dev"])
    assert [list(content(task, split)[2]) for split in task.eval_splits] == [["q0"], ["q1"]]
    assert task.unjudged["test"] == [
        f"{root / 'qrels' / 'test.tsv'}: 5 of 6 queries have no relevant document and are not scored."
    ]
    with pytest.raises(DataError, match=r"expected one file qrels/train .* found none"):
        beir_task(root, ["test", "train"])


def test_a_task_is_named_by_what_is_in_its_files_and_never_like_another_task(tmp_path: Path) -> None:
    def name(documents=DOCUMENTS, queries=QUERY_ROWS, judged=JUDGED, **options: str) -> str:
        root = tmp_path / f"{len(list(tmp_path.iterdir()))}" / "LongEmbedPasskey"
        return str(beir_task(write(root, documents, queries, judged), **options).metadata.name)

    texts = [row["text"] for row in DOCUMENTS]
    rotated = [{**row, "text": text} for row, text in zip(DOCUMENTS, texts[1:] + texts[:1], strict=True)]
    other, better = {"_id": "q5", "text": "other"}, {**JUDGED[-1], "score": 2}
    task_names = [name(), name(documents=rotated), name(language="deu")]
    task_names += [name(queries=[*QUERY_ROWS[:-1], other]), name(judged=[*JUDGED[:-1], better])]
    assert name() == task_names[0] and len(set(task_names)) == len(task_names)
    assert all(re.fullmatch(r"LongEmbedPasskey-[0-9a-f]{8}", task_name) for task_name in task_names)


def test_files_that_change_while_they_are_used_are_noticed(tmp_path: Path) -> None:
    root = write(tmp_path, DOCUMENTS, QUERY_ROWS, JUDGED)
    task = beir_task(root)
    task.unload_data()
    task.load_data()
    identity = data_identity(task, "test")
    (root / "corpus.jsonl").write_bytes(json_lines([{**row, "text": "other"} for row in DOCUMENTS]))
    task.unload_data()
    with pytest.raises(DataError, match=r"expected unchanged data, but they have changed"):
        task.load_data()
    assert identity != data_identity(beir_task(root), "test")


def test_an_unknown_language_is_refused(tmp_path: Path) -> None:
    root = write(tmp_path, DOCUMENTS, QUERY_ROWS, JUDGED)
    assert beir_task(root, language="jpn-Jpan").metadata.eval_langs == ["jpn-Jpan"]
    # nothing falls back to English, however it is written
    for language in ("klingon", "de", "deu_Latn", "", 3, ["deu"]):
        with pytest.raises(InputError, match=r"a language must be an ISO 639-3 code, .*, got "):
            Data(folder=root, language=language).load()


def test_missing_files_are_named(tmp_path: Path) -> None:
    root = write(tmp_path / "mine", DOCUMENTS, QUERY_ROWS, JUDGED, ".parquet")
    (root / "queries.parquet").unlink()
    with pytest.raises(DataError, match=r"mine: expected one file queries .* found none"):
        beir_task(root)
    with pytest.raises(DataError, match=r"queries\.parquet: expected a regular file or a folder, found"):
        files_task(tmp_path / "nothing.jsonl", root / "queries.parquet", root / "qrels.parquet")


def test_documents_are_on_disk_and_never_in_memory_as_a_whole(tmp_path: Path) -> None:
    n, text = 2_000, "word " * 1_000
    source = tmp_path / "docs.jsonl"
    source.write_bytes(json_lines([{"id": f"d{number}", "text": f"{number} {text}"} for number in range(n)]))
    before = pyarrow.total_allocated_bytes()
    tracemalloc.start()
    try:
        task = files_task(source, {"q": "word"}, [{"qid": "q", "docid": f"d{n - 1}"}])
        (split,) = splits_of(task)
        assert split.digest and len(split.documents.texts) == n
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert split.documents.texts[n - 1] == f"{n - 1} {text}".strip()
    # some hundred documents at a time, and the ids
    assert peak + pyarrow.total_allocated_bytes() - before < 0.5 * n * len(text)


def test_what_can_be_read_only_once_is_read_again_from_what_was_kept() -> None:
    rows = [{"id": "d0", "text": "a"}, {"id": "d1", "text": "b"}]
    judged = [{"qid": "q", "docid": "d1"}]
    task = files_task(iter(rows), iter([{"qid": "q", "text": "b"}]), iter(judged))
    assert task.metadata.name == files_task(rows, {"q": "b"}, judged).metadata.name
    want = content(task)
    task.unload_data()
    task.load_data()
    assert content(task) == want


def test_a_column_of_the_queries_names_their_clusters_and_else_their_documents_do() -> None:
    corpus = {f"d{i}": f"text {i}" for i in range(3)}
    clusters = ("Monday", "Monday", None, "")
    queries = [{"id": f"q{i}", "text": "a", "cluster": cluster} for i, cluster in enumerate(clusters)]
    judged = {"q0": {"d0": 1}, "q1": {"d1": 1}, "q2": {"d2": 1, "d1": 2, "d0": 0}, "q3": {"d2": 1}}
    (split,) = splits_of(files_task(corpus, queries, judged))
    monday = ["cluster Monday"]
    assert split.clusters == {"q0": monday, "q1": monday, "q2": ["d1", "d2"], "q3": ["d2"]}
