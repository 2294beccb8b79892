"""What a name asks of a search: fusion with BM25, corpus weights, whitening, how scores are made."""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Literal, cast

from pydantic import Field

from mteb_longembed.encoders.checkpoint import Checkpoint, ModelSpec
from mteb_longembed.encoders.vectors import check_averages
from mteb_longembed.errors import InputError
from mteb_longembed.names import SEARCH_SETTINGS, Power, read_fields, settings_of

#: What a nat of words counts beside one of vectors; experiments/ways.md says how it was chosen.
TRUST = 1.0


@dataclass(frozen=True)
class SearchSettings:
    """Settings that change a search and no model. Values may be given as text; they are kept typed.

    None stands for the default.
    """

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
        if self.score == "max":
            self._keep("score", None)
        if self.trust is not None and self.fuse is None:
            raise InputError(f"trust needs fuse=words, got trust={self.trust:g} without it.")
        if self.temperature is not None and self.fuse is None and self.score is None:
            raise InputError(
                f"temperature needs fuse=words or score=softmax, got temperature={self.temperature:g} without them."
            )
        if self.trust == TRUST:
            self._keep("trust", None)

    def _keep(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)  # the instance is frozen for others

    def __bool__(self) -> bool:
        return bool(self.given)

    @property
    def given(self) -> dict[str, Any]:
        """The settings that are not their defaults."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {key: value for key, value in values.items() if value is not None}

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


def read_name(text: str) -> tuple[ModelSpec, SearchSettings]:
    """The model and the search that a name asks for.

    Raises:
        InputError: if the name or a value breaks a rule.
    """
    given = settings_of(text)
    settings = {key: given[key] for key in SEARCH_SETTINGS if key in given}
    if "neighbours" in settings:
        raise InputError(
            f"neighbours is a setting of BM25 alone, got it in {text!r}: leave it out, because with fuse=words "
            "they are those of the model itself."
        )
    return ModelSpec.parse(text, without=settings), SearchSettings(**cast("dict[str, Any]", settings))


def typed_name(
    spec: ModelSpec, settings: SearchSettings | None = None, *, left_out: Iterable[str] = ()
) -> str:
    """The name as it is typed: a colon before its settings, which in folders, where none may stand, is a comma.

    Args:
        spec: the model.
        settings: the search; None for the model alone.
        left_out: settings of the model that the name does not give.
    """
    spec = replace(spec, **cast("dict[str, Any]", dict.fromkeys(left_out)))
    text = spec.with_settings((settings or SearchSettings()).given)
    return spec.base + text[len(spec.base) :].replace(",", ":", 1)
