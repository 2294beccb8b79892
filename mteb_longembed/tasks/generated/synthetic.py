"""Retrieval tasks whose documents are generated here: offline, the same on every machine, at 13 lengths.

A split's name contains its document length in tokens. The text to find is at a random sentence end, and `depth` says
where (0 = the beginning).
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
from mteb_longembed.values import read_fields

LENGTHS = (256, 512, 1024, 2048, 4096, 8192, 16384, 32768)
LONGER = (65536, 131072, 262144, 524288, 1048576)
#: The eight splits of the benchmark, then the longer splits, which run only on request.
SPLITS = tuple(f"test_{length}" for length in LENGTHS + LONGER)
N_QUERIES = 50

# Digits of a depth in a name, and so of a depth.
_DEPTH_DIGITS = 9
_SCHEMA = pa.schema({"id": "string", "text": "string", "depth": "float64", "n_words": "int64"})


@dataclass(frozen=True)
class Recipe:
    """The settings of a generated task."""

    seed: Annotated[int, Field(ge=0)] = 0  # of all draws
    n_documents: int = 100  # of a split, from 50 to 10,000; to 100 for Needle, which has a hundred facts
    # of the hidden text; None: a random place
    depth: Annotated[float, Field(ge=0, le=1), "(0 is the beginning, 1 the end)"] | None = None
    kind: str = ""  # of a needle: `paraphrase`; "" means a plain one
    n_queries: int = N_QUERIES  # of a split, from 50 to the number of documents

    def __post_init__(self) -> None:
        read_fields(self)

    def suffix(self) -> str:
        """Return the end of the task's name: the settings that differ from the default.

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
    """Build the metadata of a task whose documents we make, from what it does not share with the others."""
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
    """A generated task. A subclass says which texts are hidden, and in which sentences."""

    metadata: LongEmbedMetadata
    generator: ClassVar[str]  # raise it when the same recipe gives other documents
    recipe: ClassVar[Recipe] = Recipe()
    most_documents: ClassVar[int]  # of a split
    kinds: ClassVar[Mapping[str, str]] = {"": ""}  # what the texts of each kind add to a revision
    k_values = K_VALUES

    @classmethod
    @abstractmethod
    def hidden(cls, draws: Draws, n: int) -> list[Hidden]:
        """Return the texts that the n documents hide."""

    @classmethod
    @abstractmethod
    def make_haystack(cls, draws: Draws, length: int, hidden: Sequence[Hidden]) -> Haystack:
        """Build the text that the documents of a split share. They then have `length` tokens on average."""

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
        asked = draws.distinct(recipe.n_queries, len(hidden))
        queries = [{"id": f"q{i}", "text": hidden[document].query} for i, document in enumerate(asked)]
        judgements = {f"q{i}": {f"d{document}": 1} for i, document in enumerate(asked)}
        corpus = Corpus(haystack, hidden, positions)
        return {"corpus": corpus, "queries": queries, "relevant_docs": judgements}

    def load_data(self, num_proc: int | None = None, **kwargs: object) -> None:
        """Generate only the wanted splits.

        Raises:
            UnknownNameError: a split in `eval_splits` is not in `SPLITS`.
        """
        if self.data_loaded:
            return
        self.dataset = {"default": {}}
        for split in self.eval_splits:
            data = self.generate(split)
            # one document at a time, so that a large corpus is in memory only once
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
        given: Settings = settings
        recipe = Recipe(**given)
        if recipe.kind not in cls.kinds:
            raise UnknownNameError(f"kind of {cls.metadata.name}", recipe.kind, filter(None, cls.kinds))
        if recipe.depth is not None:
            # the name says all of it
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
        made = cast("type[Self]", type(cls.__name__, (cls,), body))
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
        return made() if suffix else cls()
