"""Retrieval tasks with documents generated offline, identical on every machine, at 13 lengths.

A split's name contains its document length in tokens. The text to find is at a random sentence end; `depth` is its
position (0 is the beginning).
"""

import hashlib
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Self, cast

import pyarrow as pa
from datasets import Dataset
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData
from pydantic import Field

from mteb_longembed.data.texts import K_VALUES
from mteb_longembed.errors import InputError, UnknownNameError
from mteb_longembed.files import Json
from mteb_longembed.names import Settings
from mteb_longembed.tasks.generated.haystack import Corpus, Draws, Haystack, Hidden
from mteb_longembed.tasks.task_metadata import CITATION, PAPER, LongEmbedMetadata
from mteb_longembed.values import Validated

LENGTHS = (256, 512, 1024, 2048, 4096, 8192, 16384, 32768)
LONGER = (65536, 131072, 262144, 524288, 1048576)
#: The eight splits of the benchmark, then the longer splits, which run only on request.
SPLITS = tuple(f"test_{length}" for length in LENGTHS + LONGER)
N_QUERIES = 50

# Digits of a depth in a name, to which depths are rounded.
_DEPTH_DIGITS = 9
_SCHEMA = pa.schema({"id": "string", "text": "string", "depth": "float64", "n_words": "int64"})


@dataclass(frozen=True)
class Recipe(Validated):
    """The settings of a generated task."""

    seed: Annotated[int, Field(ge=0)] = 0  # random seed
    n_documents: int = 100  # documents of a split, from 50 to 10,000 (Needle: to 100, its number of facts)
    # position of the hidden text; None: random
    depth: Annotated[float, Field(ge=0, le=1), "(0 is the beginning, 1 the end)"] | None = None
    kind: str = ""  # kind of needles: `paraphrase`; "" means plain ones
    n_queries: int = N_QUERIES  # queries of a split, from 50 to the number of documents

    def suffix(self) -> str:
        """Return the end of the task's name: the settings that differ from the default.

        >>> Recipe(seed=7, depth=0.25, kind="paraphrase").suffix()
        '-paraphrase-seed7-depth0.25'
        """
        depth = None
        if self.depth is not None:
            depth = f"{self.depth:.{_DEPTH_DIGITS}f}".rstrip("0").rstrip(".")
        settings = (
            ("", self.kind, ""),
            ("seed", self.seed, 0),
            ("docs", self.n_documents, Recipe.n_documents),
            ("depth", depth, None),
            ("queries", self.n_queries, N_QUERIES),
        )
        return "".join(f"-{name}{value}" for name, value, default in settings if value != default)


def generated(module: str, revision: str, **fields: object) -> LongEmbedMetadata:
    """Build the metadata of a generated task from the fields that differ between tasks."""
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


