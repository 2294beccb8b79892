"""Own data: small tables, and writers of each format."""

import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

Rows = list[dict[str, Any]]


def json_lines(rows: Rows, ascii_only: bool = True) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=ascii_only) + "\n" for row in rows).encode()


def separated(rows: Rows, sign: str) -> bytes:
    lines = [list(rows[0]), *([str(value) for value in row.values()] for row in rows)]
    if sign == "\t":
        return "".join("\t".join(line) + "\n" for line in lines).encode()
    made = io.StringIO(newline="")
    csv.writer(made, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(lines)
    return made.getvalue().encode()


def parquet(rows: Rows, path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)


BYTES: dict[str, Callable[[Rows], bytes]] = {
    "corpus.jsonl": json_lines,
    "corpus.jsonl.gz": lambda rows: gzip.compress(json_lines(rows, False)),
    "corpus.csv": lambda rows: separated(rows, ","),
    "corpus.tsv": lambda rows: separated(rows, "\t"),
}


def write(root: Path, documents: Rows, queries: Rows, judged: Rows, ending: str = ".jsonl") -> Path:
    """A folder with all three in one format; with `.trec`, judgements as in TREC, and the rest JSON Lines."""
    root.mkdir(parents=True, exist_ok=True)
    tables = {"corpus": documents, "queries": queries, "qrels": judged}
    for name, rows in tables.items():
        if ending == ".parquet":
            parquet(rows, root / f"{name}.parquet")
        elif ending == ".trec" and name == "qrels":
            bare = (f"{row['query-id']} 0 {row['corpus-id']}\t{row['score']}\n" for row in rows)
            (root / "qrels.trec").write_text("".join(bare), encoding="utf-8")
        elif ending == ".trec":
            (root / f"{name}.jsonl").write_bytes(json_lines(rows))
        else:
            (root / f"{name}{ending}").write_bytes(BYTES[f"corpus{ending}"](rows))
    return root


def content(task: Any, split: str = "test") -> tuple[Any, ...]:
    data = task.dataset["default"][split]
    return data["corpus"][:], data["queries"][:], data["relevant_docs"]


DOCUMENTS: Rows = [{"_id": f"d{i}", "title": "", "text": f"word{i} word{i + 1}"} for i in range(6)]
QUERY_ROWS: Rows = [{"_id": f"q{i}", "text": f"word{i}"} for i in range(6)]
JUDGED: Rows = [{"query-id": f"q{i}", "corpus-id": f"d{i}", "score": 1} for i in range(6)]
HEADING = "query-id\tcorpus-id\tscore\n"
LINES = "".join(f"q{i}\td{i}\t1\n" for i in range(6))
