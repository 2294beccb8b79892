"""What a name asks for, and the model that it makes of a base: known before any weights load."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, Literal, Self, cast

from pydantic import BeforeValidator

from mteb_longembed.encoders.strategies import Strategy, algorithm_of, get_strategy
from mteb_longembed.errors import IncompatibleError, InputError, ModelError, UnknownNameError
from mteb_longembed.names import (
    SEARCH_SETTINGS,
    ZOO,
    Tokens,
    Vectors,
    holds_model,
    is_folder,
    name_of,
    read,
    read_fields,
    settings_of,
    split_name,
)

from .base import Base, read_base
from .swap import check_fit
from .vectors import check_averages

#: Checked values by the names of their parameters.
Settings = Mapping[str, object]
#: Short spellings of compute types -> torch's names.
DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
_SHORT: dict[object, str] = {full: short for short, full in DTYPES.items()}
#: A compute type by its short spelling; torch's is read too.
DType = Annotated[Literal["fp32", "fp16", "bf16"], BeforeValidator(lambda text: _SHORT.get(text, text))]
#: The parameters that every name may set after the colon, whatever its strategy.
OF_EVERY_NAME = ("dtype", "revision", "trained_len", "trust_remote_code", "vectors")


@dataclass(frozen=True)
class ModelSpec:
    """A base, a strategy and their settings. Values may be given as text or in Python types; they are kept typed.

    None stands for the default.
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
        for key, value in self.params.items():
            if key in SEARCH_SETTINGS:
                raise InputError(
                    f"{key} changes search and no model, got {key}={value}: use mteb_longembed.search(NAME), or for "
                    "weights and whiten mteb_longembed.adapt(NAME, documents) without them."
                )
            if key not in declared:
                raise UnknownNameError(f"parameter of {self.strategy}", key, declared)
        params = {}
        for key, value in self.params.items():
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
    def parse(cls, text: str, without: Iterable[str] = (), **general: Any) -> Self:
        """Read the name of a model. A folder that holds a model is a base, whatever signs are in its name.

        Settings of search are none of a model: `retrieval.settings.read_name` reads these and leaves them out here.
        `general` are settings beside the name, which win over those in it.

        People may write a colon before the parameters. A canonical name has a comma there, for Windows' folders.
        """
        if holds_model(text):
            return cls(text, **general)
        base, strategy, target, _ = split_name(text)
        if "/" not in base and "\\" not in base and base not in ZOO and not is_folder(base):
            raise UnknownNameError(
                "base (not an alias, a folder or a hub id such as ORGANISATION/NAME)", base, ZOO
            )
        if strategy is None:
            return cls(base, **general)
        params: dict[str, Any] = settings_of(text)
        for key in without:
            del params[key]
        written = {key: params.pop(key) for key in OF_EVERY_NAME if key in params}
        return cls(base, strategy, cast("Any", target), params=params, **{**written, **general})

    def __str__(self) -> str:
        """The name. For the specification of a checkpoint it is the canonical one.

        >>> str(ModelSpec("intfloat/e5-base-v2", "ntk", "4k", params={"sigma": "4"}))
        'intfloat/e5-base-v2+ntk@4096,sigma=4'
        >>> str(ModelSpec("me/e5-base-se"))
        'me/e5-base-se'
        """
        return self.with_settings({})

    def with_settings(self, settings: Settings) -> str:
        """The name with further settings, those of a search.

        >>> ModelSpec("me/e5-base-se").with_settings({"fuse": "words"})
        'me/e5-base-se+none,fuse=words'
        """
        experiment = {**self.experiment, **settings}
        if experiment == {"strategy": "none"}:
            return self.base
        return name_of(self.base, experiment)

    @property
    def experiment(self) -> dict[str, Any]:
        """What the specification sets beside its base, as mteb's experiment."""
        given = {key: getattr(self, key) for key in ("target_len", *OF_EVERY_NAME)}
        set_here = {key: value for key, value in given.items() if value not in (None, False)}
        return {"strategy": self.strategy, **self.params, **set_here}

    @cached_property
    def kind(self) -> type[Strategy]:
        """The class of the strategy."""
        return get_strategy(self.strategy)


@dataclass(frozen=True)
class Checkpoint:
    """The model that a specification makes of a base. All code that builds, describes or stores a model starts here."""

    base: Base  #: what its files say
    spec: ModelSpec  #: the canonical specification; it prints the model's name
    strategy: Strategy  #: with all lengths and parameters

    @property
    def name(self) -> str:
        """The one name of the model. `names.name_of` gives it from base and experiment too."""
        return str(self.spec)

    @property
    def vectors(self) -> Vectors | None:
        """Content tokens for each vector, or `window`. None for one vector for each document."""
        return self.base.vectors or self.spec.vectors

    @property
    def experiment(self) -> dict[str, Any]:
        """Mteb's experiment: all that determines the vectors beside the base's files, and is no default.

        Always strategy, target and the version of our algorithms, or of the code of somebody's strategy.
        """
        made_by = {"target_len": self.strategy.target_len, "algorithm": algorithm_of(type(self.strategy))}
        return {**self.spec.experiment, **made_by}


