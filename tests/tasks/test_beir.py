"""A task from local files: which files of a folder are read."""

import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

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
