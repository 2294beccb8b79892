"""A retrieval task from local files, for data that mteb does not have, such as a folder in BEIR's format."""

from __future__ import annotations

import hashlib
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from datasets import Dataset
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData

from mteb_longembed.errors import DataError
from mteb_longembed.tasks.jsonl import first_object, read_rows
from mteb_longembed.tasks.metadata import K_VALUES, LongEmbedMetadata
from mteb_longembed.tasks.tables import column_names, find_table, is_table, table_rows

#: Column names of ids and texts in files: those of BEIR, of the LongEmbed data set, and plain ones.
_DOCUMENT_ID = ("_id", "id", "doc_id")
_QUERY_ID = ("_id", "id", "qid", "query_id")
_QUERY_TEXT = ("text", "query")
_JUDGED_QUERY = ("query-id", "query_id", "qid")
_JUDGED_DOCUMENT = ("corpus-id", "corpus_id", "doc_id")


def beir_task(folder: str | Path, split: str = "test") -> AbsTaskRetrieval:
    """The task in a folder with `corpus.jsonl`, `queries.jsonl` (both also `.gz`) and `qrels/SPLIT.tsv`.

    Source: BEIR, https://github.com/beir-cellar/beir: {_id, title, text}, {_id, text}, and under a heading lines of
    query id, document id and score with tabs between them. Queries without judgements are left out.
    This function also reads LongEmbed's own layout, with `qrels.jsonl` instead of `qrels/SPLIT.tsv`, and tables of
    the `datasets` library: `corpus`, `queries` and `qrels` as folders of `save_to_disk` or as Parquet files.

    Raises:
        DataError: a file is missing or damaged, or the judgements name an unknown query or document.
    """
    root = Path(folder).resolve()
    if (table := find_table(root, "corpus", split)) is not None:
        tables = [table, *(find_table(root, name, split) or root / name for name in ("queries", "qrels"))]
        return files_task(*tables, name=root.name, split=split)
    corpus, queries = _find(root, "corpus.jsonl"), _find(root, "queries.jsonl")
    flat = [root / f"qrels.jsonl{ending}" for ending in ("", ".gz")]
    qrels = next((path for path in flat if path.is_file()), None) or _find(root, f"qrels/{split}.tsv")
    return files_task(corpus, queries, qrels, name=root.name, split=split)


def files_task(
    corpus: str | Path,
    queries: str | Path,
    qrels: str | Path,
    *,
    name: str | None = None,
    split: str = "test",
) -> AbsTaskRetrieval:
    """The task in three files: documents, queries, and which document answers which query.

    Args:
        corpus: JSON Lines with an id (`_id`, `id` or `doc_id`), `text` and perhaps `title`.
        queries: JSON Lines with an id (`_id`, `id`, `qid` or `query_id`) and `text` or `query`.
        qrels: under a heading, lines of query id, document id and score with tabs between them (BEIR); or JSON Lines
            with the ids of a query and a document, and perhaps `score`. Each of the three files may be a table
            instead: a Parquet file, or a folder that the `datasets` library has saved.
        name: name of the task; default the corpus file's name and a hash of the three files, so that results of
            different data never mix.
        split: name of the only split.

    Raises:
        DataError: a file is missing or damaged, or the judgements name an unknown query or document.
    """
    paths = [Path(path).resolve() for path in (corpus, queries, qrels)]
    for path in paths:
        if not (path.is_file() or (path.is_dir() and any(path.iterdir()))):
            raise DataError(f"{path}: expected a file or a folder with files, found none.")
    digest = hashlib.sha256(b"".join(map(_digest, paths))).hexdigest()
    name = name or f"{paths[0].name.partition('.')[0]}-{digest[:8]}"
    metadata = LongEmbedMetadata(
        name=name,
        description="Read from local files.",
        dataset={"path": name, "revision": digest[:16]},
        type="Retrieval",
        category="t2t",
        modalities=["text"],
        eval_splits=[split],
        eval_langs=["eng-Latn"],
        main_score="ndcg_at_10",
    )
    body = {"metadata": metadata, "files": tuple(paths)}
    return types.new_class("LocalFiles", (_LocalFiles,), exec_body=lambda names: names.update(body))()


