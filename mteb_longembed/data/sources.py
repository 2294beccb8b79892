"""The data of a comparison: mteb's tasks, or your own files and tables."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mteb_longembed.errors import InputError

if TYPE_CHECKING:
    from mteb.abstasks.retrieval import AbsTaskRetrieval

    from mteb_longembed.data.table import Source

_KINDS = "tasks (-t, -b), --data FOLDER, or --corpus with --queries and perhaps --qrels"


@dataclass(frozen=True, kw_only=True)
class Data:
    """Documents, queries and judgements: exactly one of mteb's tasks, a folder, and your own files or tables.

    Args:
        tasks: retrieval tasks of mteb or of this package, or their names.
        benchmarks: names of mteb's benchmarks, whose tasks are added.
        eval_splits: evaluate only these splits of the tasks, or of the folder.
        folder: a folder in BEIR's layout: `corpus`, `queries` and `qrels`.
        corpus: documents with an id and text: JSON Lines, CSV, TSV or Parquet, or a folder of such Parquet files, or of
            .txt and .md files; in Python also a table, a stream of rows or tables, or a dict.
        queries: queries in the same formats; queries with one label in a column `cluster` belong together, such as a
            session. Without them, and without judgements, a page takes typed ones.
        qrels: query id, document id and score in the same formats, or TREC qrels. Without them, methods are ranked, and
            a page asks for judgements.
        by: the column of the queries with their kinds, whose scores are shown beside the whole (default: kind).
        language: the language of your own data, such as deu or zho-Hans; BM25 splits text by it (default: eng-Latn).

    Raises:
        InputError: if there is not exactly one kind of data, or it is incomplete; and for a language of tasks, which
            have their own.
    """

    tasks: Sequence[str | AbsTaskRetrieval] = ()
    benchmarks: Sequence[str] = ()
    eval_splits: Sequence[str] = ()
    folder: str | Path | None = None
    corpus: Source | None = None
    queries: Source | None = None
    qrels: Source | None = None
    language: str | None = None
    by: str = "kind"

    def __post_init__(self) -> None:
        n_files = sum(source is not None for source in (self.corpus, self.queries, self.qrels))
        n_kinds = sum([bool(self.tasks or self.benchmarks), self.folder is not None, n_files > 0])
        if n_kinds != 1:
            raise InputError(f"compare needs exactly one kind of data: {_KINDS}; got {n_kinds} kinds.")
        lacks_corpus = n_files and self.corpus is None
        lacks_queries = self.qrels is not None and self.queries is None
        if lacks_corpus or lacks_queries:
            raise InputError(
                "--corpus, --queries and --qrels belong together: give all three, or leave out --qrels to judge on a "
                "page, or --queries too to type them there."
            )
        if self.language is not None and (self.tasks or self.benchmarks):
            raise InputError(
                f"a language belongs to your own files, and tasks have their own: leave out {self.language!r}."
            )
        if self.by != "kind" and (self.tasks or self.benchmarks):
            raise InputError(
                f"--by names a column of your own queries, got {self.by} with tasks: leave it out."
            )
        if self.eval_splits and n_files:
            raise InputError("eval_splits needs tasks or a folder, got your own files, which are one split.")

    def __repr__(self) -> str:
        # tables in memory may have millions of rows
        given = {name: value for name, value in vars(self).items() if value is not None and value != ()}
        return f"Data({', '.join(f'{name}={reprlib.repr(value)}' for name, value in given.items())})"

    def load(self) -> list[AbsTaskRetrieval]:
        """Return the tasks, with their data or able to load them.

        Raises:
            InputError: a task is not known, is given twice, or is not text retrieval; the language is not known; or
                there are documents without queries.
            DataError: a file is missing or breaks a rule.
        """
        from mteb_longembed.data.task import beir_task, files_task, find_tasks

        if self.folder is not None:
            return [beir_task(self.folder, self.eval_splits or ["test"], language=self.language, by=self.by)]
        if self.corpus is not None and self.queries is not None:
            return [files_task(self.corpus, self.queries, self.qrels, language=self.language, by=self.by)]
        if self.corpus is not None:
            raise InputError("documents without queries cannot be ranked: give --queries.")
        return find_tasks(self.tasks, self.benchmarks, self.eval_splits or ())
