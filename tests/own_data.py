"""Own data: small tables, writers of each format, words, and BM25's result on a task."""

import csv
import gzip
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mteb
import pyarrow
import pyarrow.parquet
from mteb.results import TaskResult

from mteb_longembed.retrieval.analyzer import Analyzer, Language

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


BYTES: dict[str, Callable[[Rows], bytes]] = {
    ".jsonl": json_lines,
    ".jsonl.gz": lambda rows: gzip.compress(json_lines(rows, False)),
    ".csv": lambda rows: separated(rows, ","),
    ".tsv": lambda rows: separated(rows, "\t"),
}


def write(root: Path, documents: Rows, queries: Rows, judged: Rows, ending: str = ".jsonl") -> Path:
    """A folder with all three in one format; with `.trec`, judgements as in TREC, and the rest JSON Lines."""
    root.mkdir(parents=True, exist_ok=True)
    tables = {"corpus": documents, "queries": queries, "qrels": judged}
    for name, rows in tables.items():
        if ending == ".parquet":
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), root / f"{name}.parquet")
        elif ending == ".trec" and name == "qrels":
            bare = (f"{row['query-id']} 0 {row['corpus-id']}\t{row['score']}\n" for row in rows)
            (root / "qrels.trec").write_text("".join(bare), encoding="utf-8")
        elif ending == ".trec":
            (root / f"{name}.jsonl").write_bytes(json_lines(rows))
        else:
            (root / f"{name}{ending}").write_bytes(BYTES[ending](rows))
    return root


def content(task: Any, split: str = "test") -> tuple[Any, ...]:
    data = task.dataset["default"][split]
    return data["corpus"][:], data["queries"][:], data["relevant_docs"]


DOCUMENTS: Rows = [{"_id": f"d{i}", "title": "", "text": f"word{i} word{i + 1}"} for i in range(6)]
QUERY_ROWS: Rows = [{"_id": f"q{i}", "text": f"word{i}"} for i in range(6)]
JUDGED: Rows = [{"query-id": f"q{i}", "corpus-id": f"d{i}", "score": 1} for i in range(6)]
HEADING = "query-id\tcorpus-id\tscore\n"
LINES = "".join(f"q{i}\td{i}\t1\n" for i in range(6))


def beir(root: Path, texts: Sequence[str], queries: Sequence[str]) -> Path:
    """A folder where query i is answered by document i alone."""
    (root / "qrels").mkdir(parents=True, exist_ok=True)
    for name, sign, rows in (("corpus", "d", texts), ("queries", "q", queries)):
        lines = [json.dumps({"_id": f"{sign}{i}", "text": text}) for i, text in enumerate(rows)]
        (root / f"{name}.jsonl").write_text("\n".join(lines))
    pairs = "".join(f"q{i}\td{i}\t1\n" for i in range(len(queries)))
    (root / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + pairs)
    return root


def judge(root: Path, *rows: str) -> Path:
    """The folder with other judgements: query, document and score, with tabs between."""
    columns = ["query-id", "corpus-id", "score"]
    (root / "qrels" / "test.tsv").write_text("\n".join(["\t".join(columns), *rows]) + "\n")
    return root


def bm25(task: Any, **options: Any) -> TaskResult:
    """The result of mteb's BM25."""
    model = mteb.get_model("mteb/baseline-bm25s")
    options = {"cache": None, "co2_tracker": False, "show_progress_bar": False, **options}
    return mteb.evaluate(model, task, **options).task_results[0]


def terms_of(texts: Sequence[str], language: str) -> list[list[str]]:
    """The words of each text, as our BM25 reads them."""
    words = Analyzer(Language.of(language))
    return [[word for word, _ in words.query_terms(text)] for text in texts]
