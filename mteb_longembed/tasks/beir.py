"""A retrieval task from a folder in BEIR's file format, for data sets that mteb does not have."""

from __future__ import annotations

import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from datasets import Dataset
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData

from mteb_longembed.errors import DataError
from mteb_longembed.tasks.jsonl import read_rows
from mteb_longembed.tasks.metadata import K_VALUES, LongEmbedMetadata


def beir_task(folder: str | Path, split: str = "test") -> AbsTaskRetrieval:
    """The task in a folder with `corpus.jsonl`, `queries.jsonl` (both also `.gz`) and `qrels/SPLIT.tsv`.

    Source: BEIR, https://github.com/beir-cellar/beir: {_id, title, text}, {_id, text}, and lines with tabs
    between query id, document id and score, under a heading. Queries without judgements there are left out.

    Raises:
        DataError: a file is missing or damaged, or the judgements name an unknown query or document.
    """
    root = Path(folder).resolve()
    for name in ("corpus.jsonl", "queries.jsonl", f"qrels/{split}.tsv"):
        _find(root, name)
    metadata = LongEmbedMetadata(
        name=root.name,
        description="Read from a folder in BEIR's file format.",
        dataset={"path": root.name, "revision": "local"},
        type="Retrieval",
        category="t2t",
        modalities=["text"],
        eval_splits=[split],
        eval_langs=["eng-Latn"],
        main_score="ndcg_at_10",
    )
    body = {"metadata": metadata, "folder": root}
    return types.new_class("BeirFolder", (_BeirFolder,), exec_body=lambda names: names.update(body))()


class _BeirFolder(AbsTaskRetrieval):
    folder: Path
    k_values = K_VALUES

    def load_data(self, num_proc: int | None = None, **kwargs: Any) -> None:
        if self.data_loaded:
            return
        (split,) = self.metadata.eval_splits
        documents = read_rows(
            _find(self.folder, "corpus.jsonl"), ("_id", "title", "text"), blank=("title", "text")
        )
        corpus = {row["_id"]: f"{row['title']} {row['text']}".strip() for _, row in documents}
        asked = read_rows(_find(self.folder, "queries.jsonl"), ("_id", "text"))
        queries = {row["_id"]: row["text"] for _, row in asked}
        path = _find(self.folder, f"qrels/{split}.tsv")
        judgements: dict[str, dict[str, int]] = {}
        for number, query, document, score in _judgements(path):
            for what, name, known in (("query", query, queries), ("document", document, corpus)):
                if name not in known:
                    raise DataError(f"{path}, line {number}: expected the id of a {what}, got {name!r}.")
            judgements.setdefault(query, {})[document] = score
        judged = [name for name in queries if name in judgements]
        self.dataset = {
            "default": {
                split: RetrievalSplitData(
                    corpus=Dataset.from_dict({"id": list(corpus), "text": list(corpus.values())}),
                    queries=Dataset.from_dict({"id": judged, "text": [queries[name] for name in judged]}),
                    relevant_docs=judgements,
                    top_ranked=None,
                )
            }
        }
        self.data_loaded = True


def _find(root: Path, name: str) -> Path:
    for ending in ("", ".gz"):
        if (root / (name + ending)).is_file():
            return root / (name + ending)
    raise DataError(f"{root}: expected a folder in BEIR's format, it has no {name}.")


def _judgements(path: Path) -> Iterator[tuple[int, str, str, int]]:
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    for number, line in enumerate(lines, start=1):
        fields = line.split("\t")
        try:
            query, document, score = fields[0], fields[1], int(fields[2])
        except (IndexError, ValueError):
            if number == 1 or not line.strip():
                continue  # the heading, or a blank line at the end
            raise DataError(
                f"{path}, line {number}: expected query id, document id and a whole number, divided by tabs, "
                f"got {line[:60]!r}."
            ) from None
        yield number, query, document, score
