"""Retrieval tasks whose documents are generated here: offline, the same on every machine, at 13 lengths.

A split's name contains its document length in tokens. The text to find is at a random sentence end, and `depth` says
where (0 = the beginning).
"""

from __future__ import annotations

import hashlib
import tempfile
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, TypedDict, cast

import datasets
import pyarrow as pa
from datasets import Dataset
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData

from mteb_longembed.data.check import Passages
from mteb_longembed.data.texts import K_VALUES
from mteb_longembed.errors import DataError, InputError, UnknownNameError
from mteb_longembed.tasks.generated.haystack import Corpus, Draws, Haystack, Hidden
from mteb_longembed.tasks.task_metadata import CITATION, PAPER, LongEmbedMetadata

LENGTHS = (256, 512, 1024, 2048, 4096, 8192, 16384, 32768)
LONGER = (65536, 131072, 262144, 524288, 1048576)
N_QUERIES = 50

# Digits of a depth in a name, and so of a depth.
_DEPTH_DIGITS = 9
_IN_MEMORY = 64 * 2**20  # characters of a corpus; a larger one is written to disk document by document
_SCHEMA = pa.schema({"id": "string", "text": "string", "depth": "float64", "n_words": "int64"})


@dataclass(frozen=True)
class Recipe:
    """The settings of a generated task."""

    seed: int = 0  # of all draws
    n_documents: int = 100  # of a split, from 50 to 10,000; to 100 for Needle, which has a hundred facts
    depth: float | None = None  # of the hidden text, 0 (the beginning) to 1 (the end); None: a random place
    kind: str = ""  # of a needle: `paraphrase`; "" means a plain one
    n_queries: int = N_QUERIES  # of a split, from 50 to the number of documents

    def suffix(self) -> str:
        """The end of the task's name: the settings that differ from the default.

        >>> Recipe(seed=7, depth=0.25, kind="paraphrase").suffix()
        '-paraphrase-seed7-depth0.25'
        """
        depth = None
        if self.depth is not None:
            depth = f"{self.depth:.{_DEPTH_DIGITS}f}".rstrip("0").rstrip(".")
        given = (
            ("", self.kind, ""),
            ("seed", self.seed, 0),
            ("docs", self.n_documents, Recipe.n_documents),
            ("depth", depth, None),
            ("queries", self.n_queries, N_QUERIES),
        )
        return "".join(f"-{name}{value}" for name, value, default in given if value != default)


def generated(module: str, revision: str, **fields: object) -> LongEmbedMetadata:
    """The metadata of a task whose documents this package makes, from what it does not share with the others."""
    common = {
        "dataset": {"path": module, "revision": revision},
        "reference": PAPER,
        "type": "Retrieval",
        "category": "t2t",
        "modalities": ["text"],
        "eval_splits": [f"test_{length}" for length in LENGTHS],
        "eval_langs": ["eng-Latn"],
        "main_score": "ndcg_at_1",
        "date": ("2026-01-01", "2026-11-21"),
        "license": "apache-2.0",
        "annotations_creators": "algorithmic",
        "dialect": [],
        "sample_creation": "created",
        "bibtex_citation": CITATION,
    }
    return LongEmbedMetadata.model_validate({**common, **fields})


class SplitData(TypedDict):
    """The corpus rows, query rows and relevance judgements of a split."""

    corpus: Corpus
    queries: list[dict[str, str]]
    relevant_docs: dict[str, dict[str, int]]


