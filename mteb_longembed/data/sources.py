"""The data of a comparison: tasks of mteb, or one's own files and tables."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, Unpack, cast

import mteb
from mteb.abstasks import AbsTask
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.types import PromptType

from mteb_longembed.data.check import read_texts
from mteb_longembed.data.drawn_queries import draw_queries
from mteb_longembed.data.table import Source
from mteb_longembed.data.task import beir_task, files_task
from mteb_longembed.data.text_table import stored_table
from mteb_longembed.data.texts import ENGLISH
from mteb_longembed.errors import InputError
from mteb_longembed.files import make_folder, write_file


class DataOptions(TypedDict, total=False):
    """What says where data are, in the place of `Data`. `Data`'s own makers say what each may be."""

    tasks: Sequence[str | AbsTaskRetrieval]  #: retrieval tasks of mteb
    benchmarks: Sequence[str]  #: their tasks
    eval_splits: Sequence[str] | None  #: only these splits of the tasks
    corpus: Source | None  #: one's own documents: a file, a folder, a table, a stream of rows, or a dict
    queries: Source | None
    qrels: Source | None  #: which document answers which query
    n_synthetic_queries: int | None  #: with a corpus only: so many sentences are drawn from it as queries
    language: str  #: of one's own files, such as `deu`; BM25 cuts words by it