def open_checkpoint(spec: ModelSpec) -> Checkpoint:
    """The model that a specification asks for. No weights are read.

    Raises:
        HubError, ModelError: if the base cannot be read, or is not an embedding model.
        IncompatibleError, InputError: if the specification does not fit the base.
    """
    base = read_base(spec.base, spec.revision, trust_remote_code=bool(spec.trust_remote_code))
    return checkpoint_of(base, spec)


def checkpoint_of(base: Base, spec: ModelSpec) -> Checkpoint:
    """The model that a specification makes of a base. No weights are read.

    Raises:
        IncompatibleError: if the strategy, a parameter or the vectors do not fit the base.
        InputError: if a length breaks its rule, or if the base is extended already.
    """
    if base.saved is not None:
        return _as_saved(base, spec)
    if spec.vectors is not None and base.similarity not in (None, "cosine", "dot"):
        raise IncompatibleError(
            f"several vectors are compared by cosine or dot product, and {base.name} compares by "
            f"{base.similarity}: leave out vectors."
        )
    if isinstance(spec.vectors, int):
        check_averages(f"vectors={spec.vectors}", base.name, base.pooling)
    strategy = _strategy_for(base, spec)
    trained_len = None
    if strategy.trained_len != base.trained_len:
        trained_len = strategy.trained_len
    dtype = spec.dtype
    if dtype is not None and DTYPES[dtype] == str(base.config.dtype).removeprefix("torch."):
        dtype = None
    canonical = replace(
        spec,
        base=base.name,
        target_len=strategy.target_len,
        trained_len=trained_len,
        revision=None,
        dtype=dtype,
        trust_remote_code=base.runs_code,
        params=strategy.settings(),
    )
    return Checkpoint(base, canonical, strategy)


def _strategy_for(base: Base, spec: ModelSpec) -> Strategy:
    """The strategy with all lengths and parameters."""
    if base.entry is not None and base.entry.interpolation is not None:
        # its table is interpolated already, by the rule of `pi`
        trained_len = base.trained_len or 1
        grown = base.entry.interpolation * trained_len
        asks_for_more = spec.target_len not in (None, grown) or spec.params or spec.trained_len
        if spec.strategy != "none" or asks_for_more:
            raise IncompatibleError(
                f"{base.name} is extended already, to {grown} tokens; only none@{grown} fits it."
            )
        return get_strategy("pi")(trained_len=trained_len, target_len=grown)
    strategy = strategy_of(spec, base.trained_len, base.name)
    check_fit(base.config, strategy, base.name)
    return strategy


def strategy_of(spec: ModelSpec, trained_len: int | None, base: str) -> Strategy:
    """The strategy with all lengths and parameters, for a base of this name that was trained on this length."""
    length = spec.trained_len or trained_len
    if not isinstance(length, int):
        raise InputError(
            f"{base} does not say how many tokens it was trained on: give trained_len, such as :trained_len=512."
        )
    kind = spec.kind
    target = spec.target_len or kind.default_target_len(length)
    return kind(trained_len=length, target_len=target, **cast("dict[str, Any]", spec.params))


def saved_strategy(setting: dict[str, Any], where: str) -> Strategy:
    """The strategy in the setting of a model that we saved.

    Raises:
        ModelError: if it is none of ours, or breaks a rule.
    """
    values = dict(setting)
    for key in ("base", "base_revision", "has_long_rows"):
        values.pop(key, None)
    try:
        return get_strategy(values.pop("strategy"))(**values)
    except (TypeError, KeyError, ValueError) as error:
        raise ModelError(f"{where} must hold a strategy with its parameters ({error}).") from error


def _as_saved(base: Base, spec: ModelSpec) -> Checkpoint:
    """A model that we saved. It takes a compute type, and of all other settings only those that it has."""
    assert base.saved is not None
    strategy = saved_strategy(base.saved, base.path)
    full = ModelSpec(
        base.name,
        strategy.KEY,
        strategy.target_len,
        dtype=spec.dtype,
        vectors=base.vectors,
        params=strategy.settings(),
    )
    asked = replace(spec, revision=None, trust_remote_code=False).experiment
    if asked["strategy"] == "none":
        del asked["strategy"]
    if not asked.items() <= full.experiment.items():
        raise InputError(
            f"{base.name} is extended already and accepts no strategy, length or other parameter except a dtype and a "
            "revision on the hub: load it as it was saved, or extend its base instead."
        )
    if not base.files.local:
        full = ModelSpec(base.name, dtype=spec.dtype)  # its repository has a name of its own
    return Checkpoint(base, full, strategy)
