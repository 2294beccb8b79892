"""Optional abilities of scorers: take and drop documents, find the best in two passes, be saved, show passages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from mteb_longembed.values import Precision

from .scorer import Documents

if TYPE_CHECKING:
    from .encoding_scorer import EncodingScorer
    from .storage import Reader, Writer


@runtime_checkable
class GrowingScorer(Protocol):
    """A scorer that takes further documents."""

    def add(self, documents: Documents) -> None:
        """Index the previous documents followed by further ones, and keep what was fitted."""


@runtime_checkable
class ShrinkingScorer(Protocol):
    """A scorer that drops documents."""

    def keep(self, documents: Documents, kept: np.ndarray) -> None:
        """Keep some of the previous documents, bool `[previous documents]`, and what was fitted."""


@runtime_checkable
class TwoPassScorer(Protocol):
    """A scorer that need not compare all documents to find the best ones."""

    def best_scores(self, queries: Sequence[str], k: int) -> np.ndarray:
        """Return `scores` of the documents that may be among the best `k`, and minus infinity for all others."""


@runtime_checkable
class SavableScorer(Protocol):
    """A scorer that can be saved and restored."""

    @property
    def versions(self) -> dict[str, str]:
        """The versions of the algorithms and libraries, beside the model's revision, that its index depends on."""

    def save(self, writer: Writer) -> None:
        """Write the index and what was fitted."""

    def restore(self, reader: Reader, documents: Documents) -> None:
        """Restore what `save` has written."""


@runtime_checkable
class ScorerWithVectors(Protocol):
    """A scorer over an encoding, or a hybrid. An index of BM25 alone opens without importing these."""

    @property
    def shown(self) -> EncodingScorer:
        """The scorer whose passages are shown."""

    def store_as(self, precision: Precision) -> None:
        """Store vectors at a precision. The scorer must have no documents yet."""
