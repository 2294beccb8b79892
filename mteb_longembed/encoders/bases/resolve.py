"""Decides once what a model is: its specification and its base -> `ResolvedModel`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, cast

from mteb_longembed.encoders.strategies import ALGORITHM, Strategy
from mteb_longembed.errors import IncompatibleError, InputError

from .checkpoint import Base, open_base
from .spec import DTYPES, ModelSpec


@dataclass(frozen=True)
class ResolvedModel:
    """An extended model before its weights load. All code that builds, describes or stores the model starts here.

    Its specification is the canonical one: only what differs from what holds without it. It prints the name.
    """

    spec: ModelSpec
    base: Base
    strategy: Strategy

    @property
    def name(self) -> str:
        """The one name under which results of the model are stored."""
        return str(self.spec)

    @property
    def revision(self) -> str:
        """The base's commit or hash, and the version of our algorithms."""
        return f"{self.base.revision}-{ALGORITHM}"

    @property
    def vectors(self) -> int | Literal["window"] | None:
        """Content tokens for each vector, or `window`. None for one vector for each document."""
        carried = self.base.carried
        spec = cast('int | Literal["window"] | None', self.spec.vectors)  # read when it was made
        return carried.vectors if carried and self.base.saved else spec


def resolve(spec: ModelSpec, base: Base | None = None) -> ResolvedModel:
    """Decide what a model is. Only small files are read."""
    base = base or open_base(spec.base, spec.revision, bool(spec.trust_remote_code))
    if base.late_interaction:
        for key, value in {"vectors": spec.vectors, "agg": spec.params.get("agg"), **spec.search}.items():
            if value is not None:
                raise IncompatibleError(
                    f"{key} needs a base with one vector for each text, but {base.name} has one for each token, got "
                    f"{key}={value}: leave it out."
                )
    if base.saved:
        return _as_saved(spec, base)
    strategy = _strategy_on(spec, base)
    if not base.late_interaction:
        _check_pooling(spec, strategy, base)
    canonical = replace(
        spec,
        base=base.name,
        target_len=strategy.target_len,
        trained_len=None if strategy.trained_len == base.trained_len else strategy.trained_len,
        revision=None,
        dtype=None if DTYPES.get(spec.dtype or "") == base.dtype else spec.dtype,
        trust_remote_code=base.runs_code,
        params=strategy.settings(),
    )
    return ResolvedModel(canonical, base, strategy)


def _strategy_on(spec: ModelSpec, base: Base) -> Strategy:
    """The strategy with all lengths and parameters."""
    if base.carried is not None:
        grown = base.carried.strategy.target_len
        if spec.strategy != "none" or spec.target_len not in (None, grown) or spec.params or spec.trained_len:
            raise IncompatibleError(
                f"{base.name} is extended already, to {grown} tokens; only none@{grown} fits it."
            )
        return base.carried.strategy
    base.family.check_fit(spec.kind, base.name)
    strategy = spec.strategy_on(base.trained_len, base.name)
    base.family.check_parameters(strategy, base.name)
    rows = base.family.trained_len(base.config)
    base.family.check_target(strategy, max(base.trained_len or 0, strategy.trained_len), rows)
    return strategy


def _as_saved(spec: ModelSpec, base: Base) -> ResolvedModel:
    """A model that we saved. It takes nothing but settings of the search."""
    carried = base.carried
    assert carried is not None  # a saved model carries its strategy
    strategy = carried.strategy
    published = ModelSpec(base.name, **spec.search)
    if spec.vectors == carried.vectors:
        spec = replace(spec, vectors=None)
    if replace(spec, base=base.name, revision=None, trust_remote_code=False) != published:
        raise InputError(
            f"{base.name} is extended already and accepts no strategy, length, dtype or other parameter except a "
            "revision on the hub: load it as it was saved, or extend its base instead."
        )
    key, length, params = strategy.key(), strategy.target_len, strategy.settings()
    full = replace(published, strategy=key, target_len=length, vectors=carried.vectors, params=params)
    # a repository of its own has a name of its own
    return ResolvedModel(full if base.files.local else published, base, strategy)


def _check_pooling(spec: ModelSpec, strategy: Strategy, base: Base) -> None:
    """Raise an error if a base's vectors cannot be compared or pooled in the way that a model asks for."""
    vectors, most = spec.vectors, spec.max_vectors
    if vectors is not None and base.similarity not in (None, "cosine", "dot"):
        raise IncompatibleError(
            f"several vectors are compared by cosine or dot product, and {base.name} compares by "
            f"{base.similarity}: leave out vectors."
        )
    if most is not None and vectors is None:
        raise InputError(
            f"max_vectors needs several vectors to pool, got max_vectors={most} with one: add vectors=N, or "
            "vectors=window."
        )
    if most is not None and base.similarity == "dot":
        raise IncompatibleError(
            f"max_vectors pools by the cosine, and {base.name} compares by the dot product: leave it out."
        )
    reads_segments = strategy.max_tokens is None and "windows" not in strategy.hooks()
    spans = f"vectors={vectors}" if isinstance(vectors, int) else None
    averages = "past_target=read" if reads_segments else spans
    if averages and base.pooling not in (None, "mean"):
        kind = base.pooling if isinstance(base.pooling, str) else "+".join(base.pooling)
        raise IncompatibleError(
            f"{averages} averages the tokens of a document, but {base.name} was trained with {kind} pooling, not "
            "mean: use pcw, with vectors=window for several vectors."
        )
