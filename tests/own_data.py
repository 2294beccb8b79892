"""Own data on the disk, its judged passages and words, and BM25's result on a task."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mteb
from mteb.results import TaskResult

from mteb_longembed.data.check import Passages, judged_passages, read_corpus, read_judgement_rows
from mteb_longembed.retrieval.words import Words


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
    """The folder with other judgements: query, document, score and perhaps the ends of a passage, with tabs between."""
    columns = ["query-id", "corpus-id", "score", "start", "end"][: rows[0].count("\t") + 1]
    (root / "qrels" / "test.tsv").write_text("\n".join(["\t".join(columns), *rows]) + "\n")
    return root


def bm25(task: Any, **options: Any) -> TaskResult:
    """The result of mteb's BM25."""
    model = mteb.get_model("mteb/baseline-bm25s")
    options = {"cache": None, "co2_tracker": False, "show_progress_bar": False, **options}
    return mteb.evaluate(model, task, **options).task_results[0]


def read_passages(judgements: Path, corpus: Path) -> Passages:
    """The judged passages of two files."""
    documents = {document.id: document for document in read_corpus(corpus)}
    return judged_passages(read_judgement_rows(judgements), documents)


def words_of(texts: Sequence[str], language: str) -> list[list[str]]:
    """The words of each text, as BM25 of ours reads them."""
    words = Words(language)
    return [[word for word, _ in words.of_query(text)] for text in texts]
