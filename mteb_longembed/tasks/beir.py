"""A retrieval task from local files, for data that mteb does not have, such as a folder in BEIR's format."""

from __future__ import annotations

import glob
import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData
from mteb.languages import check_language_code

from mteb_longembed.errors import DataError, InputError
from mteb_longembed.tasks import data_files, file_rows
from mteb_longembed.tasks.data_files import Passages, text_table
from mteb_longembed.tasks.scoring import data_identity
from mteb_longembed.tasks.task_metadata import K_VALUES, LongEmbedMetadata

_ENDINGS = (".jsonl", ".ndjson", ".csv", ".tsv", ".txt", ".trec")
#: A Parquet file, perhaps one of several, as the datasets library and the hub name them; older ones end with a hash.
_PARQUET = re.compile(
    r"(?P<split>.*?)(-(?P<number>[0-9]{1,9})-of-(?P<total>[0-9]{1,9})(-[0-9a-f]{16})?)?\.parquet",
    re.IGNORECASE | re.DOTALL,
)
ENGLISH = "eng-Latn"


def beir_task(
    folder: str | Path, splits: Sequence[str] = ("test",), *, language: str = ENGLISH
) -> LocalFiles:
    """The task in a folder with `corpus.jsonl`, `queries.jsonl` and `qrels/SPLIT.tsv`, as BEIR has them.

    Source: BEIR, https://github.com/beir-cellar/beir: {_id, title, text}, {_id, text}, and under a heading lines of
    query id, document id and score with tabs between them. Queries without a relevant document are left out.
    Each file may have any format of `file_rows.py`, also with gzip. If there is only one split, its judgements may be
    in `qrels.jsonl` (LongEmbed's own layout). Tables of the `datasets` library are `corpus`, `queries` and `qrels` as
    folders of `save_to_disk` or as Parquet files. `splits` are those of the judgements; `language` as for `files_task`.

    Raises:
        DataError: a file is missing, is there twice or breaks a rule of `data_files.py`.
        InputError: the language is not known.
    """
    root = Path(folder).absolute()
    corpus = _find(root, "corpus", splits[0])
    queries = _find(root, "queries", splits[0])
    qrels = {split: _find(root, "qrels", split, alone=len(splits) == 1) for split in splits}
    return LocalFiles(root.name, corpus, queries, qrels, language)


def files_task(
    corpus: str | Path, queries: str | Path, qrels: str | Path, *, language: str = ENGLISH
) -> LocalFiles:
    """The task in three files: documents, queries, and which document answers which query.

    Its name has a hash of what was read, so that results of different data never mix.

    Args:
        corpus: rows with an id (`_id`, `id`, `doc_id` or `docid`), `text` and perhaps `title`: JSON Lines, CSV, TSV,
            a Parquet file, a folder that the `datasets` library has saved, or a folder of `.txt` and `.md` files.
        queries: rows with an id (`_id`, `id`, `qid` or `query_id`) and `text` or `query`.
        qrels: rows with the ids of a query and a document, and perhaps `score`, and `start` and `end` of the passage
            that answers, in characters of `text`; or without a heading, in BEIR's or TREC's order.
        language: the data's language as in mteb, such as `deu` or `deu-Latn`; BM25 cuts words by it.

    Raises:
        DataError: a file is missing or breaks a rule of `data_files.py`.
        InputError: the language is not known.
    """
    paths = [Path(path).absolute() for path in (corpus, queries, qrels)]
    for path in paths:
        if not (path.is_file() or (path.is_dir() and any(path.iterdir()))):
            raise DataError(f"{path}: expected a file or a folder with files, found none.")
    return LocalFiles(paths[0].name.partition(".")[0], paths[0], paths[1], {"test": paths[2]}, language)


