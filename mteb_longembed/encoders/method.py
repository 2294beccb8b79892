"""A method as one value: everything that a name says, parsed once. No torch, no mteb."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field

from mteb_longembed.encoders.strategies import STRATEGIES, Strategy
from mteb_longembed.errors import IncompatibleError, InputError, UnknownNameError
from mteb_longembed.names import BM25, MTEB_BM25, Settings, name_of, read_name, with_preset
from mteb_longembed.presets import LEXICAL, LEXICAL_SETTINGS, PRESETS
from mteb_longembed.values import Power, Tokens, Validated, Vectors, read, split_settings
from mteb_longembed.zoo import check_folder, entry_of, full_base

#: Short spellings of compute types -> torch's names.
DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
_SHORT: dict[object, str] = {full: short for short, full in DTYPES.items()}
#: A compute type by its short spelling; torch's is accepted too.
DType = Annotated[Literal["fp32", "fp16", "bf16"], BeforeValidator(lambda text: _SHORT.get(text, text))]
#: Weight of the lexical log-odds relative to the vectors' log-odds, chosen in experiments/methods.md.
LEXICAL_WEIGHT = 0.7
#: Version of the search algorithms. It is part of the experiment of every name with search settings.
SEARCH_VERSION = "se11"
#: Version of mteb's BM25 whose formula ours takes, and of our BM25 by passage.
MTEB_BM25_VERSION = "0_3_0"
BM25_VERSION = "p4"
#: The strategies of searches by BM25 alone: without a model, and with query expansion by one.
_BM25_ALONE = (None, LEXICAL)
_BM25_QUERY = "bm25's query must be sentences"
#: Why several vectors of a document cannot be exported.
SEVERAL = "several vectors per document cannot be a plain checkpoint: our own modules pool them; use save_pretrained."
#: Settings of version 0.8, and what took their place.
_SUCCESSORS = {
    "fuse": "fusion=bm25",
    "trust": "lexical_weight=",
    "neighbours": "MODEL+lexical",
    "expand": "MODEL+lexical",
}

#: What a setting belongs to: loading the base, the vectors of a document, a search over them, or BM25 alone.
Part = Literal["base", "vectors", "search", "bm25"]


def _about(meaning: str, *of: Part) -> Settings:
    """Describe a setting: what it means, and what it belongs to. Its name and type are the field's."""
    return {"help": meaning, "of": of}


