"""Search settings in names: query representation, fusion with BM25, weights, whitening; and the settings of BM25."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from pydantic import Field

from mteb_longembed.bm25_names import BM25_SETTINGS, MTEB_BM25, bm25_settings, is_bm25_name
from mteb_longembed.encoders.spec import ModelSpec
from mteb_longembed.errors import IncompatibleError, InputError
from mteb_longembed.names import SEARCH_SETTINGS, ModelName, split_name
from mteb_longembed.presets import LEXICAL, LEXICAL_SETTINGS
from mteb_longembed.values import Power, read_fields, read_tokens, split_settings
from mteb_longembed.zoo import check_folder, entry_of, full_base, holds_model

if TYPE_CHECKING:
    from mteb_longembed.encoders.checkpoint import Checkpoint

#: Weight of the lexical log-odds relative to the vectors' log-odds, chosen in experiments/methods.md.
LEXICAL_WEIGHT = 0.7
#: Words of a BM25 window. Consecutive windows share half of them.
WINDOW = 200
#: Settings of `MODEL+lexical` that belong to MODEL.
_OF_BASE = ("dtype", "revision", "trained_len", "trust_remote_code")


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
    """Settings of a name such as `bm25:window=200,query=sentences`, `bm25@512` or `e5-base+lexical`."""

    #: words of a window; None: whole documents only
    window: Annotated[int, Field(ge=2), "words"] | None = None
    query: Literal["sentences"] | None = None  #: `sentences` scores each sentence of a query on its own
    #: joins the scores of windows: all of them (`softmax`), or the best one (`max`); None: all
    score: Literal["max", "softmax"] | None = None
    expand: str | None = None  #: base of the model for query expansion by embedding neighbours, as typed
    target_len: int | None = None  #: number of tokens to read of each document; None: all
    #: settings of the base, such as `dtype=bf16`, with commas between them
    of_base: str | None = None

    def __post_init__(self) -> None:
        read_fields(self, "bm25's ")
        if self.window is None and self.score is not None:
            raise InputError(f"score={self.score} needs windows, such as bm25:window=200,score={self.score}.")
        self._leave_out("score", "softmax")

    @property
    def encoder(self) -> str | None:
        """The name of the model that encodes terms; None without query expansion."""
        if self.expand is None:
            return None
        if self.of_base is not None:
            return f"{self.expand}+none:{self.of_base}"
        entry = entry_of(self.expand)
        if entry is not None and entry.folder is not None:  # no hub and no mteb has what we ship
            return f"{self.expand}+none"
        return self.expand

    def at(self, revision: str) -> BM25Settings:
        """Return the settings with a revision of the base, unless they have one."""
        parts = (self.of_base or "").split(",")
        if any(part.startswith("revision=") for part in parts):
            return self
        return replace(self, of_base=",".join(filter(None, [*parts, f"revision={revision}"])))

    @classmethod
    def parse(cls, text: str) -> BM25Settings:
        """Parse a name of BM25, or `MODEL+lexical`.

        Raises:
            InputError: if a value breaks its rule.
        """
        if text in ("bm25", MTEB_BM25):
            return cls()
        if is_bm25_name(text):
            target, settings = bm25_settings(text)
            owner = "bm25"
            given: dict[str, Any] = {}
        else:
            name = ModelName.parse(text)
            owner = f"{LEXICAL}"
            target = name.target
            of_base = {key: name.settings[key] for key in _OF_BASE if key in name.settings}
            settings = {key: value for key, value in name.settings.items() if key not in of_base}
            settings = {**split_settings(text, LEXICAL_SETTINGS), **settings}
            given = {"expand": full_base(name.base)}
            if of_base:
                given["of_base"] = ",".join(f"{key}={value}" for key, value in of_base.items())
        for key in settings:
            if key not in BM25_SETTINGS:
                raise InputError(f"{owner} takes {', '.join(BM25_SETTINGS)}, got {key} in {text!r}.")
        if target is not None:
            given["target_len"] = read_tokens("the target", target)
        return cls(**cast("dict[str, Any]", settings), **given)


def check_name(name: str) -> None:
    """Check all of a name that can be checked without its model: base, strategy, and the values of its settings.

    No torch, no mteb. A base alone is a name too.

    Raises:
        InputError: if a part breaks its rule, or the base is the path of no folder.
    """
    if is_lexical(name) or is_bm25(name):
        base = BM25Settings.parse(name).expand
    else:
        base = read_name(name)[0].base
    if base is not None:
        check_folder(base)


def is_bm25(name: str) -> bool:
    """Return whether a name requests our BM25, with or without query expansion by a model."""
    return is_bm25_name(name) or (not holds_model(name) and split_name(name)[1] == LEXICAL)


def is_lexical(name: str) -> bool:
    """Return whether a name requests BM25 without a model."""
    return name in ("bm25", MTEB_BM25) or is_bm25_name(name)
