"""What represents a document, and what search does with it: both are parameters of every name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from mteb_longembed.errors import InputError, MisfitError
from mteb_longembed.names.parameters import DEFAULT_WEIGHT, SEARCH_PARAMETERS, VECTORS

#: Similarities of single vectors that the best of several vectors can be taken of.
_COMPARABLE = (None, "cosine", "dot")


@dataclass(frozen=True)
class Representation:
    """How many vectors a document has.

    Args:
        vectors: content tokens a vector, or `window` for one vector a window; None for one vector a document.
    """

    vectors: int | Literal["window"] | None = None

    @classmethod
    def read(cls, value: object, strategy: str, cuts_windows: bool) -> Representation:
        """The representation that a name or an argument asks for.

        Raises:
            InputError: if the value is none that `vectors` may be.
            MisfitError: if it is `window` and the strategy cuts none.
        """
        vectors = VECTORS.read(value)
        if isinstance(vectors, int) and vectors < 1:
            raise InputError(f"vectors must be at least 1 content token a vector, got {vectors}.")
        if vectors == "window" and not cuts_windows:
            raise MisfitError(
                f"vectors=window needs a strategy that cuts windows, got {strategy}; use pcw, or vectors=N."
            )
        return cls(vectors)

    def settings(self) -> dict[str, object]:
        """What of it stands in a name."""
        return {} if self.vectors is None else {"vectors": self.vectors}

    def check(self, base: str, pooling: str | tuple[str, ...] | None, similarity: str | None) -> None:
        """Whether a base can have several vectors.

        Args:
            base: its name.
            pooling: how it makes one vector of its tokens; None where nobody knows yet.
            similarity: how it compares vectors; None for sentence-transformers' default, the cosine.

        Raises:
            MisfitError: if it cannot.
        """
        if self.vectors is None:
            return
        if similarity not in _COMPARABLE:
            raise MisfitError(
                f"several vectors are compared by cosine or dot product, and {base} compares by {similarity}: "
                "leave out vectors."
            )
        if self.vectors != "window" and pooling not in (None, "mean"):
            kind = pooling if isinstance(pooling, str) else "+".join(pooling)
            raise MisfitError(
                f"vectors={self.vectors} averages the tokens of each span, and {base} was trained with {kind} "
                "pooling, not mean: use pcw with vectors=window."
            )


@dataclass(frozen=True)
class SearchSettings:
    """What changes search and no vector of the encoder.

    Args:
        center: whose mean vector is subtracted: documents' (`corpus`), or queries' too (`corpus+queries`).
        fuse: what the scores are fused with.
        weight: share of the encoder's score in the fused one, between 0 and 1; None without `fuse`.
        index: FAISS's index of all vectors: `flat` compares all of them, `ivf` a part; None compares all without FAISS.
    """

    center: Literal["corpus", "corpus+queries"] | None = None
    fuse: Literal["bm25"] | None = None
    weight: float | None = None
    index: Literal["flat", "ivf"] | None = None

    @classmethod
    def read(cls, given: Mapping[str, object]) -> SearchSettings:
        """The settings that a name asks for; None stands for what is not asked for.

        Raises:
            InputError: if a value breaks its rule.
        """
        read: dict[str, Any] = {key: SEARCH_PARAMETERS[key].read(value) for key, value in given.items()}
        settings = cls(**read)
        if settings.weight is not None and settings.fuse is None:
            raise InputError(f"weight belongs to fuse=bm25, got weight={settings.weight:g} without it.")
        if settings.fuse is None:
            return settings
        weight = DEFAULT_WEIGHT if settings.weight is None else settings.weight
        if not 0 < weight < 1:
            raise InputError(
                f"weight, the encoder's share of a fused score, must lie between 0 and 1, got {weight:g}."
            )
        return replace(settings, weight=weight)

    def __bool__(self) -> bool:
        return self != SearchSettings()

    def settings(self) -> dict[str, object]:
        """What of it stands in a name."""
        found = {"center": self.center, "fuse": self.fuse, "index": self.index}
        if self.weight != DEFAULT_WEIGHT:
            found["weight"] = self.weight  # type: ignore[assignment]
        return {key: value for key, value in found.items() if value is not None}
