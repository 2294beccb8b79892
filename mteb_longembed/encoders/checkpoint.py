"""A model before any weights load: its base, the specification of a name, and the strategy with all its lengths."""

from dataclasses import dataclass, replace
from typing import Any, cast

from mteb_longembed.encoders.strategies import ALGORITHM, Strategy, code_of, get_strategy
from mteb_longembed.errors import IncompatibleError, InputError, ModelError

from .base import Base, read_base
from .spec import DTYPES, ModelSpec
from .swap import check_fit, check_parameters
from .vectors import Vectors, check_averages


@dataclass(frozen=True)
class Checkpoint:
    """The model that a specification makes of a base. All code that builds, describes or stores a model starts here.

    Args:
        base: what its files say.
        spec: the canonical specification. It prints the model's name.
        strategy: with all lengths and parameters.
    """

    base: Base
    spec: ModelSpec
    strategy: Strategy

    @property
    def name(self) -> str:
        """The one name under which results of the model are stored."""
        return str(self.spec)

    @property
    def vectors(self) -> Vectors | None:
        """Content tokens for each vector, or `window`. None for one vector for each document."""
        return self.base.vectors or self.spec.vectors

    @property
    def revision(self) -> str:
        """The base's commit or hash, and the version of our algorithms, or of the code of somebody's strategy."""
        return f"{self.base.revision}-{ALGORITHM}{code_of(type(self.strategy))}"


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
    grown = base.interpolated
    if grown is not None:
        asks_for_more = spec.target_len not in (None, grown) or spec.params or spec.trained_len
        if spec.strategy != "none" or asks_for_more:
            raise IncompatibleError(
                f"{base.name} is extended already, to {grown} tokens; only none@{grown} fits it."
            )
        return get_strategy("pi")(trained_len=base.trained_len or grown, target_len=grown)
    check_fit(base.config, spec.kind, base.name)
    strategy = strategy_of(spec, base.trained_len, base.name)
    check_parameters(base.config, strategy, base.name)
    return strategy


def strategy_of(spec: ModelSpec, trained_len: int | None, base: str) -> Strategy:
    """The strategy with all lengths and parameters, for a base of this name that was trained on this length."""
    length = spec.trained_len or trained_len
    if not isinstance(length, int):
        raise InputError(
            f"{base} does not say how many tokens it was trained on: give trained_len, such as :trained_len=512."
        )
    kind = spec.kind
    target = int(spec.target_len or kind.default_target_len(length))
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
    """A model that we saved. It takes a compute type, and no other setting."""
    assert base.saved is not None
    strategy = saved_strategy(base.saved, base.path)
    published = ModelSpec(base.name, dtype=spec.dtype)
    if spec.vectors == base.vectors:
        spec = replace(spec, vectors=None)
    if replace(spec, base=base.name, revision=None, trust_remote_code=False) != published:
        raise InputError(
            f"{base.name} is extended already and accepts no strategy, length or other parameter except a dtype and a "
            "revision on the hub: load it as it was saved, or extend its base instead."
        )
    if not base.files.local:
        return Checkpoint(base, published, strategy)  # its repository has a name of its own
    full = replace(
        published,
        strategy=strategy.KEY,
        target_len=strategy.target_len,
        vectors=base.vectors,
        params=strategy.settings(),
    )
    return Checkpoint(base, full, strategy)
