"""A model before any weights load: its base, the specification of a name, and the strategy with all its lengths."""

from dataclasses import dataclass, replace
from typing import Any, cast

from transformers.utils.import_utils import is_peft_available

from mteb_longembed.encoders.heads.grouping import Vectors, grouping_of
from mteb_longembed.encoders.heads.head import check_averages
from mteb_longembed.encoders.positions.strategies import ALGORITHM, Strategy, code_of
from mteb_longembed.encoders.positions.strategies.pi import PositionInterpolation
from mteb_longembed.errors import IncompatibleError, InputError, ModelError
from mteb_longembed.names.zoo import entry_of

from .base import Base, read_base
from .model_files import Files
from .spec import DTYPES, ModelSpec


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
    entry = entry_of(spec.base)
    path = spec.base
    revision = spec.revision
    if entry is not None:
        if entry.kind != "hub":
            raise ModelError(
                f"{spec.base} runs behind mteb's own interface and has no weights to extend; use mteb.get_model or "
                f"mteb run -m {spec.base}."
            )
        path = entry.path
        revision = spec.revision or entry.revision
    files = Files.open(path, revision)
    base = read_base(files, entry, trust_remote_code=bool(spec.trust_remote_code))
    if base.files.adapter_base is not None and not is_peft_available():
        raise ModelError(
            f"{base.path} has an adapter (LoRA), which needs PEFT: pip install 'mteb-longembed[peft]'."
        )
    return checkpoint_of(base, spec)


def checkpoint_of(base: Base, spec: ModelSpec) -> Checkpoint:
    """The model that a specification makes of a base. No weights are read.

    Raises:
        IncompatibleError: if the strategy, a parameter or the vectors do not fit the base.
        InputError: if a length breaks its rule, or if the base is extended already.
    """
    if base.saved_as is not None:
        return _as_saved(base, spec, base.saved_as.strategy)
    if spec.vectors is not None and base.similarity not in (None, "cosine", "dot"):
        raise IncompatibleError(
            f"several vectors are compared by cosine or dot product, and {base.name} compares by "
            f"{base.similarity}: leave out vectors."
        )
    grouping = grouping_of(spec.vectors)
    if grouping is not None and grouping.averages:
        check_averages(f"vectors={spec.vectors}", base.name, base.pooling)
    strategy = _strategy_for(base, spec)
    trained_len = None
    if strategy.trained_len != base.trained_len:
        trained_len = strategy.trained_len
    dtype = spec.dtype
    if DTYPES.get(dtype or "") == base.dtype:
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
        return PositionInterpolation(trained_len=base.trained_len or grown, target_len=grown)
    base.family.check_fit(spec.kind, base.name)
    strategy = strategy_of(spec, base.trained_len, base.name)
    base.family.check_parameters(strategy, base.name)
    base.family.check_target(strategy, max(base.trained_len or 0, strategy.trained_len), base.allowed_len)
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


def _as_saved(base: Base, spec: ModelSpec, strategy: Strategy) -> Checkpoint:
    """A model that we saved. It takes no settings."""
    published = ModelSpec(base.name)
    if spec.vectors == base.vectors:
        spec = replace(spec, vectors=None)
    if replace(spec, base=base.name, revision=None, trust_remote_code=False) != published:
        raise InputError(
            f"{base.name} is extended already and accepts no strategy, length, dtype or other parameter except a "
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
