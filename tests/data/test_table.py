"""Tables from files and folders: each format gives the same rows."""

import gzip
import json
import os
import random
import sys
import tempfile
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import polars
import pyarrow
import pyarrow.dataset
import pyarrow.parquet
import pytest
from datasets import Dataset

from mteb_longembed.data.check import read_corpus, read_documents, read_judgements, read_queries
from mteb_longembed.data.task import beir_task, files_task
from mteb_longembed.data.text_table import stored_table
from mteb_longembed.errors import DataError
from tests.own_data import DOCUMENTS, JUDGED, QUERY_ROWS, content, json_lines, write

ASKED = {"q1": "who", "q2": "when"}
KNOWN = {"d1": "in 1969", "d2": "b"}
GRADES = {"q1": {"d1": 1}, "q2": {"d2": 2}}


def made(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def saved(frame: pd.DataFrame, path: Path, **options: Any) -> Path:
    """A file of the format that its ending says."""
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.suffix == ".jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, sep="," if path.suffix == ".csv" else "\t", **{"index": False, **options})
    return path


def read_judged(path: Path) -> dict[str, dict[str, int]]:
    return read_judgements(path, ASKED, KNOWN)


# ---- columns -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "sign"), [("qrels.trec", " "), ("qrels.txt", "\t"), ("qrels", "  ")])
def test_trec_s_judgements_have_no_heading_and_any_second_column(tmp_path, sign, name) -> None:
    lines = "q1 0 d1 1\nq2 Q0 d2 2\n".replace(" ", sign)
    assert read_judged(made(tmp_path / name, lines)) == GRADES


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_the_index_that_pandas_writes_is_no_column_of_ours(tmp_path: Path, ending: str) -> None:
    frame = pd.DataFrame({"id": ["d1"], "text": ["a"]})
    assert read_documents(saved(frame, tmp_path / f"docs.{ending}", index=True)) == {"d1": "a"}


# ---- numbers and endings -------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
def test_whole_numbers_may_be_written_with_a_point(tmp_path: Path, ending: str) -> None:
    frame = pd.DataFrame({"qid": ["q1", "q2"], "docid": ["d1", "d2"], "score": [1.0, 2.0]})
    path = saved(frame, tmp_path / f"judged.{ending}")
    assert read_judged(path) == GRADES


@pytest.mark.parametrize("name", ["d.csv", "d.jsonl", "d.tsv", "d.parquet"])
def test_endings_may_be_written_in_capitals(tmp_path: Path, name: str) -> None:
    path = saved(pd.DataFrame([{"id": "d1", "text": "a, b"}]), tmp_path / name)
    assert read_documents(path.rename(tmp_path / name.upper())) == {"d1": "a, b"}
    if name != "d.parquet":
        (tmp_path / f"{name}.GZ").write_bytes(gzip.compress((tmp_path / name.upper()).read_bytes()))
        assert read_documents(tmp_path / f"{name}.GZ") == {"d1": "a, b"}


# ---- other forms ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda good: good.rstrip(b"\n"),
        lambda good: good.replace(b"\n", b"\r\n"),
        lambda good: b"\xef\xbb\xbf" + good,
        lambda good: good + b"\n\n",
    ],
    ids=["no last newline", "windows", "byte order mark", "blank lines"],
)
@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".tsv"])
def test_what_people_s_files_look_like_is_accepted(tmp_path: Path, change: Any, ending: str) -> None:
    good = content(beir_task(write(tmp_path / "good", DOCUMENTS, QUERY_ROWS, JUDGED)))
    root = write(tmp_path / "other", DOCUMENTS, QUERY_ROWS, JUDGED, ending)
    for path in root.iterdir():
        path.write_bytes(change(path.read_bytes()))
    assert content(beir_task(root)) == good


def test_a_csv_text_may_be_longer_than_pythons_limit(tmp_path: Path) -> None:
    root = write(tmp_path, [{"_id": "d0", "text": "long \n" * 50_000}], QUERY_ROWS[:1], JUDGED[:1], ".csv")
    assert len(content(beir_task(root))[0]["text"][0]) == 299_998