class SyntheticRetrieval(AbsTaskRetrieval):
    """A generated task. A subclass says which texts are hidden, and in which sentences."""

    metadata: LongEmbedMetadata
    generator: ClassVar[str]  # raise it when the same recipe gives other documents
    recipe: ClassVar[Recipe] = Recipe()
    kinds: ClassVar[Sequence[str]] = ()
    k_values = K_VALUES
    _folder: tempfile.TemporaryDirectory[str] | None = None

    @classmethod
    @abstractmethod
    def most_documents(cls) -> int:
        """How many documents a split can have at most."""

    @classmethod
    def digest_of(cls, recipe: Recipe) -> str:
        """A hash of texts that only this recipe has."""
        return ""

    @classmethod
    @abstractmethod
    def hidden(cls, draws: Draws, n: int) -> list[Hidden]:
        """The texts that the n documents hide."""

    @classmethod
    @abstractmethod
    def sentences(cls, draws: Draws) -> Iterator[str]:
        """An endless stream of sentences to hide them in, each with the white space after it."""

    @classmethod
    @abstractmethod
    def make_haystack(cls, draws: Draws, length: int, hidden: Sequence[Hidden]) -> Haystack:
        """The text that the documents of a split share. With it, documents have `length` tokens on average."""

    @classmethod
    def known_splits(cls) -> tuple[str, ...]:
        """The eight splits of the benchmark, then the longer splits, which run only on request."""
        return tuple(f"test_{length}" for length in LENGTHS + LONGER)

    @classmethod
    def generate(cls, split: str) -> SplitData:
        """Make the data of a split.

        Raises:
            UnknownNameError: the split is not in `known_splits()`.
        """
        if split not in cls.known_splits():
            raise UnknownNameError(f"split of {cls.metadata.name}", split, cls.known_splits())
        recipe = cls.recipe
        length = int(split.removeprefix("test_"))
        draws = Draws(f"{cls.generator}/{cls.__name__}/{recipe.seed}/{length}")
        hidden = cls.hidden(draws, recipe.n_documents)
        haystack = cls.make_haystack(draws, length, hidden)
        positions = [haystack.draw_end(draws, recipe.depth) for _ in hidden]
        asked = draws.distinct(recipe.n_queries, len(hidden))
        queries = [{"id": f"q{i}", "text": hidden[document].query} for i, document in enumerate(asked)]
        judgements = {f"q{i}": {f"d{document}": 1} for i, document in enumerate(asked)}
        corpus = Corpus(haystack, hidden, positions)
        return {"corpus": corpus, "queries": queries, "relevant_docs": judgements}

    @classmethod
    def passages(cls, split: str) -> Passages:
        """Where the answers of a split are: for each query, the sentence that its document hides."""
        data = cls.generate(split)
        passages = Passages()
        for query, (name,) in data["relevant_docs"].items():
            number = int(name.removeprefix("d"))
            sentence = data["corpus"].hidden[number].text
            start = data["corpus"][number]["text"].index(sentence)
            passages[query] = {name: [(start, start + len(sentence))]}
        return passages

    def load_data(self, num_proc: int | None = None, **kwargs: object) -> None:
        """Generate only the wanted splits. A corpus of more than 64 Mi characters goes to the disk.

        Raises:
            UnknownNameError: a split in `eval_splits` is not in `known_splits()`.
            DataError: the cache of `datasets` has no room for a large corpus.
        """
        if self.data_loaded:
            return
        self.dataset = {"default": {}}
        for split in self.eval_splits:
            data = self.generate(split)
            corpus, is_large = data["corpus"], data["corpus"].n_chars > _IN_MEMORY
            table = self._on_disk(split, corpus) if is_large else Dataset.from_list(list(corpus))
            queries = Dataset.from_list(data["queries"])
            judged = data["relevant_docs"]
            self.dataset["default"][split] = RetrievalSplitData(
                corpus=table, queries=queries, relevant_docs=judged, top_ranked=None
            )
        self.data_loaded = True

    def unload_data(self) -> None:
        """Forget the data, also those on disk."""
        super().unload_data()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _on_disk(self, split: str, corpus: Corpus) -> Dataset:
        """The corpus in a file below `HF_DATASETS_CACHE`, written and read with one document in memory at a time."""
        cache = Path(datasets.config.HF_DATASETS_CACHE)
        try:
            cache.mkdir(parents=True, exist_ok=True)
            self._folder = self._folder or tempfile.TemporaryDirectory(
                prefix="longembed-", dir=cache, ignore_cleanup_errors=True
            )
            path = Path(self._folder.name) / f"{split}.arrow"
            with path.open("wb") as file, pa.ipc.new_stream(file, _SCHEMA) as writer:
                for row in corpus:
                    writer.write_batch(pa.RecordBatch.from_pylist([row], schema=_SCHEMA))
        except OSError as error:
            raise DataError(
                f"{cache}: expected room for a generated corpus, got {error.strerror or error}: set HF_DATASETS_CACHE "
                "to a folder with more room, or ask for shorter splits or fewer documents."
            ) from error
        return Dataset.from_file(str(path))

    @classmethod
    def variant(cls, **settings: str | float | None) -> SyntheticRetrieval:
        """The task with other settings, the fields of `Recipe`, under a name and a revision of its own.

        Raises:
            InputError: a value is outside its range.
            UnknownNameError: the task has no such kind.

        >>> from mteb_longembed.tasks import LongEmbedNeedle
        >>> LongEmbedNeedle.variant(kind="paraphrase", seed=7).metadata.name
        'LongEmbedNeedle-paraphrase-seed7'
        """
        recipe = Recipe(**cast("dict[str, Any]", settings))
        if recipe.kind not in ("", *cls.kinds):
            raise UnknownNameError("kind of needle", recipe.kind, cls.kinds)
        for key in ("seed", "n_documents", "n_queries"):
            number = getattr(recipe, key)
            if isinstance(number, bool) or not isinstance(number, int) or number < 0:
                raise InputError(f"{key} must be a whole number of at least 0, got {number!r}.")
        if recipe.depth is not None:
            if not isinstance(recipe.depth, (int, float)) or not 0 <= recipe.depth <= 1:
                raise InputError(
                    f"depth must be from 0 (the beginning) to 1 (the end), got {recipe.depth!r}."
                )
            # the name says all of it
            recipe = replace(recipe, depth=abs(round(recipe.depth, _DEPTH_DIGITS)))
        suffix = recipe.suffix()
        revision = f"{cls.metadata.revision}{suffix}{cls.digest_of(recipe)}"
        digest = hashlib.sha256(revision.encode()).hexdigest()[:12]
        fields = {
            "name": cls.metadata.name + suffix,
            "description": f"{cls.metadata.description} Variant: {suffix.strip('-').replace('-', ', ')}.",
            "dataset": {**cls.metadata.dataset, "revision": f"{cls.generator}-{digest}"},
        }
        metadata = cls.metadata.model_copy(update=fields)
        body = {"recipe": recipe, "metadata": metadata, "__module__": cls.__module__}
        made = cast("type[SyntheticRetrieval]", type(cls.__name__, (cls,), body))
        name = cls.metadata.name
        most = made.most_documents()
        if not N_QUERIES <= recipe.n_documents <= most:
            raise InputError(
                f"n_documents of {name} must be from {N_QUERIES} to {most} documents, got {recipe.n_documents}."
            )
        if not N_QUERIES <= recipe.n_queries <= recipe.n_documents:
            raise InputError(
                f"n_queries of {name} must be from {N_QUERIES} to the number of documents, which is "
                f"{recipe.n_documents}, got {recipe.n_queries}."
            )
        return made() if suffix else cls()
