"""What a name asks of a search: fusion with BM25, corpus weights, whitening, how scores are made; and of BM25 alone."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, cast

from mteb.models.model_implementations.bm25 import bm25_s
from pydantic import Field

from mteb_longembed.encoders.checkpoint import Checkpoint, ModelSpec
from mteb_longembed.encoders.vectors import check_averages
from mteb_longembed.errors import InputError
from mteb_longembed.names import (
    BM25_SETTINGS,
    SEARCH_SETTINGS,
    Power,
    bm25_settings,
    holds_model,
    read_fields,
    read_tokens,
    split_name,
    split_settings,
)

#: What a nat of words counts beside one of vectors; experiments/ways.md says how it was chosen.
TRUST = 1.0
#: Words of a window of BM25. Neighbouring windows share half of them.
WINDOW = 200


@dataclass(frozen=True)
class _Settings:
    """Values of a name, which may be given as text and are kept typed. None stands for the default."""

    @property
    def given(self) -> dict[str, Any]:
        """The settings that are not their defaults."""
        return {key: value for key, value in asdict(self).items() if value is not None}

    def _leave_out(self, name: str, default: object) -> None:
        """A default that is given is as none, so that a search has one name."""
        if getattr(self, name) == default:
            object.__setattr__(self, name, None)  # the instance is frozen for others


@dataclass(frozen=True)
class SearchSettings(_Settings):
    """Settings that change a search and no model."""

    fuse: Literal["words"] | None = None  #: `words` adds the evidence of words to that of vectors
    trust: Annotated[float, Field(gt=0)] | None = None  #: what the evidence of words counts
    #: by what scores of vectors are divided to be evidence; None: their spread in the corpus
    temperature: Annotated[float, Field(gt=0)] | None = None
    #: the rule by which tokens count by their rarity in the corpus
    weights: Literal["sif", "idf"] | None = None
    whiten: Power | None = None  #: the power of a map that is fitted on the corpus' vectors
    #: `softmax` lets all vectors of a document give its score, and not only the best one
    score: Literal["max", "softmax"] | None = None
    query: Literal["sentences"] | None = None  #: `sentences` asks each sentence of a query on its own

    def __post_init__(self) -> None:
        read_fields(self)
        self._leave_out("score", "max")
        self._leave_out("trust", TRUST)
        if self.trust is not None and self.fuse is None:
            raise InputError(f"trust needs fuse=words, got trust={self.trust:g} without it.")
        if self.temperature is not None and self.fuse is None and self.score is None:
            raise InputError(
                f"temperature needs fuse=words or score=softmax, got temperature={self.temperature:g} without them."
            )

    def __bool__(self) -> bool:
        return bool(self.given)

    def check_fits(self, checkpoint: Checkpoint) -> None:
        """Refuse settings that a model cannot have. No weights are read.

        Raises:
            IncompatibleError, InputError: if one does not fit.
        """
        if self.query is not None and checkpoint.vectors is None:
            raise InputError(
                f"query={self.query} asks for places in a document, so it needs vectors=window or vectors=N: "
                "add one."
            )
        if self.weights is not None:
            base = checkpoint.base
            check_averages(f"weights={self.weights}", base.name, base.pooling)


@dataclass(frozen=True)
class BM25Settings(_Settings):
    """What a name such as `bm25:window=200,query=sentences` or `bm25@512` asks for."""

    #: words of a window; None: whole documents only
    window: Annotated[int, Field(ge=2), "words"] | None = None
    query: Literal["sentences"] | None = None  #: `sentences` asks each sentence of a query on its own
    #: how windows make a document's score: all of them (`softmax`), or the best one (`max`); None: all
    score: Literal["max", "softmax"] | None = None
    neighbours: str | None = None  #: the model by whose vectors words have neighbours, as it is typed
    target_len: int | None = None  #: only so many tokens of each document are read; None: all of it

    def __post_init__(self) -> None:
        read_fields(self, "bm25's ")
        if self.window is None and self.score is not None:
            raise InputError(f"score={self.score} needs windows, such as bm25:window=200,score={self.score}.")
        self._leave_out("score", "softmax")

    @classmethod
    def parse(cls, text: str) -> BM25Settings:
        """Read a name.

        Raises:
            InputError: if a value breaks its rule.
        """
        if text in ("bm25", bm25_s.name):
            return cls()
        target, settings = bm25_settings(text)
        for key in settings:
            if key not in BM25_SETTINGS:
                raise InputError(f"bm25 takes {', '.join(BM25_SETTINGS)}, got {key} in {text!r}.")
        length = None
        if target is not None:
            length = read_tokens("the target", target)
        return cls(**cast("dict[str, Any]", settings), target_len=length)


def read_name(text: str) -> tuple[ModelSpec, SearchSettings]:
    """The model and the search that a name asks for.

    Raises:
        InputError: if the name or a value breaks a rule.
    """
    given = {}
    if not holds_model(text):  # a folder may have any signs in its name
        given = split_settings(text, split_name(text)[3])
    settings = {key: given[key] for key in SEARCH_SETTINGS if key in given}
    if "neighbours" in settings:
        raise InputError(
            f"neighbours is a setting of BM25 alone, got it in {text!r}: leave it out, because with fuse=words "
            "they are those of the model itself."
        )
    return ModelSpec.parse(text, without=settings), SearchSettings(**cast("dict[str, Any]", settings))


def typed_name(spec: ModelSpec, settings: SearchSettings | None = None) -> str:
    """The name as it is typed: a colon before its settings, which in folders, where none may stand, is a comma.

    Args:
        spec: the model.
        settings: the search; None for the model alone.
    """
    text = spec.name((settings or SearchSettings()).given)
    return spec.base + text[len(spec.base) :].replace(",", ":", 1)