def test_a_folder_of_text_files_reads_as_json_lines_with_their_paths_as_ids(tmp_path) -> None:
    texts = {"a.txt": "One.\nTwo.\n", "more/b.md": "# Title\n\nText.", "more/é.TXT": ""}
    for name, text in {**texts, ".git/c.txt": "hidden", ".d.md": "hidden", "e.pdf": "no text"}.items():
        path = tmp_path / "docs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    lines = tmp_path / "docs.jsonl"
    lines.write_bytes(json_lines([{"_id": name, "text": texts[name]} for name in sorted(texts)]))
    assert read_documents(tmp_path / "docs") == read_documents(lines)
    (tmp_path / "docs" / "a.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match=r"docs/a\.txt: expected UTF-8 text"):
        read_documents(tmp_path / "docs")


#: More than are in memory at the same time.
MANY = [{"id": f"d{number}", "title": "One", "text": f"text {number}"} for number in range(700)]


def shards(folder: Path) -> Path:
    folder.mkdir()
    for number, start in enumerate(range(0, len(MANY), 300)):
        pd.DataFrame(MANY[start : start + 300]).to_parquet(folder / f"part-{number}.parquet")
    return folder


class OnlyStream:
    """A table with nothing but Arrow's PyCapsule interface, as a relation of DuckDB has it."""

    def __init__(self, table: Any) -> None:
        self.__arrow_c_stream__ = table.__arrow_c_stream__


MANY_FORMS: dict[str, Any] = {
    "arrow": lambda path: pyarrow.Table.from_pylist(MANY),
    "data set": lambda path: Dataset.from_list(MANY).with_format("numpy"),
    "frame": lambda path: pd.DataFrame(MANY),
    "dict of beir": lambda path: {row["id"]: row for row in MANY},
    "generator": lambda path: iter(MANY),
    "list": lambda path: MANY,
    "streamed data set": lambda path: Dataset.from_list(MANY).to_iterable_dataset().with_format("arrow"),
    "shards": lambda path: shards(path / "shards"),
    "arrow batches": lambda path: iter(pyarrow.Table.from_pylist(MANY).to_batches(300)),
    "arrow batch": lambda path: pyarrow.RecordBatch.from_pylist(MANY),
    "arrow reader": lambda path: pyarrow.Table.from_pylist(MANY).to_reader(300),
    "arrow tables": lambda path: [pyarrow.Table.from_pylist(MANY[:1]), pyarrow.Table.from_pylist(MANY[1:])],
    "arrow data set": lambda path: pyarrow.dataset.dataset(shards(path / "shards")).to_batches(),
    "structs": lambda path: pyarrow.chunked_array([MANY[:300], MANY[300:]]),
    "parquet batches": lambda path: pyarrow.parquet.ParquetFile(
        saved(pd.DataFrame(MANY), path / "d.parquet")
    ).iter_batches(300),
    "frames": lambda path: pd.read_csv(saved(pd.DataFrame(MANY), path / "d.csv"), chunksize=300),
    "polars": lambda path: polars.DataFrame(MANY),
    "polars lazy": lambda path: polars.scan_parquet(saved(pd.DataFrame(MANY), path / "d.parquet")),
    "stream": lambda path: OnlyStream(pyarrow.Table.from_pylist(MANY)),
    "json lines": lambda path: made(path / "d.jsonl", "".join(f"{json.dumps(row)}\n" for row in MANY)),
}


@pytest.mark.parametrize("form", MANY_FORMS)
def test_streams_and_shards_are_read_as_tables_are(tmp_path: Path, form: str) -> None:
    source = MANY_FORMS[form](tmp_path)
    assert read_documents(source) == {row["id"]: f"One {row['text']}" for row in MANY}


@pytest.mark.parametrize("form", ["reader", "iterator", "capsule"])
def test_no_more_than_a_few_batches_of_a_stream_are_read_ahead(form: str) -> None:
    """A counting reader: a row that is read needs its own batch, and none of the 90 behind it."""
    made_batches = 0
    schema = pyarrow.schema([("id", pyarrow.string()), ("text", pyarrow.string())])

    def batches() -> Iterator[pyarrow.RecordBatch]:
        nonlocal made_batches
        for number in range(100):
            made_batches += 1
            yield pyarrow.record_batch([[f"d{number}"], ["a"]], schema=schema)

    reader = pyarrow.RecordBatchReader.from_batches(schema, batches())
    sources: dict[str, Any] = {
        "reader": reader,
        "iterator": batches(),
        "capsule": OnlyStream(reader),
    }
    rows = read_corpus(sources[form])
    for number in range(10):
        assert next(rows).id == f"d{number}"
        assert made_batches <= number + 2
    assert len(list(rows)) == 90


def test_a_parquet_file_is_never_all_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "docs.parquet"
    text = pyarrow.array([random.Random(0).randbytes(50_000).hex()])
    with pyarrow.parquet.ParquetWriter(path, pyarrow.schema([("id", "string"), ("text", "string")])) as file:
        for number in range(100):
            file.write_table(pyarrow.table({"id": [f"d{number}"], "text": text}))
    before = pyarrow.total_allocated_bytes()
    most = 0
    for _ in read_corpus(path):
        most = max(most, pyarrow.total_allocated_bytes() - before)
    assert most < 3_000_000, "of 10 MB of text"


def test_queries_and_judgements_may_be_streams_too() -> None:
    queries = pyarrow.Table.from_pylist([{"qid": "q1", "query": "who"}, {"qid": "q2", "query": "when"}])
    judged = polars.LazyFrame({"qid": ["q1", "q2"], "docid": ["d1", "d2"], "score": [1, 2]})
    corpus = pyarrow.Table.from_pylist([{"id": "d1", "text": "in 1969"}, {"id": "d2", "text": "b"}])
    task = files_task(corpus.to_reader(), queries.to_reader(1), judged)
    assert content(task)[1]["text"][:] == ["who", "when"]
    assert task.dataset["default"]["test"]["relevant_docs"] == GRADES
    task.unload_data()
    task.load_data()
    assert task.dataset["default"]["test"]["relevant_docs"] == GRADES


def test_a_stream_that_breaks_off_is_one_sentence() -> None:
    schema = pyarrow.schema([("id", pyarrow.string()), ("text", pyarrow.string())])

    def batches() -> Iterator[pyarrow.RecordBatch]:
        yield pyarrow.record_batch([["d1"], ["a"]], schema=schema)
        raise OSError("the disk is gone")

    source = pyarrow.RecordBatchReader.from_batches(schema, batches())
    with pytest.raises(
        DataError, match=r"^the corpus: expected a readable RecordBatchReader, got: .* gone.*\.$"
    ):
        read_documents(source)


def test_a_lazy_table_that_cannot_be_computed_is_one_sentence() -> None:
    source = polars.LazyFrame({"id": ["d1"], "text": ["a"]}).with_columns(polars.col("nope"))
    with pytest.raises(DataError, match=r"^the corpus: expected a readable LazyFrame, got: .*nope[^\n]*\.$"):
        read_documents(source)


TWICE = ["id", "text", "text"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (["a", "b"], "^the corpus, row 1: expected a dict with the names of columns, got a str"),
        (
            pyarrow.array(["a"]),
            "^the corpus, row 1: expected a dict with the names of columns, got a StringScalar",
        ),
        (
            7,
            "^the corpus: expected a file, a folder, a dict, a table, or an iterable of rows or tables, got a int",
        ),
        (pyarrow.chunked_array([["a"]]), "^the corpus: expected a table with columns, got a ChunkedArray"),
        (iter([pd.Series(["a"])]), "^the corpus: expected a table with columns, got a Series"),
        (pyarrow.dataset.dataset([]), "or an iterable of rows or tables, got a FileSystemDataset"),
        ({"train": Dataset.from_dict({"id": ["a"]})}, "row 1: the text must be a text, got Dataset"),
        (iter([]), "^the corpus: expected rows, got none"),
        (iter([*MANY[:600], {"id": "x", "text": 5}]), "^the corpus, row 601: the text must be a text, got 5"),
        (pd.DataFrame([["d1", "a", "b"]], columns=TWICE), "expected each column once"),
        (pd.DataFrame([["a"]], columns=pd.MultiIndex.from_tuples([("id", 1)])), "expected each column once"),
        (pyarrow.table([["d1"], ["a"], ["b"]], names=TWICE), "expected each column once"),
    ],
)
def test_what_is_no_table_is_one_sentence(source, message) -> None:
    with pytest.raises(DataError, match=message):
        read_documents(source)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("queries.parquet", "the shards of one table .*, got queries.parquet: give the path"),
        ("part-9.parquet", r"shards/part-9\.parquet, row 1: expected each id once, got 'd0'"),
    ],
)
def test_a_folder_of_tables_has_the_shards_of_one(tmp_path: Path, name: str, message: str) -> None:
    folder = shards(tmp_path / "shards")
    pd.DataFrame(MANY[:1]).to_parquet(folder / name)
    with pytest.raises(DataError, match=message):
        read_documents(folder)