class LocalFiles(AbsTaskRetrieval):
    """A task from files. They are read when it is made, because its name depends on what is in them.

    `stem` is the first part of its name, `judgements` has a file for each split.
    """

    unjudged: dict[str, list[str]]  #: sentences about queries that are left out, by split
    _passages: dict[str, Passages]
    k_values = K_VALUES
    metadata = LongEmbedMetadata(
        name="LocalFiles",
        description="Read from local files.",
        dataset={"path": "local files", "revision": "unread"},
        type="Retrieval",
        category="t2t",
        modalities=["text"],
        eval_splits=["test"],
        eval_langs=[ENGLISH],
        main_score="ndcg_at_10",
    )

    def __init__(
        self, stem: str, documents: Path, queries: Path, judgements: Mapping[str, Path], language: str
    ) -> None:
        check_language(language)
        #: The language of the files; None for English, which is the default everywhere.
        self.language: str | None = None
        if language != ENGLISH:
            self.language = language
        update: dict[str, object] = {"eval_splits": list(judgements), "eval_langs": [language]}
        self.metadata = self.metadata.model_copy(update=update)
        super().__init__()
        #: The files of documents and queries, and those of judgements by split.
        self.corpus_file = documents
        self.query_file = queries
        self.judgement_files = judgements
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
            raise DataError(f"{self.corpus_file}: expected unchanged files, but they have changed.")

    def unload_data(self) -> None:
        """Forget the data, but not what they were called: mteb takes the class's metadata back."""
        metadata = self.metadata
        super().unload_data()
        self.metadata = metadata

    def _read(self) -> None:
        documents = data_files.read_documents(self.corpus_file)
        queries = data_files.read_queries(self.query_file)
        corpus = text_table(documents)
        self.dataset = {"default": {}}
        self.unjudged = {}
        self._passages = {}
        for split, path in self.judgement_files.items():
            judgements = data_files.read_judgements(path, queries, documents)
            judged = {query: scores for query, scores in judgements.items() if any(scores.values())}
            if not judged:
                raise DataError(
                    f"{path}: expected a relevant document, but no judgement has a score above 0."
                )
            asked = {name: text for name, text in queries.items() if name in judged}
            self.dataset["default"][split] = RetrievalSplitData(
                corpus=corpus, queries=text_table(asked), relevant_docs=judged, top_ranked=None
            )
            self._passages[split] = data_files.read_passages(path, self.corpus_file)
            n = len(queries) - len(asked)
            self.unjudged[split] = []
            if n:
                self.unjudged[split].append(
                    f"{path.name}: {n:,} of {len(queries):,} queries have no relevant document and are not scored."
                )
        self.data_loaded = True

    def passages(self, split: str) -> Passages:
        """The judged passages of a split. They are no part of the identity: scores of documents do not need them."""
        return self._passages[split]

    def identity(self) -> str:
        """A hash of everything that was read."""
        parts = "".join(data_identity(self, split) for split in self.judgement_files)
        return hashlib.sha256(parts.encode()).hexdigest()[:16]


def _find(root: Path, name: str, split: str, *, alone: bool = True) -> Path:
    """The file or table of this name; `alone` says that it may also be one for all splits.

    Raises:
        DataError: there is none, or there are several.
    """
    paths = _find_texts(root / name / split)
    if alone:
        paths += _find_texts(root / name)
    table = _find_table(root, name, split)
    if table is not None and (alone or table.parent == root / name):
        paths.append(table)
    if len(paths) > 1:
        names = " and ".join(str(path.relative_to(root)) for path in paths)
        raise DataError(f"{root}: expected one file for {name}, found {names}: remove all but one.")
    if not paths:
        wanted = f"{name}.jsonl"
        if name == "qrels":
            wanted = f"qrels/{split}.tsv"
        others = sorted(path.name for path in (root / name).glob("*"))
        known = ""
        if others:
            known = f" (found in {name}: {', '.join(others)[:200]})"
        raise DataError(f"{root}: expected a folder in BEIR's format, found no {wanted} in it{known}.")
    return paths[0]


def _find_texts(stem: Path) -> list[Path]:
    """The files of lines with this path before their ending."""
    found = {}
    for path in _files(stem.parent):
        ending = path.name.removeprefix(stem.name).lower().removesuffix(".gz")
        if path.name.startswith(stem.name) and ending in _ENDINGS:
            found[path] = _ENDINGS.index(ending)
    return sorted(found, key=lambda path: found[path])


def _files(folder: Path) -> list[Path]:
    """The files in a folder, sorted, without hidden ones; none if there is no folder."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))


def _find_table(root: Path, name: str, split: str) -> Path | None:
    """The table `name` of a folder, None if there is none.

    It is `NAME/SPLIT/` or `NAME/` (of `save_to_disk`, or with Parquet files), `NAME/SPLIT*.parquet`, or
    `NAME.parquet`. If `NAME` has only one split, that split is used, whatever its name.

    Raises:
        DataError: a file of the split is missing.
    """
    folder = root / name
    if (folder / split).is_dir():
        return folder / split
    splits: dict[str, list[Path]] = {}
    for path in _files(folder):
        match = _PARQUET.fullmatch(path.name)
        if match:
            splits.setdefault(match["split"], []).append(path)
    if len(splits) == 1:
        _one_table(*splits.popitem())
        return folder
    if splits:
        if split not in splits:
            return None
        return _one_table(split, splits[split])
    if folder.is_dir() and any(folder.glob("*.json")):
        return folder
    for path in _files(root):
        if path.stem == name and path.suffix.lower() == ".parquet":
            return path
    return None


def _one_table(split: str, paths: list[Path]) -> Path:
    """The path for all files of a split: a pattern if there are several.

    Raises:
        DataError: there are fewer or more of them than their names say.
    """
    first = paths[0]
    numbered = _PARQUET.fullmatch(first.name)
    whole = first
    n_files = 1
    if numbered and numbered["total"]:
        n_files = int(numbered["total"])
        number = "?" * len(numbered["number"])  # not *, because a split may be called train-new
        whole = first.with_name(f"{glob.escape(split)}-{number}-of-{numbered['total']}*.parquet")
    if len(paths) != n_files or file_rows.parts(whole) != paths:
        names = ", ".join(path.name for path in paths)
        raise DataError(f"{first.parent}: expected {n_files:,} files of {split}, found {names[:200]}.")
    if n_files == 1:
        return first
    return whole


def check_language(language: str) -> None:
    """Raise InputError if mteb does not know a language's code."""
    try:
        check_language_code(language)
    except ValueError:
        raise InputError(
            f"a language must be an ISO 639-3 code, such as deu or deu-Latn, got {language!r}."
        ) from None
