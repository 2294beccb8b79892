"""Retrieval tasks: mteb's by name, and your own data as a task, such as a folder in BEIR's format."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import mteb
from mteb.abstasks.abstask import AbsTask
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.languages import check_language_code
from mteb.types import PromptType

from mteb_longembed.data import check
from mteb_longembed.data.look import beir_files
from mteb_longembed.data.table import Source
from mteb_longembed.data.text_table import stored_table, text_table
from mteb_longembed.data.texts import K_VALUES, data_identity
from mteb_longembed.errors import DataError, InputError
from mteb_longembed.values import ENGLISH


def find_tasks(
    tasks: Sequence[str | AbsTaskRetrieval], benchmarks: Sequence[str] = (), splits: Sequence[str] = ()
) -> list[AbsTaskRetrieval]:
    """Return mteb's tasks by name, and the tasks of benchmarks; with `splits`, restricted to these.

    Raises:
        InputError: a task is not known, is given twice, is not text retrieval, or is an object although splits are
            given.
    """
    members = [task.metadata.name for name in benchmarks for task in mteb.get_benchmark(name).tasks]
    chosen = []
    for given in dict.fromkeys([*tasks, *members]):
        task: AbsTask
        if isinstance(given, str):
            task = _task_of_mteb(given, splits)
        elif splits:
            raise InputError(
                "eval_splits needs names of tasks, got a task object: choose its splits when you make it."
            )
        else:
            task = given
        data = task.metadata
        if not isinstance(task, AbsTaskRetrieval) or data.get_modalities(PromptType.document) != ["text"]:
            raise InputError(
                f"compare needs a text retrieval task, got {data.name}, which is {data.type} ({data.category})."
            )
        chosen.append(task)
    names = [task.metadata.name for task in chosen]
    if len(set(names)) < len(names):
        raise InputError(f"each task may be compared once, got {', '.join(names)}.")
    return chosen


def _task_of_mteb(name: str, splits: Sequence[str]) -> AbsTask:
    try:
        return mteb.get_task(name, eval_splits=list(splits) or None)
    except KeyError as error:
        near = re.search(r"Did you mean: '(.+?)'", str(error.args[0]))
        hint = f"did you mean {near[1]!r}? " if near else ""
        raise InputError(
            f"unknown task {name!r}: {hint}give a retrieval task that `mteb available-tasks` lists."
        ) from None


def is_known_task(name: str) -> bool:
    """Return whether mteb has a task of this name, which users can type."""
    try:
        mteb.get_task(name)
    except KeyError:
        return False
    return True


def beir_task(
    folder: str | Path,
    splits: Sequence[str] = ("test",),
    *,
    language: str | None = None,
    by: str = check.KIND,
) -> OwnData:
    """Return the task in a folder in BEIR's layout: `corpus.jsonl`, `queries.jsonl` and `qrels/SPLIT.tsv`.

    Source: BEIR, https://github.com/beir-cellar/beir. Each file may have any format of `table.py`. If there is only one
    split, its judgements may be in `qrels.jsonl` (LongEmbed's own layout). Language and errors are as for `files_task`.
    """
    corpus, queries, qrels = beir_files(folder, splits)
    return OwnData(Path(folder).absolute().name, corpus, queries, {**qrels}, language, by)


def files_task(
    corpus: Source,
    queries: Source,
    qrels: Source | None,
    *,
    language: str | None = None,
    by: str = check.KIND,
) -> OwnData:
    """Return the task of documents, queries and judgements: files, DataFrames or dicts.

    Its name has a hash of the data, so results of different data never mix.

    Args:
        corpus: as for `check.read_corpus`. Its texts are written to a temporary file.
        queries: as for `check.read_queries`.
        qrels: as for `check.read_judgements`; None for a task whose queries are not judged yet.
        language: the data's language as in mteb, such as `deu` or `deu-Latn`; BM25 splits text by it. None: English.

        by: the column of the queries with their kinds.

    Raises:
        DataError: a file is missing or breaks a rule of `check.py`.
        InputError: the language is not known.
    """
    stem = "data"
    if isinstance(corpus, (str, Path)):
        stem = Path(corpus).name.partition(".")[0]
    if not isinstance(corpus, Iterator):
        corpus = _kept(corpus)
    judgements = None
    if qrels is not None:
        judgements = _kept(qrels)
    return OwnData(stem, corpus, _kept(queries), {"test": judgements}, language, by)


def _kept(source: Source) -> Source:
    """Return a source that can be read again, even from another working folder."""
    if isinstance(source, (str, Path)):
        return Path(source).absolute()
    if isinstance(source, Iterator):
        return list(source)
    return source


class OwnData(AbsTaskRetrieval):
    """A task from your own data, which is read when the task is made, because its name depends on the content.

    `stem` is the first part of its name, and `judgements` has the judgements of each split, None where there are none.
    """

    unjudged: dict[str, list[str]]  #: notes on queries that are left out, by split
    kinds: dict[str, str]  #: kinds of queries, as in their file
    clusters: dict[str, str]  #: cluster labels of queries, as in their file
    #: all judgements by split, also the ones of queries without a relevant document
    judgements: dict[str, dict[str, dict[str, int]]]
    k_values = K_VALUES
    metadata = TaskMetadata(
        name="OwnData",
        description="One's own data.",
        dataset={"path": "own data", "revision": "unread"},
        type="Retrieval",
        category="t2t",
        modalities=["text"],
        eval_splits=["test"],
        eval_langs=[ENGLISH],
        main_score="ndcg_at_10",
    )

    def __init__(
        self,
        stem: str,
        documents: Source,
        queries: Source,
        judgements: Mapping[str, Source | None],
        language: str | None = None,
        by: str = check.KIND,
    ) -> None:
        #: The language of the files; None for English, which is the default everywhere.
        self.language = language
        self.kind_column = by
        if language is not None:
            check_language(language)
        update: dict[str, object] = {"eval_splits": list(judgements), "eval_langs": [language or ENGLISH]}
        self.metadata = self.metadata.model_copy(update=update)
        super().__init__()
        #: Documents, queries, and judgements by split.
        self.corpus_source = documents
        self.query_source = queries
        self.judgement_sources = judgements
        self._read()
        digest = self.identity()
        readable = re.sub(r"[^A-Za-z0-9._-]", "_", stem)[:80] or "data"
        name = f"{readable}-{digest[:8]}"
        update = {"name": name, "dataset": {"path": name, "revision": digest}}
        self.metadata = self.metadata.model_copy(update=update)

    def load_data(self, num_proc: int | None = None, **kwargs: object) -> None:
        """Read the files again, if the data were unloaded.

        Raises:
            DataError: a file breaks a rule now, or its content has changed.
        """
        if self.data_loaded:
            return
        self._read()
        if self.identity() != self.metadata.dataset["revision"]:
            raise DataError(f"{self.metadata.name}: expected unchanged data, but they have changed.")

    def unload_data(self) -> None:
        """Unload the data, but keep their name: mteb would restore the metadata of the class."""
        metadata = self.metadata
        super().unload_data()
        self.metadata = metadata

    def _read(self) -> None:
        query_rows = list(check.read_query_rows(self.query_source, by=self.kind_column))
        queries = {query.id: query.text for query in query_rows}
        self.kinds = {query.id: query.kind for query in query_rows if query.kind}
        self.clusters = {query.id: query.cluster for query in query_rows if query.cluster}
        rows_of = {
            split: None if source is None else check.read_judgement_rows(source)
            for split, source in self.judgement_sources.items()
        }
        corpus = stored_table(check.read_texts(self.corpus_source))
        if isinstance(self.corpus_source, Iterator):
            self.corpus_source = corpus
        documents = dict.fromkeys(corpus["id"][:])
        self.dataset = {"default": {}}
        self.unjudged = {}
        self.judgements = {}
        for split, rows in rows_of.items():
            self.unjudged[split] = []
            if rows is None:
                self.dataset["default"][split] = RetrievalSplitData(
                    corpus=corpus,
                    queries=text_table(queries),
                    relevant_docs={key: {} for key in queries},
                    top_ranked=None,
                )
                continue
            source = self.judgement_sources[split]
            assert source is not None  # it has rows
            name = check.name_of(source, "qrels")
            judgements = check.judged_scores(rows, queries, documents)
            self.judgements[split] = judgements
            judged = {query: scores for query, scores in judgements.items() if any(scores.values())}
            if not judged:
                raise DataError(
                    f"{name}: expected a relevant document, but no judgement has a score above 0."
                )
            judged_queries = {key: text for key, text in queries.items() if key in judged}
            self.dataset["default"][split] = RetrievalSplitData(
                corpus=corpus, queries=text_table(judged_queries), relevant_docs=judged, top_ranked=None
            )
            if len(judged_queries) < len(queries):
                self.unjudged[split].append(
                    f"{name}: {len(queries) - len(judged_queries):,} of {len(queries):,} queries have no relevant "
                    "document and are not scored."
                )
        self.data_loaded = True

    def identity(self) -> str:
        """Return a hash of all data."""
        parts = "".join(data_identity(self, split) for split in self.judgement_sources)
        return hashlib.sha256(parts.encode()).hexdigest()[:16]


def check_language(language: str) -> None:
    """Raise InputError if mteb does not know a language code."""
    try:
        check_language_code(language)
    except (ValueError, TypeError):
        raise InputError(
            f"a language must be an ISO 639-3 code, such as deu or deu-Latn, got {language!r}."
        ) from None