def test_a_folder_without_an_ending_that_is_read_names_those_that_are(tmp_path: Path) -> None:
    for name in ("a.vtt", "b.pdf", "c.pdf"):
        (tmp_path / name).write_text("x")
    with pytest.raises(DataError, match=r"\(\.txt, \.md\) .*, got a\.vtt, b\.pdf, c\.pdf"):
        read_documents(tmp_path)


# ---- too much and too little: read or refused with the row ------------------------------------------------

WANT = {"d1": "a", "d2": "b", "d3": "c"}
FRAME = pd.DataFrame({"id": list(WANT), "text": list(WANT.values())})


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame.set_index(["id", "text"]),
        lambda frame: frame.set_index(["id", frame.index]),
    ],
    ids=["all in the index", "two levels"],
)
@pytest.mark.parametrize("form", ["parquet", "frame"])
def test_an_index_does_not_matter_and_its_names_are_columns(tmp_path: Path, form: str, change: Any) -> None:
    source = change(FRAME)
    if form == "parquet":
        source.to_parquet(tmp_path / "docs.parquet")
        source = tmp_path / "docs.parquet"
    assert read_documents(source) == WANT
    assert read_documents(FRAME.set_index("id", drop=False)) == WANT


_CUT = gzip.compress(b"id,text\n" + b"".join(b"d%d,a\n" % i for i in range(900)), mtime=0)[:-12]
#: Who reads a file, its name, its content, and the rule that its message must name.
HOSTILE: list[tuple[Any, str, str | bytes, str]] = [
    (read_queries, "d.tsv", "number\tquery\n1\ta\n", "must be in a column _id or id or qid or query_id or q_id, got"),
    (read_judged, "d.csv", "qid,docid,score\nq1,d1,1.00000001\n", "row 1: the score must be an integer"),
    (read_documents, "d.xlsx", "a", r"its ending must be one of \.jsonl, .*\.parquet, got '\.xlsx'"),
    (read_documents, "d.parquet", "PAR1 nothing", r"expected a readable \.parquet file"),
    (read_documents, "d.csv", "id,text,text\nd1,a,b\n", "expected each column once"),
    (read_documents, "d.tsv", "id\ttext\ttext\nd1\ta\tb\n", "expected each column once"),
    (read_documents, "d.csv.gz", _CUT, "the gzip file is cut off or damaged"),
    (read_documents, "d.csv", "id,text\nd1,a\nd2,b,c\n", r"row 2: expected 2 values \(id, text\)"),
    (read_documents, "d.csv", 'id,text\nd1,a\nd2,"b', r"expected a readable \.csv file, got: unexpected end of data"),
    (read_documents, "d.csv", 'id,text\nd1,"a" b\n', r"expected a readable \.csv file"),
    (read_documents, "d.tsv", 'id\ttext\nd1\t"a\nb"\n', r"row 2: expected 2 values"),
    (read_judged, "j.trec", "q2 0 d2 2\nq1 Q0 d1 1 12.5 run\n", "row 2: expected 4 values .* got 6"),
]  # fmt: skip


