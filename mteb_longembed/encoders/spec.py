"""The specification of a model as one value: a base, a strategy and their settings."""

from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator

from mteb_longembed.encoders.strategies import STRATEGIES, Strategy
from mteb_longembed.errors import IncompatibleError, InputError, UnknownNameError
from mteb_longembed.names import SEARCH_SETTINGS, ModelName, Settings, name_of
from mteb_longembed.presets import LEXICAL, PRESETS
from mteb_longembed.values import Tokens, Vectors, read, read_fields
from mteb_longembed.zoo import full_base

#: Short spellings of compute types -> torch's names.
DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
_SHORT: dict[object, str] = {full: short for short, full in DTYPES.items()}
#: A compute type by its short spelling; torch's is accepted too.
DType = Annotated[Literal["fp32", "fp16", "bf16"], BeforeValidator(lambda text: _SHORT.get(text, text))]
#: The parameters that every name may set after the colon, whatever its strategy.
OF_EVERY_NAME = ("dtype", "revision", "trained_len", "trust_remote_code", "vectors")
#: Why several vectors of a document cannot be exported.
SEVERAL = "several vectors per document cannot be a plain checkpoint: our own modules pool them; use save_pretrained."
#: Settings of version 0.8, and what took their place.
_SUCCESSORS = {
    "fuse": "fusion=bm25",
    "trust": "lexical_weight=",
    "neighbours": "MODEL+lexical",
    "expand": "MODEL+lexical",
}


@dataclass(frozen=True)
class ModelSpec:
    """A base, a strategy and their settings. Values may be texts or Python types; they are stored typed.

    None means the default.
    """

    base: str  #: an alias, a hub id or a folder; empty for a loaded model
    strategy: str = "none"  #: registry key
    target_len: Tokens | None = None  #: longest input of the extended model
    trained_len: Tokens | None = None  #: longest input that the base was trained on
    revision: str | None = None  #: commit, branch or tag of the base on the hub
    dtype: DType | None = None  #: compute type
    trust_remote_code: bool = False  #: whether code of the base's repository may run
    vectors: Vectors | None = None  #: content tokens for each vector, or `window`
    params: Settings = field(default_factory=dict)  #: the strategy's own parameters

    def __post_init__(self) -> None:
        declared = self.kind.declared()
        params = {}
        for key, value in self.params.items():
            if key in SEARCH_SETTINGS:
                others = f", or adapt(NAME, documents, {key}=...)" if key in ("weights", "whiten") else ""
                raise InputError(
                    f"{key} changes search and no model, got {key}={value}: leave it out here; it belongs in a name "
                    f"for mteb_longembed.search(NAME), mteb-longembed search, compare and mteb run{others}."
                )
            if key in _SUCCESSORS:
                raise InputError(
                    f"{key}= of an older version is {_SUCCESSORS[key]} now, got {key}={value}: write that."
                )
            if key not in declared:
                beside = {"of every strategy": ("vectors",), "of a search": SEARCH_SETTINGS}
                raise UnknownNameError(f"parameter of {self.strategy}", key, declared, beside)
            if value is not None:
                params[key] = read(f"{self.strategy}'s {key}", declared[key], value)
        object.__setattr__(self, "params", params)  # the instance is frozen for others
        read_fields(self)
        if self.vectors == "window" and not self.kind.CUTS:
            raise IncompatibleError(
                f"vectors={self.vectors} needs a strategy that cuts windows, got {self.strategy}; use pcw, or "
                "vectors=N."
            )

    @classmethod
    def parse(cls, text: str, **general: Any) -> Self:
        """Parse the name of a model; see `of_name`."""
        return cls.of_name(ModelName.parse(text), **general)

    @classmethod
    def of_name(cls, name: ModelName, **general: Any) -> Self:
        """Return the specification of a name. Search settings are not part of a model: `retrieval.settings` reads them.

        `general` are settings beside the name, which override the name's if they are not None.
        """
        general = {key: value for key, value in general.items() if value is not None}
        base = full_base(name.base)
        if name.strategy is None:
            return cls(base, **general)
        if name.strategy == LEXICAL:
            raise InputError(
                f"{LEXICAL} is a search and no model, got {name.base}+{LEXICAL}: it is a name for "
                "mteb_longembed.search(NAME), mteb-longembed search, compare and mteb run."
            )
        if name.strategy not in STRATEGIES:
            raise UnknownNameError("strategy", name.strategy, [*STRATEGIES, *PRESETS, LEXICAL])
        written = {key: name.settings[key] for key in OF_EVERY_NAME if key in name.settings}
        params = {key: value for key, value in name.settings.items() if key not in OF_EVERY_NAME}
        return cls(base, name.strategy, params=params, **{"target_len": name.target, **written, **general})

    def name(self, settings: Settings = MappingProxyType({})) -> str:
        """Return the name, perhaps with search settings. For the specification of a checkpoint it is canonical.

        >>> ModelSpec("intfloat/e5-base-v2", "ntk", "4k", params={"sigma": "4"}).name()
        'intfloat/e5-base-v2+ntk@4096,sigma=4'
        >>> ModelSpec("me/e5-base-se").name(), ModelSpec("me/e5-base-se").name({"fusion": "bm25"})
        ('me/e5-base-se', 'me/e5-base-se+none,fusion=bm25')
        """
        experiment = {**self.experiment, **settings}
        if experiment == {"strategy": "none"}:
            return self.base
        return name_of(self.base, experiment)

    @property
    def experiment(self) -> Settings:
        """The settings beside the base, as mteb's experiment."""
        general = {key: vars(self)[key] for key in ("target_len", *OF_EVERY_NAME)}
        set_here = {key: value for key, value in general.items() if value not in (None, False)}
        return {"strategy": self.strategy, **self.params, **set_here}

    def check_plain(self) -> None:
        """Raise IncompatibleError if no plain checkpoint can express the model, as far as its name tells."""
        if self.vectors is not None:
            raise IncompatibleError(SEVERAL)

    @cached_property
    def kind(self) -> type[Strategy]:
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
            raise UnknownNameError("strategy", self.strategy, STRATEGIES)
        return STRATEGIES[self.strategy]
