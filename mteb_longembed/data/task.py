"""A retrieval task from one's own data, for what mteb does not have, such as a folder in BEIR's format."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.languages import check_language_code

from mteb_longembed.data import check
from mteb_longembed.data.check import Passages
from mteb_longembed.data.table import ENDINGS, TREC, Source, ending_of
from mteb_longembed.data.text_table import stored_table, text_table
from mteb_longembed.data.texts import ENGLISH, K_VALUES, data_identity
from mteb_longembed.errors import DataError, InputError


def beir_task(folder: str | Path, splits: Sequence[str] = ("test",), *, language: str = ENGLISH) -> OwnData:
    """The task in a folder with `corpus.jsonl`, `queries.jsonl` and `qrels/SPLIT.tsv`, as BEIR has them.

    Source: BEIR, https://github.com/beir-cellar/beir: {_id, title, text}, {_id, text}, and under a heading lines of
    query id, document id and score with tabs between them. Queries without a relevant document are left out.
    Each file may have any format of `table.py`. If there is only one split, its judgements may be in `qrels.jsonl`
    (LongEmbed's own layout).

    Args:
        folder: the folder.
        splits: those of the judgements.
        language: as for `files_task`.

    Raises:
        DataError: a file is missing, is there twice or breaks a rule of `check.py`.
        InputError: the language is not known.
    """
    root = Path(folder).absolute()
    qrels = {}
    for split in splits:
        stems = [f"qrels/{split}"]
        if len(splits) == 1:
            stems.append("qrels")
        qrels[split] = _find(root, "qrels", stems)
    corpus = _find(root, "corpus", ["corpus"])
    queries = _find(root, "queries", ["queries"])
    return OwnData(root.name, corpus, queries, qrels, language)


def files_task(corpus: Source, queries: Source, qrels: Source, *, language: str = ENGLISH) -> OwnData:
    """The task of documents, queries, and which document answers which query: files, DataFrames or dicts.

    Its name has a hash of what was read, so that results of different data never mix.

    Args:
        corpus: as for `check.read_corpus`. Its texts go to a temporary file.
        queries: as for `check.read_queries`.
        qrels: as for `check.read_judgements`; perhaps with `start` and `end` of the passage that answers, in
            characters of `text`, or with the `answer`.
        language: the data's language as in mteb, such as `deu` or `deu-Latn`; BM25 cuts words by it.

    Raises:
        DataError: a file is missing or breaks a rule of `check.py`.
        InputError: the language is not known.
    """
    stem = "data"
    if isinstance(corpus, (str, Path)):
        stem = Path(corpus).name.partition(".")[0]
    return OwnData(stem, _absolute(corpus), _kept(queries), {"test": _kept(qrels)}, language)


def _absolute(source: Source) -> Source:
    """A source that stays the same if the working folder changes."""
    if not isinstance(source, (str, Path)):
        return source
    path = Path(source).absolute()
    if not (path.is_file() or (path.is_dir() and any(path.iterdir()))):
        raise DataError(f"{path}: expected a file or a folder with files, found none.")
    return path


def _kept(source: Source) -> Source:
    """A source that also can be read again, for what is small."""
    if isinstance(source, Iterator):
        return list(source)
    return _absolute(source)


def _find(root: Path, kind: str, stems: Sequence[str]) -> Path:
    """The one file with one of these paths before its ending.

    Raises:
        DataError: there is none, or there are several.
    """
    endings: tuple[str, ...] = ENDINGS
    if kind == "qrels":
        endings += TREC
    found = []
    for stem in stems:
        for path in sorted(root.glob(f"{stem}*")):
            is_named_so = path.name.partition(".")[0] == Path(stem).name
            if is_named_so and ending_of(path) in endings and path.is_file():
                found.append(path)
    if len(found) > 1:
        names = " and ".join(str(path.relative_to(root)) for path in found)
        raise DataError(f"{root}: expected one file for {kind}, found {names}: remove all but one.")
    if not found:
        wanted = f"{kind}.jsonl"
        if kind == "qrels":
            wanted = f"{stems[0]}.tsv"
        raise DataError(f"{root}: expected a folder in BEIR's format, found no {wanted} in it.")
    return found[0]


class OwnData(AbsTaskRetrieval):
    """A task from own data. They are read when it is made, because its name depends on what is in them.

    `stem` is the first part of its name, `judgements` has those of each split.
    """

    unjudged: dict[str, list[str]]  #: sentences about queries that are left out, by split
    groups: dict[str, str]  #: which queries belong together, where their file says so
    _passages: dict[str, Passages]
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
        self, stem: str, documents: Source, queries: Source, judgements: Mapping[str, Source], language: str
    ) -> None:
        check_language(language)
        #: The language of the files; None for English, which is the default everywhere.
        self.language: str | None = None
        if language != ENGLISH:
            self.language = language
        update: dict[str, object] = {"eval_splits": list(judgements), "eval_langs": [language]}
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
        """Forget the data, but not what they were called: mteb takes the class's metadata back."""
        metadata = self.metadata
        super().unload_data()
        self.metadata = metadata

    def _read(self) -> None:
        asked_rows = list(check.read_asked(self.query_source))
        queries = {query.id: query.text for query in asked_rows}
        self.groups = {query.id: query.group for query in asked_rows if query.group}
        rows_of = {
            split: check.read_judgement_rows(source) for split, source in self.judgement_sources.items()
        }
        with_passage: set[str] = set()
        for rows in rows_of.values():
            with_passage.update(row["document"] for _, row in rows if check.has_passage(row))
        judged_texts: dict[str, check.Document] = {}

        def texts() -> Iterator[tuple[str, str]]:
            for document in check.read_corpus(self.corpus_source):
                if document.id in with_passage:
                    judged_texts[document.id] = document
                yield document.id, document.joined

        corpus = stored_table(texts())
        if isinstance(self.corpus_source, Iterator):  # it can be read only once
            self.corpus_source = corpus
        documents = dict.fromkeys(corpus["id"][:])
        self.dataset = {"default": {}}
        self.unjudged = {}
        self._passages = {}
        for split, rows in rows_of.items():
            name = check.name_of(self.judgement_sources[split], "qrels")
            judgements = check.judged_scores(rows, queries, documents)
            judged = {query: scores for query, scores in judgements.items() if any(scores.values())}
            if not judged:
                raise DataError(
                    f"{name}: expected a relevant document, but no judgement has a score above 0."
                )
            asked = {name: text for name, text in queries.items() if name in judged}
            self.dataset["default"][split] = RetrievalSplitData(
                corpus=corpus, queries=text_table(asked), relevant_docs=judged, top_ranked=None
            )
            self._passages[split] = check.judged_passages(rows, judged_texts)
            n = len(queries) - len(asked)
            self.unjudged[split] = []
            if n:
                self.unjudged[split].append(
                    f"{name}: {n:,} of {len(queries):,} queries have no relevant document and are not scored."
                )
        self.data_loaded = True

    def passages(self, split: str) -> Passages:
        """The judged passages of a split. They are no part of the identity: scores of documents do not need them."""
        return self._passages[split]

    def identity(self) -> str:
        """A hash of everything that was read."""
        parts = "".join(data_identity(self, split) for split in self.judgement_sources)
        return hashlib.sha256(parts.encode()).hexdigest()[:16]


def check_language(language: str) -> None:
    """Raise InputError if mteb does not know a language's code."""
    try:
        check_language_code(language)
    except (ValueError, TypeError):
        raise InputError(
            f"a language must be an ISO 639-3 code, such as deu or deu-Latn, got {language!r}."
        ) from None