@pytest.mark.parametrize(("read", "name", "content", "message"), HOSTILE)
def test_a_file_that_breaks_a_rule_is_one_sentence_with_its_row(
    tmp_path, read, name, content, message
) -> None:
    path = made(tmp_path / name, content)
    with pytest.raises(DataError, match=message) as error:
        read(path)
    assert str(error.value).startswith(str(path)) and str(error.value).endswith(".")
    assert "\n" not in str(error.value)


def test_the_key_of_a_dict_is_the_id_of_its_document() -> None:
    assert read_documents({"d1": {"_id": "x", "id": "y", "text": "a"}}) == {"d1": "a"}


def test_texts_on_disk_leave_no_file_behind(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    rows = [(f"d{number}", f"text {number}") for number in range(700)]
    table = stored_table(iter(rows))
    assert list(tmp_path.iterdir()) == []
    assert list(zip(table["id"], table["text"], strict=True)) == rows and len(stored_table([])) == 0


# ---- names of files ------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_a_name_of_a_file_that_is_not_utf_8_is_refused_by_name(tmp_path: Path) -> None:
    made(tmp_path / os.fsdecode(b"caf\xe9.txt"), "a")
    with pytest.raises(DataError, match=r"the id must be a text .*, got 'caf\\udce9\.txt'"):
        read_documents(tmp_path)


def test_a_name_in_parts_of_letters_is_the_id_with_whole_letters(tmp_path: Path) -> None:
    made(tmp_path / unicodedata.normalize("NFD", "Müller.txt"), "a")
    documents = read_documents(tmp_path)
    assert list(documents) == ["Müller.txt"]
    assert read_judgements({"q1": {"Müller.txt": 1}}, ASKED, documents) == {"q1": {"Müller.txt": 1}}
