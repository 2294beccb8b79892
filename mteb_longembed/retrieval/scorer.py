"""The protocol of all search methods: a scorer returns one matrix `[queries, documents]`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

import numpy as np

from mteb_longembed.names import Identity, Settings
from mteb_longembed.sentences import Span as Span
from mteb_longembed.sentences import sentences
from mteb_longembed.values import ENGLISH

from .scores import mean_of_queries

if TYPE_CHECKING:
    from mteb.abstasks.task_metadata import TaskMetadata

#: Fewer different documents than this have no distribution of scores.
FEW = 5


@dataclass(frozen=True, eq=False)
class Documents:
    """The documents of a search."""

    ids: Sequence[str]  #: one for each document, all different
    #: texts as models read them, title first. A sequence on disk may have further texts after the last id's
    texts: Sequence[str]
    language: str = ENGLISH  #: language of stop words, stems and word borders, as in mteb
    #: the task of the documents: some models have prompts for some tasks
    task: TaskMetadata | None = None
    #: options that mteb passes to encoders, such as `batch_size`
    options: Settings = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"Documents({len(self):,}, {self.language})"

    @cached_property
    def indices(self) -> dict[str, int]:
        """The index of each document by its id."""
        return {key: index for index, key in enumerate(self.ids)}

    @cached_property
    def are_few(self) -> bool:
        """Whether fewer than `FEW` of the texts are different.

        >>> Documents("abc", ["a", "b", "a"]).are_few, Documents("abcde", "abcde").are_few
        (True, False)
        """
        different: set[str] = set()
        for text in islice(iter(self.texts), len(self)):
            different.add(text)
            if len(different) == FEW:
                return False
        return True

    def prompt(
        self, prompts: Mapping[str, str | None] | None, role: Literal["query", "document"]
    ) -> str | None:
        """Return a model's prompt for the task, in mteb's order of names; None without one.

        Without a task it is the prompt of a retrieval.
        """
        name, task = (None, "Retrieval") if self.task is None else (self.task.name, self.task.type)
        for key in (f"{name}-{role}", name, f"{task}-{role}", task, role):
            if key is not None and key in (prompts or {}):
                return (prompts or {})[key]
        return None


def whole_documents(documents: Documents, indices: Sequence[Sequence[int]]) -> list[list[Span]]:
    """Return whole documents as passages, for a scorer without passages."""
    return [[(0, len(documents.texts[index])) for index in of_query] for of_query in indices]


def by_sentence(scores: Callable[[Sequence[str]], np.ndarray], queries: Sequence[str]) -> np.ndarray:
    """Average the scores of each query's sentences, each searched on its own, float32 `[queries, documents]`."""
    split = list(map(sentences, queries))
    counts = np.array(list(map(len, split)))
    return mean_of_queries(scores(list(chain.from_iterable(split))), counts)


@runtime_checkable
class Scorer(Protocol):
    """A search method. Fusion, evaluation, ties and comparisons are arithmetic on its scores.

    An `Index` is one, and keeps its fit when documents come and go; any other scorer is fitted again.
    """

    @property
    def name(self) -> str:
        """The name of its results."""

    @property
    def revision(self) -> str:
        """The revision of its results."""

    def fit(self, documents: Documents) -> None:
        """Index documents, and forget the documents of the last call. The same documents are not indexed again."""

    def scores(self, queries: Sequence[str]) -> np.ndarray:
        """Return the score of each document for each query, `[queries, documents]`; minus infinity if not ranked."""

    def passages(self, queries: Sequence[str], indices: Sequence[Sequence[int]]) -> list[list[Span]]:
        """Return for each query the best passage of each of its documents, given by index."""


class Identified:
    """A scorer or an encoder whose results have a name in the parts that mteb has for it."""

    identity: Identity

    @property
    def name(self) -> str:
        """The name of its results."""
        return self.identity.name

    @property
    def revision(self) -> str:
        """The revision of its results."""
        return self.identity.result_revision
