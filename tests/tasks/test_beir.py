"""A task from local files: which files of a folder are read."""

import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from mteb_longembed.errors import DataError
from mteb_longembed.tasks.beir import beir_task

ROWS = {
    "corpus": [{"_id": f"d{i}", "text": f"word{i}"} for i in range(4)],
    "queries": [{"_id": f"q{i}", "text": f"word{i}"} for i in range(4)],
    "qrels": [{"query-id": f"q{i}", "corpus-id": f"d{i}", "score": 1} for i in range(4)],
}


def json_lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def write(root: Path) -> Path:
    root.mkdir(exist_ok=True)
    for name, rows in ROWS.items():
        (root / f"{name}.jsonl").write_text(json_lines(rows))
    return root


def write_shards(root: Path, name: str, files: dict[str, list[int]]) -> None:
    """Replace a file by Parquet files of some of its rows."""
    (root / f"{name}.jsonl").unlink(missing_ok=True)
    (root / name).mkdir(exist_ok=True)
    for file, chosen in files.items():
        table = pyarrow.Table.from_pylist([ROWS[name][i] for i in chosen])
        pyarrow.parquet.write_table(table, root / name / file)


@pytest.mark.parametrize("ending", [".parquet", "-0123456789abcdef.parquet", ".PARQUET"])
@pytest.mark.parametrize("name", ["corpus", "queries", "qrels"])
def test_all_shards_of_a_split_are_read_and_no_other_split(tmp_path: Path, name: str, ending: str) -> None:
    expected = beir_task(write(tmp_path), ["test"]).dataset["default"]["test"]
    files = {f"train-0000{i}-of-00002{ending}": [2 * i, 2 * i + 1] for i in range(2)}
    files |= {f"test-00000-of-00001{ending}": [0], f"train2-00000-of-00001{ending}": [0]}
    files |= {f"train-new-0000{i}-of-00002{ending}": [i] for i in range(2)}
    write_shards(tmp_path, name, files)
    read = beir_task(tmp_path, ["train"]).dataset["default"]["train"]
    assert read["corpus"][:] == expected["corpus"][:]
    assert read["queries"][:] == expected["queries"][:]
    assert read["relevant_docs"] == expected["relevant_docs"]


@pytest.mark.parametrize("other", [{}, {"test-00000-of-00001.parquet": [0]}])
def test_a_shard_that_is_missing_is_noticed(tmp_path: Path, other: dict[str, list[int]]) -> None:
    write_shards(write(tmp_path), "corpus", {"train-00000-of-00003.parquet": [0, 1, 2, 3], **other})
    rule = r"corpus: expected 3 files of train, found train-00000-of-00003\.parquet"
    with pytest.raises(DataError, match=rule):
        beir_task(tmp_path, ["train"])


def test_a_mistake_in_a_shard_is_named_with_the_shards(tmp_path: Path) -> None:
    files = {f"train-0000{i}-of-00002.parquet": [0] for i in range(2)}
    write_shards(write(tmp_path), "corpus", {**files, "test.parquet": [0]})
    rule = r"corpus/train-\?{5}-of-00002\*\.parquet, row 2: expected each id once, got 'd0' again"
    with pytest.raises(DataError, match=rule):
        beir_task(tmp_path, ["train"])


@pytest.mark.parametrize("name", ["corpus.JSONL", "corpus.Jsonl", "corpus/TEST.PARQUET", "corpus.PARQUET"])
def test_files_are_found_whose_endings_are_in_capitals(tmp_path: Path, name: str) -> None:
    expected = beir_task(write(tmp_path)).dataset["default"]["test"]["corpus"][:]
    (tmp_path / "corpus.jsonl").unlink()
    (tmp_path / name).parent.mkdir(exist_ok=True)
    if name.lower().endswith(".jsonl"):
        (tmp_path / name).write_text(json_lines(ROWS["corpus"]))
    else:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS["corpus"]), tmp_path / name)
    assert beir_task(tmp_path).dataset["default"]["test"]["corpus"][:] == expected
