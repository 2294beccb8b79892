"""The model that a specification makes from a base: refused before any weights load, or described completely."""

from dataclasses import dataclass, replace

from mteb_longembed.encoders.strategies import STRATEGIES, Strategy, algorithm_of
from mteb_longembed.errors import IncompatibleError, InputError
from mteb_longembed.names import Settings
from mteb_longembed.values import Vectors

from .base import Base, read_base
from .positions import check_fit
from .spec import DTYPES, ModelSpec
from .vectors import check_averages


@dataclass(frozen=True)
class Checkpoint:
    """The model that a specification makes from a base. Code that builds, describes or stores a model starts here."""

    base: Base  #: the base
    spec: ModelSpec  #: the canonical specification; it prints the model's name
    strategy: Strategy  #: with all lengths and parameters

    @property
    def vectors(self) -> Vectors | None:
        """Content tokens per vector, or `window`. None for one vector per document."""
        return self.base.vectors or self.spec.vectors

    @property
    def experiment(self) -> Settings:
        """Mteb's experiment: all non-default settings that, beside the base's files, determine the vectors.

        It always has the strategy, the target length and the version of our algorithms, or of a custom strategy's
        code.
        """
        made_by = {"target_len": self.strategy.target_len, "algorithm": algorithm_of(type(self.strategy))}
        return {**self.spec.experiment, **made_by}


def open_checkpoint(spec: ModelSpec) -> Checkpoint:
    """Open the model that a specification requests. No weights are read.

    Raises:
        HubError, ModelError: if the base cannot be read, or is not an embedding model.
        IncompatibleError, InputError: if the specification does not fit the base.
    """
    base = read_base(spec.base, spec.revision, trust_remote_code=bool(spec.trust_remote_code))
    return checkpoint_of(base, spec)


def checkpoint_of(base: Base, spec: ModelSpec) -> Checkpoint:
    """Return the model that a specification makes from a base. No weights are read.

    Raises:
        IncompatibleError: if the strategy, a parameter or the vectors do not fit the base.
        InputError: if a length breaks its rule, or if the base is extended already.
    """
    if base.made is not None:
        return _as_saved(base, base.made, spec)
    if base.kind != "dense" and isinstance(spec.vectors, int):
        raise IncompatibleError(
            f"vectors=N, which +late and +hybrid have too, averages the tokens of a dense model, got "
            f"vectors={spec.vectors} with {base.name}, a {base.kind} model: use +windows or +windows:fusion=bm25."
        )
    if base.kind == "dense" and spec.vectors is not None and base.similarity not in (None, "cosine", "dot"):
        raise IncompatibleError(
            f"several vectors are compared by cosine or dot product, and {base.name} compares by "
            f"{base.similarity}: leave out vectors."
        )
    if isinstance(spec.vectors, int):
        check_averages(f"vectors={spec.vectors}", base.name, base.pooling)
    length = spec.trained_len or base.trained_len
    if length is None:
        raise InputError(
            f"{base.name} does not say how many tokens it was trained on: give trained_len, such as :trained_len=512."
        )
    target = spec.target_len or spec.kind.default_target_len(length)
    strategy = spec.kind(trained_len=length, target_len=target, **spec.params)
    if base.entry.interpolation is not None:
        # its table is interpolated already, by the rule of `pi`
        trained = base.trained_len or 1
        grown = base.entry.interpolation * trained
        requests_more = spec.target_len not in (None, grown) or spec.params or spec.trained_len
        if spec.strategy != "none" or requests_more:
            raise IncompatibleError(
                f"{base.name} is extended already, to {grown} tokens; only none@{grown} fits it."
            )
        strategy = STRATEGIES["pi"](trained_len=trained, target_len=grown)
    check_fit(base.config, strategy, base.name)
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
        params=strategy.settings,
    )
    return Checkpoint(base, canonical, strategy)


def _as_saved(base: Base, strategy: Strategy, spec: ModelSpec) -> Checkpoint:
    """Return a model that we saved. It accepts a compute type, and otherwise only its own settings."""
    check_fit(base.config, strategy, base.name)
    full = ModelSpec(
        base.name,
        strategy.KEY,
        strategy.target_len,
        dtype=spec.dtype,
        vectors=base.vectors,
        params=strategy.settings,
    )
    requested = {**replace(spec, revision=None, trust_remote_code=False).experiment}
    if requested["strategy"] == "none":
        del requested["strategy"]
    if not requested.items() <= full.experiment.items():
        raise InputError(
            f"{base.name} is extended already and accepts no strategy, length or other parameter except a dtype and a "
            "revision on the hub: load it as it was saved, or extend its base instead."
        )
    if not base.files.local:
        full = ModelSpec(base.name, dtype=spec.dtype)  # its repository has a name of its own
    return Checkpoint(base, full, strategy)
