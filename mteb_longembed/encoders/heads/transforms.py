"""Maps that are fitted on vectors of a corpus: each is one class, and one line of the registry."""

from collections.abc import Mapping
from typing import Protocol, Self

import numpy as np
from torch import nn

from .whitening import Whitening


class Transform(Protocol):
    """A map of pooled vectors, fitted on those of the pieces of a corpus. The cosine compares what it gives."""

    @classmethod
    def read(cls, value: object) -> float:
        """The setting of the map in a name or a call; InputError if it breaks its rule."""

    @classmethod
    def fit(cls, vectors: np.ndarray, setting: float, queries: np.ndarray | None = None) -> Self:
        """The map for vectors `[n, d]` of the corpus, and perhaps for vectors of example queries `[m, d]`."""

    def documents(self, rows: np.ndarray) -> np.ndarray:
        """The mapped vectors of documents, `[n, d]`."""

    def queries(self, rows: np.ndarray) -> np.ndarray:
        """The mapped vectors of queries, `[n, d]`."""

    def modules(self) -> list[nn.Module]:
        """The map as modules of sentence-transformers, which come last in a model."""


#: The name of its setting -> the map.
TRANSFORMS: Mapping[str, type[Transform]] = {"whiten": Whitening}
