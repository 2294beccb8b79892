"""What every way to search is: a scorer that gives one matrix `[queries, documents]`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from mteb_longembed.names import Settings, name_of, revision_of
from mteb_longembed.sentences import Span as Span
from mteb_longembed.sentences import sentences
from mteb_longembed.values import ENGLISH

if TYPE_CHECKING:
    from mteb.abstasks.task_metadata import TaskMetadata
    from mteb.models.model_meta import ModelMeta


@dataclass(frozen=True, eq=False)
class Documents:
    """The documents of a search."""

    ids: Sequence[str]  #: one for each document, all different
    #: as models read them: title first. A sequence on disk may have further ones behind the ids' documents
    texts: Sequence[str]
    language: str = ENGLISH  #: of stop words, stems and word borders, as mteb writes it
    #: the task to which they belong: some models have prompts for some tasks
    task: TaskMetadata | None = None
    #: what mteb hands to encoders, such as `batch_size`
    options: Settings = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"Documents({len(self):,}, {self.language})"

    @cached_property
    def indices(self) -> dict[str, int]:
        """The index of each document by its id."""
        return {key: index for index, key in enumerate(self.ids)}

    @property
    def metadata(self) -> TaskMetadata:
        """The task's; for documents without a task, the type of a search."""
        if self.task is not None:
            return self.task
        # an index of BM25 alone opens without mteb
        from mteb_longembed.tasks.generated.passkey import LongEmbedPasskey

        fields = {"name": "Search", "eval_langs": [self.language]}
        return LongEmbedPasskey.metadata.model_copy(update=fields)


def whole_documents(documents: Documents, indices: Sequence[Sequence[int]]) -> list[list[Span]]:
    """Return the passages of a scorer that knows none: all of each document."""
    return [[(0, len(documents.texts[index])) for index in of_query] for of_query in indices]


def by_sentence(scores: Callable[[Sequence[str]], np.ndarray], queries: Sequence[str]) -> np.ndarray:
    """Average the scores of the sentences of each query, each searched on its own, float32 `[queries, documents]`."""
    parts = list(map(sentences, queries))
    counts = np.array(list(map(len, parts)))
    of_parts = scores(list(chain.from_iterable(parts)))
    sums: np.ndarray = np.add.reduceat(of_parts, np.cumsum(counts) - counts, axis=0)
    return sums / counts[:, None].astype(np.float32)


@runtime_checkable
class Scorer(Protocol):
    """A way to search. Fusion, evaluation, ties and comparisons are arithmetic on its scores.

    If it also has `add`, as a `GrowingScorer`, it keeps its fit when documents are added. Otherwise it is fitted again.
    """

    #: mteb's description: name and revision.
    meta: ModelMeta

    def fit(self, documents: Documents) -> None:
        """Read documents, and forget the documents of the last call. The same documents are not read again."""

    def scores(self, queries: Sequence[str]) -> np.ndarray:
        """Return each document's score for each query, `[queries, documents]`; minus infinity if it is not ranked."""

    def passages(self, queries: Sequence[str], indices: Sequence[Sequence[int]]) -> list[list[Span]]:
        """Return, for each query, the best passage of each of these documents, by their indices."""


def full_name(meta: ModelMeta) -> str:
    """Return the name of a model as users type it. mteb's name is the base's, with the rest as an experiment."""
    return name_of(str(meta.name), meta.experiment_kwargs)


def full_revision(meta: ModelMeta) -> str:
    """Return the base's revision and our algorithms' version. With the full name it tells all results apart."""
    return revision_of(meta.revision, meta.experiment_kwargs)
