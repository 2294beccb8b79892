"""The texts of a task as models read them, and a hash of its data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from datasets import Dataset

from mteb_longembed.mteb_compat import query_batches
from mteb_longembed.values import ENGLISH

if TYPE_CHECKING:
    from mteb.abstasks.retrieval import AbsTaskRetrieval
    from mteb.abstasks.task_metadata import TaskMetadata

# Only the cut-offs in the paper's tables. mteb's default goes up to 1,000, which made search and scoring on NarrativeQA
# six times slower and fills result files with unused scores.
K_VALUES = (1, 3, 5, 10)


def data_identity(task: AbsTaskRetrieval, split: str, subsets: Sequence[str] | None = None) -> str:
    """Return a hash of the data of a split: documents, queries, judgements and candidates.

    It depends on the content, not on a name or a revision, so the same data in another format have the same hash. In
    data with judgements, only judged queries count.
    """
    digest = hashlib.sha256(split.encode())

    def add(*fields: object) -> None:
        for field in fields:
            text = field if isinstance(field, str) else json.dumps(field, sort_keys=True)
            digest.update(with_length(text))

    for subset in subsets or task.hf_subsets:
        data = task.dataset[subset][split]
        add(subset, task.metadata.eval_langs)
        corpus = data["corpus"]
        queries = data["queries"]
        judged = any(data["relevant_docs"].values())
        for rows, columns in ((corpus, ("title", "text")), (queries, ("text", "instruction"))):
            is_corpus = rows is corpus
            add(is_corpus)
            present = [name for name in ("id", *columns) if name in rows.column_names]
            for batch in rows.select_columns(present).iter(batch_size=256):
                for values in zip(*(batch[name] for name in present), strict=True):
                    # mteb drops the other queries
                    if is_corpus or not judged or data["relevant_docs"].get(values[0]):
                        add(*values)
        for query, documents in sorted(data["relevant_docs"].items()):
            if documents:
                add(query, documents)
        for query, names in sorted((data["top_ranked"] or {}).items()):
            add(query, sorted(names))
    return digest.hexdigest()


def with_length(text: str) -> bytes:
    """Return a text after its length, so that a hash of several texts tells where each one ends."""
    raw = text.encode("utf-8", "surrogatepass")
    return b"%d:%b" % (len(raw), raw)


def texts_of(rows: Dataset) -> Iterator[list[str]]:
    """Yield the documents of a corpus in batches, as models read them, title first."""
    columns = [name for name in ("title", "text") if name in rows.column_names]
    for batch in rows.select_columns(columns).iter(batch_size=64):
        yield [" ".join(filter(None, values)).strip() for values in zip(*batch.values(), strict=True)]


def query_texts(rows: Dataset, metadata: TaskMetadata) -> list[str]:
    """Return queries as models read them: with their instructions, and conversations as one text."""
    if not len(rows):
        return []
    if "instruction" not in rows.column_names and isinstance(rows["text"][0], str):
        return list(rows["text"])
    batches = query_batches(rows, metadata)
    return [text for batch in batches for text in batch["text"]]


def language_of(metadata: TaskMetadata, subset: str) -> str:
    """Return the language of a subset's texts; English if there are several, as in mteb's BM25."""
    languages = metadata.eval_langs
    if isinstance(languages, dict):
        languages = languages.get(subset, [])
    codes = {language.partition("-")[0]: language for language in languages}
    if len(codes) == 1:
        return next(iter(codes.values()))
    return ENGLISH
