"""How a document is represented, and what search does with it. Both are parameters of every name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from mteb_longembed.errors import IncompatibleError, InputError
from mteb_longembed.names.parameters import DEFAULT_WEIGHT, SEARCH_PARAMETERS, VECTORS

#: Similarities of single vectors for which the best of several vectors can be taken.
_COMPARABLE = (None, "cosine", "dot")


@dataclass(frozen=True)
class Representation:
    """How many vectors a document has.

    Args:
        vectors: content tokens for each vector, or `window` for one vector for each window. None for one vector for
            each document.
    """

    vectors: int | Literal["window"] | None = None

    @classmethod
    def read(cls, value: object, strategy: str, cuts_windows: bool) -> Representation:
        """The representation that a name or an argument gives.

        Raises:
            InputError: if the value is not allowed for `vectors`.
            IncompatibleError: if it is `window` and the strategy cuts no windows.
        """
        vectors = VECTORS.read(value)
        if isinstance(vectors, int) and vectors < 1:
            raise InputError(f"vectors must be at least 1 content token for each vector, got {vectors}.")
        if vectors == "window" and not cuts_windows:
            raise IncompatibleError(
                f"vectors=window needs a strategy that cuts windows, got {strategy}; use pcw, or vectors=N."
            )
        return cls(vectors)

    def settings(self) -> dict[str, object]:
        """The settings that are written in a name."""
        return {} if self.vectors is None else {"vectors": self.vectors}

    def check(self, base: str, pooling: str | tuple[str, ...] | None, similarity: str | None) -> None:
        """Check that a base can give several vectors.

        Args:
            base: its name.
            pooling: how it makes one vector from its tokens. None if that is not known yet.
            similarity: how it compares vectors. None for sentence-transformers' default, the cosine.

        Raises:
            IncompatibleError: if the base cannot give several vectors.
        """
        if self.vectors is None:
            return
        if similarity not in _COMPARABLE:
            raise IncompatibleError(
                f"several vectors are compared by cosine or dot product, and {base} compares by {similarity}: "
                "leave out vectors."
            )
        if self.vectors != "window" and pooling not in (None, "mean"):
            kind = pooling if isinstance(pooling, str) else "+".join(pooling)
            raise IncompatibleError(
                f"vectors={self.vectors} averages the tokens of each span, but {base} was trained with {kind} "
                "pooling, not mean: use pcw with vectors=window."
            )


@dataclass(frozen=True)
class SearchSettings:
    """Settings that change search but no vector of the encoder.

    Args:
        center: which mean is subtracted: that of the documents (`corpus`), or also that of the queries from the
            queries (`corpus+queries`).
        fuse: the other score that is fused with the encoder's.
        weight: share of the encoder's score in the fused score, between 0 and 1. None without `fuse`.
        index: FAISS's index of all vectors: `flat` compares all vectors, `ivf` only some. None compares all vectors
            without FAISS.
    """

    center: Literal["corpus", "corpus+queries"] | None = None
    fuse: Literal["bm25"] | None = None
    weight: float | None = None
    index: Literal["flat", "ivf"] | None = None

    @classmethod
    def read(cls, given: Mapping[str, object]) -> SearchSettings:
        """The settings that a name gives. None stands for a setting that is not given.

        Raises:
            InputError: if a value breaks its rule.
        """
        read: dict[str, Any] = {key: SEARCH_PARAMETERS[key].read(value) for key, value in given.items()}
        settings = cls(**read)
        if settings.weight is not None and settings.fuse is None:
            raise InputError(f"weight needs fuse=bm25, got weight={settings.weight:g} without it.")
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
        """The settings that are written in a name."""
        found = {"center": self.center, "fuse": self.fuse, "index": self.index}
        if self.weight != DEFAULT_WEIGHT:
            found["weight"] = self.weight  # type: ignore[assignment]
        return {key: value for key, value in found.items() if value is not None}