@dataclass(frozen=True)
class Method(Validated):
    """A base, a strategy, and all settings of a name. Values may be texts or Python types; they are stored typed.

    None means the default, and a default that is written out is left out, so that a method has one name. Whether the
    settings fit the base is checked where it is read (`resolve`).
    """

    base: str  #: an alias, a hub id or a folder; empty for a loaded model; mteb's name of BM25
    strategy: str | None = "none"  #: registry key, or `lexical`; None for BM25 without a model
    target_len: Tokens | None = None  #: how many tokens of a document are read
    trained_len: Tokens | None = field(
        default=None, metadata=_about("longest input that the base was trained on, in tokens", "base")
    )
    revision: str | None = field(
        default=None, metadata=_about("commit, branch or tag of the base on the hub", "base")
    )
    dtype: DType | None = field(default=None, metadata=_about("compute type", "base"))
    trust_remote_code: bool = field(
        default=False, metadata=_about("whether code of the base's repository may run", "base")
    )
    vectors: Vectors | None = field(
        default=None, metadata=_about("content tokens for each vector, or window", "vectors")
    )
    fusion: Literal["bm25"] | None = field(
        default=None, metadata=_about("adds the log-odds of BM25 by passage", "search")
    )
    lexical_weight: Annotated[float, Field(gt=0)] | None = field(
        default=None, metadata=_about("weight of BM25's log-odds in a fusion", "search")
    )
    temperature: Annotated[float, Field(gt=0)] | None = field(
        default=None,
        metadata=_about("divisor that makes scores log-odds (default: their spread in the corpus)", "search"),
    )
    weights: Literal["sif", "idf"] | None = field(
        default=None, metadata=_about("weights tokens in the mean by their corpus frequency", "search")
    )
    whiten: Power | None = field(
        default=None, metadata=_about("power of a whitening fitted on the vectors of the corpus", "search")
    )
    score: Literal["max", "softmax"] | None = field(
        default=None,
        metadata=_about(
            "joins a document's vectors, or windows of BM25: the best one, or all", "search", "bm25"
        ),
    )
    query: Literal["sentences", "tokens"] | None = field(
        default=None,
        metadata=_about("scores each sentence of a query on its own, or each token", "search", "bm25"),
    )
    window: Annotated[int, Field(ge=2), "words"] | None = field(
        default=None, metadata=_about("words of a window of BM25", "bm25")
    )
    params: Settings = field(default_factory=dict)  #: the strategy's own parameters

    @classmethod
    def _must_be(cls, name: str, rule: str, given: Mapping[str, object]) -> str:
        if given.get("strategy", cls.strategy) not in _BM25_ALONE:
            return super()._must_be(name, rule, given)
        if name == "query":
            return _BM25_QUERY
        return f"bm25's {super()._must_be(name, rule, given)}"

    def __post_init__(self) -> None:
        is_bm25 = self.strategy in _BM25_ALONE
        typed: dict[str, object] = {}
        if is_bm25:
            self._check_bm25()
        else:
            typed["params"] = self._read_params()
            if self.search or self.vectors is not None:
                self._check_search()
        # a default that is written out is left out
        defaults = {"score": "softmax" if is_bm25 else "max", "lexical_weight": LEXICAL_WEIGHT}
        typed.update({name: None for name, default in defaults.items() if vars(self)[name] == default})
        for name, value in typed.items():
            object.__setattr__(self, name, value)  # the instance is frozen for others

    def _read_params(self) -> Settings:
        declared = self.strategy_class.declared()
        params = {}
        for key, value in self.params.items():
            if key in SEARCH_SETTINGS:
                raise _no_model(key, value)
            if key in _SUCCESSORS:
                raise InputError(
                    f"{key}= of an older version is {_SUCCESSORS[key]} now, got {key}={value}: write that."
                )
            if key not in declared:
                beside = {"of every strategy": ("vectors",), "of a search": SEARCH_SETTINGS}
                raise UnknownNameError(f"parameter of {self.strategy}", key, declared, beside)
            if value is not None:
                params[key] = read(f"{self.strategy}'s {key}", declared[key], value)
        return params

    def _check_bm25(self) -> None:
        if self.query == "tokens":
            raise InputError(f"{_BM25_QUERY}, got {self.query!r}.")
        if self.window is None and self.score is not None:
            raise InputError(f"score={self.score} needs windows, such as bm25:window=200,score={self.score}.")

    def _check_search(self) -> None:
        """Refuse settings that do not fit the strategy, or have no effect beside the others."""
        if self.vectors == "window" and not self.strategy_class.CUTS:
            raise IncompatibleError(
                f"vectors={self.vectors} needs a strategy that cuts windows, got {self.strategy}; use pcw, or "
                "vectors=N."
            )
        if self.lexical_weight is not None and self.fusion is None:
            raise InputError(
                f"lexical_weight needs fusion=bm25, got lexical_weight={self.lexical_weight:g} without it."
            )
        if self.temperature is not None and self.query == "tokens":
            raise InputError(
                f"query=tokens has no temperature, got temperature={self.temperature:g}: leave one of them out."
            )
        if self.temperature is not None and self.fusion is None and self.score in (None, "max"):
            raise InputError(
                f"temperature needs fusion=bm25 or score=softmax, got temperature={self.temperature:g} without them."
            )
        if self.query == "tokens" and (self.score == "softmax" or self.weights is not None):
            raise InputError(
                "query=tokens compares each token with its best vector of a document, got it with score=softmax or "
                "weights: leave one out."
            )

    # ---- parsing -----------------------------------------------------------------------------------------

    @classmethod
    def parse(cls, text: str, **general: object) -> Self:
        """Parse a name: of a model, of a search with it, or of BM25.

        Args:
            text: `BASE+STRATEGY[@TARGET][:key=value,...]`, a base alone, `MODEL+lexical`, or `bm25[:...]`.
            general: settings beside the name, which override the name's if they are not None.

        Raises:
            InputError: if the name or a value breaks a rule.
        """
        if text in (BM25, MTEB_BM25):
            return cls(MTEB_BM25, None)
        base, strategy, target, settings = read_name(text)
        given: Settings = {"target_len": target, **settings}
        if base == MTEB_BM25 and strategy is None:
            _check_known(settings, BM25_SETTINGS, BM25, text)
            return cls(base, None, **given)
        base = full_base(base)
        stated: Settings = {key: value for key, value in general.items() if value is not None}
        if strategy is None:
            return cls(base, **stated)
        if strategy == LEXICAL:
            _check_known(settings, BM25_SETTINGS, LEXICAL, text, beside=_of("base"))
            return cls(base, strategy, **{**split_settings(text, LEXICAL_SETTINGS), **given, **stated})
        if strategy not in STRATEGIES:
            raise UnknownNameError("strategy", strategy, [*STRATEGIES, *PRESETS, LEXICAL])
        written = {key: value for key, value in settings.items() if key in MODEL_SETTINGS + SEARCH_SETTINGS}
        params = {key: value for key, value in settings.items() if key not in written}
        return cls(base, strategy, params=params, **{"target_len": target, **written, **stated})

    @classmethod
    def parse_model(cls, text: str, **general: object) -> Self:
        """Parse the name of a model, which has no settings of a search.

        Raises:
            InputError: as for `parse`, or for a search.
        """
        method = cls.parse(text, **general)
        if method.strategy in _BM25_ALONE:
            raise InputError(
                f"{LEXICAL} is a search and no model, got {text}: it is a name for mteb_longembed.search(NAME), "
                "mteb-longembed search, compare and mteb run."
            )
        for key, value in method.search.items():
            raise _no_model(key, value)
        return method

    def check_plain(self) -> None:
        """Raise IncompatibleError if no plain checkpoint can express the model, as far as its name tells."""
        if self.vectors is not None:
            raise IncompatibleError(SEVERAL)

    # ---- names -------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        """Return the name with all lengths and parameters that are set. Of a resolved method it is canonical.

        >>> str(Method("intfloat/e5-base-v2", "ntk", "4k", params={"sigma": "4"}))
        'intfloat/e5-base-v2+ntk@4096,sigma=4'
        >>> str(Method("me/e5-base-se")), str(Method("me/e5-base-se", fusion="bm25"))
        ('me/e5-base-se', 'me/e5-base-se+none,fusion=bm25')
        """
        if self.experiment == {"strategy": "none"}:
            return self.base
        return name_of(self.base, self.experiment)

    @property
    def label(self) -> str:
        """The shortest name that means the same, as people type it.

        >>> Method.parse("e5-base+pcw@32k:fusion=bm25,query=tokens,vectors=16,whiten=0.5").label
        'e5-base+hybrid:whiten=0.5'
        >>> Method.parse("bm25@512:window=200").label
        'bm25@512:window=200'
        """
        base = BM25 if self.base == MTEB_BM25 else self.base
        return with_preset(base + str(self).removeprefix(self.base).replace(",", ":", 1))

    @property
    def experiment(self) -> Settings:
        """The settings beside the base, as mteb's experiment."""
        given: dict[str, object] = {}
        if self.strategy is not None:
            given["strategy"] = self.strategy
        given.update(self.params)
        general = {key: vars(self)[key] for key in ("target_len", *SETTINGS)}
        given.update({key: value for key, value in general.items() if value not in (None, False)})
        if self.strategy == LEXICAL and f"window={self.window}" == LEXICAL_SETTINGS:
            del given["window"]
        return given

    # ---- parts -------------------------------------------------------------------------------------------

    @cached_property
    def strategy_class(self) -> type[Strategy]:
        """The class of the strategy.

        Raises:
            UnknownNameError: if no strategy has this key.
        """
        if self.strategy in (*PRESETS, LEXICAL):
            raise InputError(
                f"{self.strategy} is a preset and no strategy: a preset is part of a name, so write "
                f"MODEL+{self.strategy}."
            )
        if self.strategy not in STRATEGIES:
            raise UnknownNameError("strategy", str(self.strategy), STRATEGIES)
        return STRATEGIES[self.strategy]

    @property
    def is_bm25(self) -> bool:
        """Whether documents are searched by BM25 and no vectors, with or without query expansion by a model."""
        return self.strategy in _BM25_ALONE

    @property
    def is_lexical(self) -> bool:
        """Whether no model runs: BM25 without query expansion."""
        return self.strategy is None

    @property
    def search(self) -> Settings:
        """The settings of the search that are not their defaults; empty for a model alone."""
        given = {key: vars(self)[key] for key in SEARCH_SETTINGS}
        return {key: value for key, value in given.items() if value is not None}

    @property
    def model(self) -> Self:
        """The method without the settings of a search."""
        return self.without(SEARCH_SETTINGS)

    def having(self, **typed: object) -> Self:
        """Return the method with other values, which are typed and checked already: what its base determines."""
        other = copy.copy(self)
        vars(other).update(typed)
        return other

    def without(self, settings: Collection[str]) -> Self:
        """Return the method with defaults for some settings."""
        unset: Settings = dict.fromkeys(settings)
        return replace(self, **unset)

    @property
    def encoder(self) -> str:
        """The name of the model that encodes the terms of `MODEL+lexical`."""
        settings = {key: vars(self)[key] for key in _of("base") if vars(self)[key]}
        entry = entry_of(self.base)
        if not settings and entry is not None and entry.folder is not None:
            return f"{self.base}+none"  # no hub and no mteb has what we ship
        return str(Method(self.base, **settings))


