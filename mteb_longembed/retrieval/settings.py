"""Search settings in names: query representation, fusion with BM25, weights, whitening; and the settings of BM25."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from pydantic import Field

from mteb_longembed.bm25_names import BM25_SETTINGS, MTEB_BM25, bm25_settings, is_bm25_name
from mteb_longembed.encoders.spec import ModelSpec
from mteb_longembed.errors import IncompatibleError, InputError
from mteb_longembed.names import SEARCH_SETTINGS, ModelName
from mteb_longembed.values import Power, read_fields, read_tokens

if TYPE_CHECKING:
    from mteb_longembed.encoders.checkpoint import Checkpoint

#: Weight of the lexical log-odds relative to the vectors' log-odds, chosen in experiments/methods.md.
LEXICAL_WEIGHT = 1.0
#: Words of a BM25 window. Consecutive windows share half of them.
WINDOW = 200


@dataclass(frozen=True)
class _Settings:
    """Settings of a name. Values may be texts and are stored typed. None means the default."""

    @property
    def given(self) -> dict[str, Any]:
        """The settings that are not their defaults."""
        return {key: value for key, value in asdict(self).items() if value is not None}

    def _leave_out(self, name: str, default: object) -> None:
        """Replace an explicit default by None, so that a search has one name."""
        if vars(self)[name] == default:
            object.__setattr__(self, name, None)  # the instance is frozen for others


@dataclass(frozen=True)
class SearchSettings(_Settings):
    """Settings that change a search, but not its model."""

    #: `bm25` adds the log-odds of BM25 by passage to the vectors' log-odds
    fusion: Literal["bm25"] | None = None
    #: weight of the lexical log-odds
    lexical_weight: Annotated[float, Field(gt=0)] | None = None
    #: divisor that turns the scores of vectors into log-odds; None: the spread of scores in the corpus
    temperature: Annotated[float, Field(gt=0)] | None = None
    #: rule that weights tokens in the mean by their corpus frequency
    weights: Literal["sif", "idf"] | None = None
    whiten: Power | None = None  #: power of the whitening, which is fitted on the vectors of the corpus
    #: `softmax` joins the scores of all vectors of a document; `max` takes the best one
    score: Literal["max", "softmax"] | None = None
    #: `sentences` scores each sentence of a query on its own; `tokens` represents a query by its token states
    query: Literal["sentences", "tokens"] | None = None

    def __post_init__(self) -> None:
        read_fields(self)
        self._leave_out("score", "max")
        self._leave_out("lexical_weight", LEXICAL_WEIGHT)
        if self.lexical_weight is not None and self.fusion is None:
            raise InputError(
                f"lexical_weight needs fusion=bm25, got lexical_weight={self.lexical_weight:g} without it."
            )
        if self.temperature is not None and self.query == "tokens":
            raise InputError(
                f"query=tokens has no temperature, got temperature={self.temperature:g}: leave one of them out."
            )
        if self.temperature is not None and self.fusion is None and self.score is None:
            raise InputError(
                f"temperature needs fusion=bm25 or score=softmax, got temperature={self.temperature:g} without them."
            )
        if self.query == "tokens" and (self.score is not None or self.weights is not None):
            raise InputError(
                "query=tokens compares each token with its best vector of a document, got it with score=softmax or "
                "weights: leave one out."
            )

    def __bool__(self) -> bool:
        return bool(self.given)

    def check_fits(self, checkpoint: Checkpoint) -> None:
        """Refuse settings that do not fit a model. No weights are read.

        Raises:
            IncompatibleError, InputError: if one does not fit.
        """
        from mteb_longembed.encoders.vectors import check_averages

        of_dense = {
            key: self.given[key] for key in ("weights", "whiten", "score", "query") if key in self.given
        }
        if checkpoint.base.kind != "dense" and of_dense:
            key, value = of_dense.popitem()
            raise IncompatibleError(
                f"{key} changes searches with dense vectors, got {key}={value} with {checkpoint.base.name}, a "
                f"{checkpoint.base.kind} model: leave it out."
            )
        if self.query is not None and checkpoint.vectors is None:
            raise InputError(
                f"query={self.query} compares with parts of a document, so it needs vectors=window or vectors=N: "
                "add one."
            )
        base = checkpoint.base
        if self.weights is not None:
            check_averages(f"weights={self.weights}", base.name, base.pooling)
        if self.query == "tokens":
            check_averages("query=tokens", base.name, base.pooling)


def read_name(text: str) -> tuple[ModelSpec, SearchSettings]:
    """Parse the model and the search settings of a name.

    Raises:
        InputError: if the name or a value breaks a rule.
    """
    name = ModelName.parse(text)
    settings = {key: value for key, value in name.settings.items() if key in SEARCH_SETTINGS}
    others = {key: value for key, value in name.settings.items() if key not in SEARCH_SETTINGS}
    if "expand" in settings:
        raise InputError(
            f"expand is a setting of BM25 alone, got it in {text!r}: leave it out, because fusion=bm25 expands queries "
            "by the model itself."
        )
    return ModelSpec.of_name(replace(name, settings=others)), SearchSettings(**settings)


def typed_name(spec: ModelSpec, settings: SearchSettings | None = None) -> str:
    """Return the name as people type it: with a colon before the settings, instead of a canonical name's comma.

    Args:
        spec: the model.
        settings: the search; None for the model alone.
    """
    text = spec.name((settings or SearchSettings()).given)
    return spec.base + text[len(spec.base) :].replace(",", ":", 1)


@dataclass(frozen=True)
class BM25Settings(_Settings):
    """Settings of a name such as `bm25:window=200,query=sentences` or `bm25@512`."""

    #: words of a window; None: whole documents only
    window: Annotated[int, Field(ge=2), "words"] | None = None
    query: Literal["sentences"] | None = None  #: `sentences` scores each sentence of a query on its own
    #: joins the scores of windows: all of them (`softmax`), or the best one (`max`); None: all
    score: Literal["max", "softmax"] | None = None
    expand: str | None = None  #: name of the model for query expansion by embedding neighbours, as typed
    target_len: int | None = None  #: number of tokens to read of each document; None: all

    def __post_init__(self) -> None:
        read_fields(self, "bm25's ")
        if self.window is None and self.score is not None:
            raise InputError(f"score={self.score} needs windows, such as bm25:window=200,score={self.score}.")
        self._leave_out("score", "softmax")

    @classmethod
    def parse(cls, text: str) -> BM25Settings:
        """Parse a name.

        Raises:
            InputError: if a value breaks its rule.
        """
        if text in ("bm25", MTEB_BM25):
            return cls()
        target, settings = bm25_settings(text)
        for key in settings:
            if key not in BM25_SETTINGS:
                raise InputError(f"bm25 takes {', '.join(BM25_SETTINGS)}, got {key} in {text!r}.")
        length = None
        if target is not None:
            length = read_tokens("the target", target)
        return cls(**cast("dict[str, Any]", settings), target_len=length)


def is_lexical(name: str) -> bool:
    """Return whether a name requests BM25 without a model."""
    is_bm25 = name in ("bm25", MTEB_BM25) or is_bm25_name(name)
    return is_bm25 and BM25Settings.parse(name).expand is None
