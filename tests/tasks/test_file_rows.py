"""Rows of files: each format gives the same rows, and a heading is never taken for data."""

import gzip
import json
from pathlib import Path

import pandas as pd
import pyarrow
import pyarrow.parquet
import pytest

from mteb_longembed.errors import DataError
from mteb_longembed.tasks.data_files import read_documents, read_judgements, read_passages, read_queries

QUERIES = {"q1": "who", "q2": "when"}
DOCUMENTS = {"d1": "in 1969", "d2": "b"}
JUDGED = {"q1": {"d1": 1}, "q2": {"d2": 2}}


def made(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


# ---- passages of judgements ----------------------------------------------------------------------------


@pytest.mark.parametrize("answer", ["1969", "1969.0", "+1"])
@pytest.mark.parametrize("sign", [",", "\t"])
def test_an_answer_of_digits_is_a_text(tmp_path: Path, sign: str, answer: str) -> None:
    documents = made(tmp_path / "d.jsonl", json.dumps({"id": "d1", "text": f"in {answer}"}) + "\n")
    lines = f"qid,docid,score,answer\nq1,d1,1,{answer}\n".replace(",", sign)
    path = made(tmp_path / ("j.csv" if sign == "," else "j.tsv"), lines)
    assert read_passages(path, documents) == {"q1": {"d1": [(3, 3 + len(answer))]}}


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_each_judgement_may_have_a_passage_or_not(tmp_path: Path, ending: str, first: int) -> None:
    documents = made(tmp_path / "d.jsonl", '{"id": "d1", "text": "in 1969"}\n')
    rows = [{"qid": "q1", "docid": "d1"}, {"qid": "q2", "docid": "d1", "answer": "1969"}]
    rows += [{"qid": "q3", "docid": "d1", "start": 0, "end": 2}]
    rows = rows[first:] + rows[:first]
    path = tmp_path / "judged.jsonl"
    if ending == "parquet":
        path = tmp_path / "judged"
        path.mkdir()
        for number, row in enumerate(rows):
            table = pyarrow.Table.from_pylist([row])
            pyarrow.parquet.write_table(table, path / f"test-0000{number}-of-00003.parquet")
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert read_passages(path, documents) == {"q2": {"d1": [(3, 7)]}, "q3": {"d1": [(0, 2)]}}
    assert len(read_judgements(path, {"q1": "a", "q2": "b", "q3": "c"}, DOCUMENTS)) == 3


# ---- lines without a heading ---------------------------------------------------------------------------


@pytest.mark.parametrize("iteration", ["0", "Q0", "1", "0.5", "4.5", "-1"])
@pytest.mark.parametrize("sign", [" ", "\t", ","])
def test_the_second_column_of_trec_may_be_any_number(tmp_path: Path, sign: str, iteration: str) -> None:
    lines = f"q1 0 d1 1\nq2 {iteration} d2 2\n".replace(" ", sign)
    path = made(tmp_path / ("j.csv" if sign == "," else "qrels.txt"), lines)
    assert read_judgements(path, QUERIES, DOCUMENTS) == JUDGED


def test_columns_of_trec_in_another_order_are_refused(tmp_path: Path) -> None:
    path = made(tmp_path / "qrels.txt", "q1 d1 0 1\n")
    rule = (
        r"line 1: expected 0 in the second of four columns, .* query, iteration, document, score, got 'd1'\.$"
    )
    with pytest.raises(DataError, match=rule):
        read_judgements(path, QUERIES, DOCUMENTS)


DOCUMENT_IDS = "_id or id or doc_id or docid"
QUERY_TEXTS = "text or query or query_text"


@pytest.mark.parametrize(
    ("heading", "read", "missing"),
    [
        ("id\tbody", read_documents, "text or contents"),
        ("title\tbody", read_documents, f"{DOCUMENT_IDS}, text or contents"),
        ("key\tcontents", read_documents, DOCUMENT_IDS),
        ("ID\tText", read_documents, f"{DOCUMENT_IDS}, text or contents"),
        ("key\t Text ", read_documents, f"{DOCUMENT_IDS}, text or contents"),
        ("qid\tquestion", read_queries, QUERY_TEXTS),
        ("number\tquery", read_queries, "_id or id or qid or query_id or q_id"),
    ],
)
def test_a_heading_with_one_known_name_is_no_row(tmp_path: Path, heading, read, missing) -> None:
    path = made(tmp_path / "file.tsv", f"{heading}\n1\twords\n")
    with pytest.raises(DataError) as error:
        read(path)
    fields = heading.split("\t")
    assert str(error.value) == f"{path}, line 1: expected a heading with {missing}, got {fields!r}."


def test_a_heading_of_judgements_names_the_column_that_is_missing(tmp_path: Path) -> None:
    path = made(tmp_path / "j.csv", "qid,document,score\nq1,d1,1\n")
    rule = (
        r"line 1: expected a heading with corpus-id or corpus_id or doc_id or docid, got \['qid', 'document'"
    )
    with pytest.raises(DataError, match=rule):
        read_judgements(path, QUERIES, DOCUMENTS)


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_a_column_without_a_name_is_called_so(tmp_path: Path, ending: str) -> None:
    frame = pd.DataFrame({"id": ["d1"], "text": ["a"]})
    path = tmp_path / f"docs.{ending}"
    frame.to_csv(path, sep="," if ending == "csv" else "\t")
    with pytest.raises(DataError) as error:
        read_documents(path)
    told = "expected a name for each column, but column 1 has none"
    assert str(error.value) == f"{path}, line 1: {told} (pandas writes an index so: use to_csv(index=False))."
    frame.to_csv(path, sep="," if ending == "csv" else "\t", index=False)
    assert read_documents(path) == {"d1": "a"}
    path.write_text("id,text,,\nd1,a,,\n".replace(",", "," if ending == "csv" else "\t"))
    with pytest.raises(DataError, match=r"but column 3 has none"):
        read_documents(path)


# ---- numbers and endings -------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
def test_whole_numbers_may_be_written_with_a_point(tmp_path: Path, ending: str) -> None:
    documents = made(tmp_path / "d.jsonl", '{"id": "d1", "text": "in 1969"}\n{"id": "d2", "text": "b"}\n')
    frame = pd.DataFrame({"qid": ["q1", "q2"], "docid": ["d1", "d2"], "score": [1.0, 2.0]})
    frame["start"] = [3.0, None]
    frame["end"] = [7.0, None]
    path = tmp_path / f"judged.{ending}"
    if ending == "parquet":
        frame.to_parquet(path)
    elif ending == "jsonl":
        rows = [{"qid": "q1", "docid": "d1", "score": 1.0, "start": 3.0, "end": 7.0}]
        rows += [{"qid": "q2", "docid": "d2", "score": 2.0}]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        frame.to_csv(path, sep="," if ending == "csv" else "\t", index=False)
    assert read_judgements(path, QUERIES, DOCUMENTS) == JUDGED
    assert read_passages(path, documents) == {"q1": {"d1": [(3, 7)]}}


@pytest.mark.parametrize("number", ["1.5", "1.", "1.0.0", ".0", "1e0", "1.00000001", "one"])
def test_other_numbers_are_no_scores(tmp_path: Path, number: str) -> None:
    path = made(tmp_path / "judged.csv", f"qid,docid,score\nq1,d1,{number}\n")
    with pytest.raises(DataError, match=rf"line 2: the score must be an integer .* got '{number}'"):
        read_judgements(path, QUERIES, DOCUMENTS)


@pytest.mark.parametrize("name", ["D.CSV", "d.Csv.GZ", "D.JSONL", "D.TSV", "D.PARQUET", "folder"])
def test_endings_may_be_written_in_capitals(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    tables = {".csv": 'id,text\nd1,"a, b"\n', ".tsv": "id\ttext\nd1\ta, b\n"}
    tables[".jsonl"] = '\n{"id": "d1", "text": "a, b"}\n'
    ending = Path(name.lower().removesuffix(".gz")).suffix
    if ending in tables:
        content = tables[ending].encode()
        path.write_bytes(gzip.compress(content) if name.endswith("GZ") else content)
    else:
        table = pyarrow.Table.from_pylist([{"id": "d1", "text": "a, b"}])
        file = path
        if not ending:
            path.mkdir()
            file = path / "TRAIN.PARQUET"
        pyarrow.parquet.write_table(table, file)
    assert read_documents(path) == {"d1": "a, b"}
