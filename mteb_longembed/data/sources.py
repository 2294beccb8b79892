"""The data of a comparison: tasks of mteb, or one's own files and tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import mteb
from mteb.abstasks import AbsTask
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.types import PromptType

from mteb_longembed.data.table import Source
from mteb_longembed.data.task import beir_task, files_task
from mteb_longembed.data.texts import ENGLISH
from mteb_longembed.errors import InputError

_KINDS = "tasks (-t, -b), --data FOLDER, or --corpus with --queries and --qrels"


@dataclass(frozen=True, kw_only=True)
class Data:
    """Documents, queries and judgements: exactly one of tasks of mteb, a folder, and one's own files or tables.

    Args:
        tasks: retrieval tasks of mteb, ours among them, their names, or folders in BEIR's layout.
        benchmarks: names of benchmarks of mteb, whose tasks are added.
        eval_splits: only these splits of the tasks that are given by name, or of the folder.
        folder: one with `corpus`, `queries` and `qrels`, see `beir_task`.
        corpus: one's own documents: a file, a folder, a table, a stream of rows, or a dict; see `files_task`.
        queries: as the corpus. A column `group` says which queries belong together, such as a session or a user.
        qrels: which document answers which query.
        language: of one's own data, such as `deu`; BM25 cuts words by it. Default: English.

    Raises:
        InputError: if there is no kind of data or more than one, or one is not complete; and for a language of tasks,
            which have their own.
    """

    tasks: Sequence[str | AbsTaskRetrieval] = ()
    benchmarks: Sequence[str] = ()
    eval_splits: Sequence[str] | None = None
    folder: str | Path | None = None
    corpus: Source | None = None
    queries: Source | None = None
    qrels: Source | None = None
    language: str | None = None

    def __post_init__(self) -> None:
        n_files = sum(source is not None for source in (self.corpus, self.queries, self.qrels))
        n_kinds = sum([bool(self.tasks or self.benchmarks), self.folder is not None, n_files > 0])
        if n_kinds != 1:
            raise InputError(f"compare needs exactly one kind of data: {_KINDS}; got {n_kinds} kinds.")
        if n_files not in (0, 3):
            raise InputError("--corpus, --queries and --qrels belong together: give all three.")
        if self.language is not None and (self.tasks or self.benchmarks):
            raise InputError(
                f"a language is that of your own files, and tasks have their own: leave out {self.language!r}."
            )
        if self.eval_splits and n_files:
            raise InputError(
                "eval_splits needs tasks or a folder, got files of one's own, which are one split."
            )

    def load(self) -> list[AbsTaskRetrieval]:
        """The tasks, each with its data or able to load them.

        Raises:
            InputError: a task is not known, is given twice, or is an object although `eval_splits` are given; or the
                language is not known.
            DataError: a file is missing or breaks a rule.
        """
        language = self.language
        if language is None:
            language = ENGLISH
        if self.folder is not None:
            return [beir_task(self.folder, self.eval_splits or ["test"], language=language)]
        if self.corpus is not None and self.queries is not None and self.qrels is not None:
            return [files_task(self.corpus, self.queries, self.qrels, language=language)]
        if self.eval_splits and not all(isinstance(task, str) for task in self.tasks):
            raise InputError(
                "eval_splits needs names of tasks, got a task object: choose its splits when you make it."
            )
        members = [task.metadata.name for name in self.benchmarks for task in mteb.get_benchmark(name).tasks]
        loaded = []
        for task in dict.fromkeys([*self.tasks, *members]):
            loaded.append(find_task(task, self.eval_splits) if isinstance(task, str) else task)
        names = [task.metadata.name for task in loaded]
        if len(set(names)) < len(names):
            raise InputError(f"each task may be compared once, got {', '.join(names)}.")
        return loaded


def find_task(name: str, splits: Sequence[str] | None = None) -> AbsTaskRetrieval:
    """The task of mteb with this name, or the task in a folder of BEIR's format.

    Raises:
        InputError: the name is not that of a task or a folder.
        DataError: the folder does not have the files of that format.
    """
    if Path(name).is_dir():
        return beir_task(name, splits or ["test"])
    try:
        return cast("AbsTaskRetrieval", mteb.get_task(name, eval_splits=list(splits) if splits else None))
    except KeyError as error:
        near = re.search(r"Did you mean: '(.+?)'", str(error.args[0]))
        hint = f"did you mean {near[1]!r}? " if near else ""
        raise InputError(
            f"unknown task {name!r}: {hint}give a retrieval task that `mteb available-tasks` lists, or a "
            "folder in BEIR's file format."
        ) from None


def is_known_task(name: str) -> bool:
    """Whether mteb knows a task of this name, so that it can be typed."""
    try:
        mteb.get_task(name)
    except KeyError:
        return False
    return True


def check_text_retrieval(task: AbsTask) -> None:
    """Raise InputError if a task is not text retrieval."""
    data = task.metadata
    if not isinstance(task, AbsTaskRetrieval) or data.get_modalities(PromptType.document) != ["text"]:
        raise InputError(
            f"compare needs a text retrieval task, got {data.name}, which is {data.type} ({data.category})."
        )