class _LocalFiles(AbsTaskRetrieval):
    files: tuple[Path, Path, Path]
    k_values = K_VALUES

    def load_data(self, num_proc: int | None = None, **kwargs: Any) -> None:
        if self.data_loaded:
            return
        (split,) = self.metadata.eval_splits
        corpus = read_corpus(self.files[0])
        key, text = _column(self.files[1], _QUERY_ID), _column(self.files[1], _QUERY_TEXT)
        queries = {row[key]: row[text] for _, row in _rows(self.files[1], (key, text))}
        path = self.files[2]
        judgements: dict[str, dict[str, int]] = {}
        for number, query, document, score in _judgements(path):
            for what, name, known in (("query", query, queries), ("document", document, corpus)):
                if name not in known:
                    raise DataError(
                        f"{path}, {_unit(path)} {number}: expected the id of a {what}, got {name!r}."
                    )
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


def read_corpus(path: Path) -> dict[str, str]:
    """Document id -> title and text of a JSON Lines file.

    Raises:
        DataError: the file is missing or damaged, or has an id twice; the message says the file and the line.
    """
    if not path.exists():
        raise DataError(f"{path}: expected a file, found none.")
    key = _column(path, _DOCUMENT_ID)
    corpus: dict[str, str] = {}
    for number, row in _rows(path, (key, "title", "text"), blank=("title", "text")):
        if row[key] in corpus:
            raise DataError(f"{path}, {_unit(path)} {number}: expected each id once, got {row[key]!r} again.")
        corpus[row[key]] = f"{row['title']} {row['text']}".strip()
    return corpus


def _column(path: Path, names: tuple[str, ...]) -> str:
    """The first of these names that is a column of the file; if none is, the first name, for the error message."""
    try:
        found = column_names(path) if is_table(path) else first_object(path)
    except DataError:
        return names[0]
    return next((name for name in names if name in found), names[0])


def _rows(
    path: Path, columns: tuple[str, ...], blank: tuple[str, ...] = ()
) -> Iterator[tuple[int, dict[str, str]]]:
    if is_table(path):
        return table_rows(path, columns, blank)
    return read_rows(path, columns, blank=blank)


def _unit(path: Path) -> str:
    return "row" if is_table(path) else "line"


def _digest(path: Path) -> bytes:
    if path.is_dir():
        files = sorted(each for each in path.rglob("*") if each.is_file())
        return hashlib.sha256(b"".join(map(_digest, files))).digest()
    return hashlib.sha256(path.read_bytes()).digest()


def _find(root: Path, name: str) -> Path:
    for ending in ("", ".gz"):
        if (root / (name + ending)).is_file():
            return root / (name + ending)
    raise DataError(f"{root}: expected a folder in BEIR's format, found no {name} in it.")


def _judgements(path: Path) -> Iterator[tuple[int, str, str, int]]:
    if ".jsonl" in path.name or is_table(path):
        query, document = _column(path, _JUDGED_QUERY), _column(path, _JUDGED_DOCUMENT)
        for number, row in _rows(path, (query, document, "score"), blank=("score",)):
            yield number, row[query], row[document], int(row["score"] or 1)
        return
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    for number, line in enumerate(lines, start=1):
        fields = line.split("\t")
        try:
            query, document, score = fields[0], fields[1], int(fields[2])
        except (IndexError, ValueError):
            if number == 1 or not line.strip():
                continue  # the heading, or a blank line at the end
            raise DataError(
                f"{path}, line {number}: expected query id, document id and a whole number with tabs between them, "
                f"got {line[:60]!r}."
            ) from None
        yield number, query, document, score