class SyntheticRetrieval(AbsTaskRetrieval):
    """A generated task. A subclass defines the hidden texts and the text around them."""

    metadata: LongEmbedMetadata
    generator: ClassVar[str]  # version, raised when the same recipe generates other documents
    recipe: ClassVar[Recipe] = Recipe()
    most_documents: ClassVar[int]  # maximum documents of a split
    kinds: ClassVar[Mapping[str, str]] = {"": ""}  # kind -> hash of its texts, added to the revision
    k_values = K_VALUES

    @classmethod
    @abstractmethod
    def hidden(cls, draws: Draws, n: int) -> list[Hidden]:
        """Return the texts that the n documents hide."""

    @classmethod
    @abstractmethod
    def make_haystack(cls, draws: Draws, length: int, hidden: Sequence[Hidden]) -> Haystack:
        """Build the common text of the documents of a split, which then have `length` tokens on average."""

    @classmethod
    def generate(cls, split: str) -> Json:
        """Generate the corpus, rows of queries and relevance judgements of a split.

        Raises:
            UnknownNameError: the split is not in `SPLITS`.
        """
        if split not in SPLITS:
            raise UnknownNameError(f"split of {cls.metadata.name}", split, SPLITS)
        recipe = cls.recipe
        length = int(split.removeprefix("test_"))
        draws = Draws(f"{cls.generator}/{cls.__name__}/{recipe.seed}/{length}")
        hidden = cls.hidden(draws, recipe.n_documents)
        haystack = cls.make_haystack(draws, length, hidden)
        positions = [haystack.draw_end(draws, recipe.depth) for _ in hidden]
        relevant = draws.distinct(recipe.n_queries, len(hidden))
        queries = [{"id": f"q{i}", "text": hidden[document].query} for i, document in enumerate(relevant)]
        judgements = {f"q{i}": {f"d{document}": 1} for i, document in enumerate(relevant)}
        corpus = Corpus(haystack, hidden, positions)
        return {"corpus": corpus, "queries": queries, "relevant_docs": judgements}

    def load_data(self, num_proc: int | None = None, **kwargs: object) -> None:
        """Generate only the requested splits.

        Raises:
            UnknownNameError: a split in `eval_splits` is not in `SPLITS`.
        """
        if self.data_loaded:
            return
        self.dataset = {"default": {}}
        for split in self.eval_splits:
            data = self.generate(split)
            # document by document, so that a large corpus is in memory only once
            rows = (pa.RecordBatch.from_pylist([row], schema=_SCHEMA) for row in data["corpus"])
            self.dataset["default"][split] = RetrievalSplitData(
                corpus=Dataset(pa.Table.from_batches(rows, _SCHEMA)),
                queries=Dataset.from_list(data["queries"]),
                relevant_docs=data["relevant_docs"],
                top_ranked=None,
            )
        self.data_loaded = True

    @classmethod
    def variant(cls, **settings: str | float | None) -> Self:
        """Return the task with other settings, the fields of `Recipe`, under its own name and revision.

        Raises:
            InputError: a value is outside its range.
            UnknownNameError: the task has no such kind.

        >>> from mteb_longembed.tasks import LongEmbedNeedle
        >>> LongEmbedNeedle.variant(kind="paraphrase", seed=7).metadata.name
        'LongEmbedNeedle-paraphrase-seed7'
        """
        values: Settings = settings
        recipe = Recipe(**values)
        if recipe.kind not in cls.kinds:
            raise UnknownNameError(f"kind of {cls.metadata.name}", recipe.kind, filter(None, cls.kinds))
        if recipe.depth is not None:
            # no more digits than the name has
            recipe = replace(recipe, depth=abs(round(recipe.depth, _DEPTH_DIGITS)))
        suffix = recipe.suffix()
        revision = f"{cls.metadata.revision}{suffix}{cls.kinds[recipe.kind]}"
        digest = hashlib.sha256(revision.encode()).hexdigest()[:12]
        fields = {
            "name": cls.metadata.name + suffix,
            "description": f"{cls.metadata.description} Variant: {suffix.strip('-').replace('-', ', ')}.",
            "dataset": {**cls.metadata.dataset, "revision": f"{cls.generator}-{digest}"},
        }
        metadata = cls.metadata.model_copy(update=fields)
        body = {"recipe": recipe, "metadata": metadata, "__module__": cls.__module__}
        variant = cast("type[Self]", type(cls.__name__, (cls,), body))
        name = cls.metadata.name
        if not N_QUERIES <= recipe.n_documents <= cls.most_documents:
            raise InputError(
                f"n_documents of {name} must be from {N_QUERIES} to {cls.most_documents} documents, got "
                f"{recipe.n_documents}."
            )
        if not N_QUERIES <= recipe.n_queries <= recipe.n_documents:
            raise InputError(
                f"n_queries of {name} must be from {N_QUERIES} to the number of documents, which is "
                f"{recipe.n_documents}, got {recipe.n_queries}."
            )
        return variant() if suffix else cls()