@dataclass(frozen=True)
class Data:
    """Documents, queries and judgements of one or more retrieval tasks."""

    tasks: tuple[AbsTaskRetrieval, ...]
    #: whether the queries are sentences of the documents: they stand in for real ones.
    has_synthetic_queries: bool = False

    @classmethod
    def from_tasks(
        cls,
        *tasks: str | AbsTaskRetrieval,
        benchmarks: Sequence[str] = (),
        splits: Sequence[str] | None = None,
    ) -> Data:
        """Retrieval tasks of mteb, ours among them.

        Args:
            tasks: tasks, their names, or folders as for `from_folder`.
            benchmarks: names of benchmarks of mteb, whose tasks are added.
            splits: only these splits of the tasks that are given by name.

        Raises:
            InputError: a task is not known, is given twice, or is an object although `splits` are given.
        """
        if splits and not all(isinstance(task, str) for task in tasks):
            raise InputError(
                "eval_splits needs names of tasks, got a task object: choose its splits when you make it."
            )
        members = [task.metadata.name for name in benchmarks for task in mteb.get_benchmark(name).tasks]
        asked = dict.fromkeys([*tasks, *members])
        loaded = [find_task(task, splits) if isinstance(task, str) else task for task in asked]
        names = [task.metadata.name for task in loaded]
        if len(set(names)) < len(names):
            raise InputError(f"each task may be compared once, got {', '.join(names)}.")
        return cls(tuple(loaded))

    @classmethod
    def from_folder(
        cls, folder: str | Path, splits: Sequence[str] = ("test",), *, language: str = ENGLISH
    ) -> Data:
        """A folder with `corpus`, `queries` and `qrels`; arguments and errors as for `beir_task`."""
        return cls((beir_task(folder, splits, language=language),))

    @classmethod
    def from_files(cls, corpus: Source, queries: Source, qrels: Source, *, language: str = ENGLISH) -> Data:
        """Documents, queries and judgements: files, DataFrames or dicts; arguments and errors as for `files_task`."""
        return cls((files_task(corpus, queries, qrels, language=language),))

    @classmethod
    def from_documents(
        cls, corpus: Source, n_queries: int = 200, *, folder: str | Path, language: str = ENGLISH
    ) -> Data:
        """Documents, with sentences of them as queries.

        Args:
            corpus: as for `files_task`.
            n_queries: so many sentences are drawn, each from another document.
            folder: queries and judgements are written there, so that people can read them, each draw into a folder
                of its own.
            language: as for `files_task`.

        Raises:
            DataError: the file is missing or breaks a rule, or no sentence can be drawn.
        """
        if isinstance(corpus, Iterator):  # it can be read only once
            corpus = stored_table(read_texts(corpus))
        ids: list[str] = []
        texts: list[str] = []
        for key, text in read_texts(corpus):
            ids.append(key)
            texts.append(text)
        queries, answers = draw_queries(ids, texts, n_queries, language=language)
        asked = [{"_id": query, "text": text} for query, text in queries.items()]
        pairs = [{"query-id": query, "corpus-id": name, "score": 1} for query, name in answers.items()]
        lines = [_json_lines(asked), _json_lines(pairs)]
        # two comparisons may run at once, and a file that one of them reads never changes
        drawn = Path(folder, hashlib.sha256("".join(lines).encode()).hexdigest()[:8])
        make_folder("the folder of drawn queries", drawn)
        paths = drawn / "queries.jsonl", drawn / "qrels.jsonl"
        for path, text in zip(paths, lines, strict=True):
            write_file(path, text)
        task = files_task(corpus, *paths, language=language)
        if len(queries) < n_queries:
            task.unjudged["test"].append(f"only {len(queries):,} of {n_queries:,} queries could be drawn.")
        return cls((task,), has_synthetic_queries=True)

    @classmethod
    def of(cls, data: Data | str | Path | None, output: Path, **options: Unpack[DataOptions]) -> Data:
        """Exactly one kind of data: tasks, a folder, or files; or data as they are.

        Args:
            data: data, or a folder as for `from_folder`.
            output: where drawn queries are written.
            options: what says where data are, if `data` does not.

        Raises:
            InputError: the options do not go together.
        """
        unknown = options.keys() - DataOptions.__annotations__.keys()
        if unknown:
            raise TypeError(f"got an unexpected keyword argument {min(unknown)!r}")
        language = options.get("language", ENGLISH)
        if isinstance(data, Data):
            others = []
            for name, value in options.items():
                # a DataFrame cannot be compared with an empty list
                is_given = value is not None and not (isinstance(value, (tuple, list)) and not value)
                if is_given and name != "language":
                    others.append(name)
            if others:
                raise InputError(f"compare needs one kind of data, got data= and {', '.join(others)}=.")
            return data
        tasks = options.get("tasks", ())
        benchmarks = options.get("benchmarks", ())
        splits = options.get("eval_splits")
        n_queries = options.get("n_synthetic_queries")
        files = [options.get("corpus"), options.get("queries"), options.get("qrels")]
        corpus, *judged = files
        has_files = any(source is not None for source in files)
        n_kinds = sum([bool(tasks or benchmarks), data is not None, has_files])
        if n_queries is not None and (
            corpus is None or any(source is not None for source in judged) or n_queries < 1 or n_kinds > 1
        ):
            raise InputError(
                "--make-queries N needs --corpus, no --queries, no --qrels, and N of at least 1 query, "
                f"got N={n_queries}."
            )
        if n_kinds != 1:
            raise InputError(
                "compare needs exactly one kind of data: tasks (-t, -b), --data FOLDER, or --corpus with --queries "
                f"and --qrels; got {n_kinds} kinds."
            )
        if data is not None:
            return cls.from_folder(data, splits or ["test"], language=language)
        if corpus is not None and n_queries is not None:
            return cls.from_documents(
                corpus, n_queries, folder=output / "synthetic-queries", language=language
            )
        if has_files:
            given = [source for source in files if source is not None]
            if len(given) < len(files):
                raise InputError(
                    "--corpus, --queries and --qrels belong together: give all three, or --corpus and --make-queries."
                )
            return cls.from_files(*given, language=language)
        return cls.from_tasks(*tasks, benchmarks=benchmarks, splits=splits)


def _json_lines(rows: Iterable[dict[str, Any]]) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


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


def check_text_retrieval(command: str, task: AbsTask) -> None:
    """Raise InputError if a task is not text retrieval."""
    data = task.metadata
    if not isinstance(task, AbsTaskRetrieval) or data.get_modalities(PromptType.document) != ["text"]:
        raise InputError(
            f"{command} needs a text retrieval task, got {data.name}, which is {data.type} ({data.category})."
        )
