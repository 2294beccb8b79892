"""What every way to search is: a scorer that gives one matrix `[queries, documents]`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from mteb.models.model_meta import ModelMeta

#: Start and end of a passage in characters of its document. The end is excluded.
Span = tuple[int, int]


@dataclass(frozen=True)
class Documents:
    """The documents of a search.

    Args:
        ids: one for each document, all different.
        texts: as models read them: title first.
        language: of stop words, stems and word borders, as mteb writes it.
    """

    ids: Sequence[str]
    texts: Sequence[str]
    language: str = "eng-Latn"

    def __len__(self) -> int:
        return len(self.ids)


class Scorer(Protocol):
    """A way to search. Fusion, evaluation, ties and comparisons are arithmetic on its scores."""

    #: mteb's description: name and revision.
    meta: ModelMeta
    #: The lowest score that is possible for any query and document. None if there is none.
    lowest: float | None

    def fit(self, documents: Documents) -> None:
        """Read documents, and forget those of the last call."""

    def scores(self, queries: Sequence[str]) -> np.ndarray:
        """The score of each document for each query, float32 `[queries, documents]`."""

    def passages(self, queries: Sequence[str], numbers: Sequence[Sequence[int]]) -> list[list[Span]]:
        """For each query, the best passage of each of these documents, by their numbers."""
