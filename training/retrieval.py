"""Documents, queries and right answers, read once and outside mteb's runner."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import mteb
import numpy as np
from datasets import Dataset

import mteb_longembed  # noqa: F401 (makes its tasks known to mteb)

#: The folder with corpus, queries and qrels of QMSum, .jsonl or .jsonl.gz. If it is not set, QMSum is left out.
QMSUM_VARIABLE = "LONGEMBED_QMSUM"


class Retrieval(NamedTuple):
    """Documents, queries and the right documents of each query."""

    name: str
    corpus: Dataset
    queries: Dataset
    right: Mapping[str, set[str]]
    first_only: bool


def generated(task_name: str, length: int) -> Retrieval:
    """One length of a generated task."""
    split = f"test_{length}"
    task = mteb.get_task(task_name, eval_splits=[split])
    task.load_data()
    data = task.dataset["default"][split]
    right = {
        query: {d for d, score in found.items() if score} for query, found in data["relevant_docs"].items()
    }
    return Retrieval(f"{task_name}, {length} tokens", data["corpus"], data["queries"], right, True)


def qmsum(folder: Path, limit: int | None) -> Retrieval:
    """QMSum's full documents."""
    corpus = [
        {"id": row["doc_id"], "title": "", "text": row["text"]} for row in lines(folder / "corpus.jsonl.gz")
    ]
    queries = [{"id": row["qid"], "text": row["text"]} for row in lines(folder / "queries.jsonl.gz")][:limit]
    right: dict[str, set[str]] = {}
    for row in lines(folder / "qrels.jsonl.gz"):
        right.setdefault(row["qid"], set()).add(row["doc_id"])
    return Retrieval("QMSum", Dataset.from_list(corpus), Dataset.from_list(queries), right, False)


def titles(file: Path, n: int) -> Retrieval:
    """Other text: the queries are titles of sections, and the documents are the texts below them."""
    texts: dict[str, list[str]] = {}
    heads: dict[str, list[str]] = {}
    for row in lines(file):
        texts.setdefault(row["source"], []).append(row["text"])
        heads.setdefault(row["source"], []).append(row["title"].rpartition(": ")[2])
    draw = np.random.default_rng(0)
    sources = sorted(source for source, own in texts.items() if 8_000 < sum(map(len, own)) < 40_000)
    sources = [sources[i] for i in draw.permutation(len(sources))[:n]]
    once = [title for source in sources for title in set(heads[source])]
    queries, right = [], {}
    for source in sources:
        # titles that belong to only one document and have at least three words
        own = sorted(
            title for title in set(heads[source]) if once.count(title) == 1 and len(title.split()) > 2
        )
        for title in (own[i] for i in draw.permutation(len(own))[:2]):
            right[f"q{len(queries)}"] = {source}
            queries.append({"id": f"q{len(queries)}", "text": title})
    corpus = [{"id": source, "title": "", "text": "\n\n".join(texts[source])} for source in sources]
    return Retrieval(
        f"titles of {file.name}", Dataset.from_list(corpus), Dataset.from_list(queries), right, False
    )


def lines(file: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file with one JSON object in each line."""
    with (
        gzip.open(file, "rt", encoding="utf-8")
        if file.suffix == ".gz"
        else file.open(encoding="utf-8") as stream
    ):
        yield from map(json.loads, stream)