def _of(part: Part) -> tuple[str, ...]:
    """Return the settings of a part."""
    return tuple(one.name for one in fields(Method) if part in one.metadata.get("of", ()))


#: Every setting beside a strategy's own, with its meaning.
SETTINGS: dict[str, str] = {
    one.name: one.metadata["help"] for one in fields(Method) if "help" in one.metadata
}
#: The settings of a model, of a search, and of BM25 alone.
MODEL_SETTINGS = _of("base") + _of("vectors")
SEARCH_SETTINGS = _of("search")
BM25_SETTINGS = _of("bm25")


def _no_model(key: str, value: object) -> InputError:
    """Return the error for a setting of a search in the name or the arguments of a model."""
    others = f", or adapt(NAME, documents, {key}=...)" if key in ("weights", "whiten") else ""
    return InputError(
        f"{key} changes search and no model, got {key}={value}: leave it out here; it belongs in a name for "
        f"mteb_longembed.search(NAME), mteb-longembed search, compare and mteb run{others}."
    )


def _check_known(
    settings: Settings, known: Collection[str], owner: str, text: str, beside: Collection[str] = ()
) -> None:
    for key in settings:
        if key not in known and key not in beside:
            raise InputError(f"{owner} takes {', '.join(known)}, got {key} in {text!r}.")


def check_name(text: str) -> None:
    """Check all of a name that can be checked without its model: base, strategy, and the values of its settings.

    No torch, no mteb. A base alone is a name too.

    Raises:
        InputError: if a part breaks its rule, or the base is the path of no folder.
    """
    method = Method.parse(text)
    if not method.is_lexical:
        check_folder(method.base)
