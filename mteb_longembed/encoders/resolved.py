"""A method and its base: refused before any weights load, or described completely."""

from dataclasses import dataclass, replace
from typing import Self

from mteb_longembed.encoders.strategies import STRATEGIES, Strategy, algorithm_of
from mteb_longembed.errors import IncompatibleError, InputError
from mteb_longembed.names import Identity, Settings
from mteb_longembed.values import Vectors

from .base import Base, read_base
from .method import BM25_VERSION, DTYPES, MTEB_BM25_VERSION, SEARCH_VERSION, Method
from .positions import check_fit
from .vectors import check_averages

#: Settings of a search that pool or compare dense vectors.
_OF_DENSE = ("weights", "whiten", "score", "query")


@dataclass(frozen=True)
class Resolved:
    """A method, its base and its strategy. Code that builds, describes or stores a model starts here."""

    base: Base  #: the base
    method: Method  #: the canonical method, with the base's own name
    strategy: Strategy  #: with all lengths and parameters

    @property
    def vectors(self) -> Vectors | None:
        """Content tokens per vector, or `window`. None for one vector per document."""
        return self.base.vectors or self.method.vectors

    @property
    def experiment(self) -> Settings:
        """Mteb's experiment: all non-default settings that, beside the base's files, determine vectors and search.

        It always has the strategy, the target length and the version of our algorithms, or of a custom strategy's
        code.
        """
        model = self.method.model.experiment
        algorithm = algorithm_of(type(self.strategy))
        if self.method.search:
            algorithm += f"-{SEARCH_VERSION}"
        if self.method.fusion:
            algorithm += f"-bm25_{MTEB_BM25_VERSION}{BM25_VERSION}"
        made_by = {"target_len": self.strategy.target_len, "algorithm": algorithm}
        return {**model, **made_by, **self.method.search}

    @property
    def identity(self) -> Identity:
        """The name and revision of results."""
        return Identity(self.base.name, self.base.revision, self.experiment)

    @property
    def plain(self) -> Self:
        """The model with one vector for each document, whose passes searches with any vectors share."""
        vectors = self.base.vectors  # of a model that was saved with several
        return replace(self, method=replace(self.method.model, vectors=vectors))


def resolve(method: Method) -> Resolved:
    """Read the base of a method, and fit the method to it. No weights are read.

    Raises:
        HubError, ModelError: if the base cannot be read, or is not an embedding model.
        IncompatibleError, InputError: if the method does not fit the base.
    """
    base = read_base(method.base, method.revision, trust_remote_code=method.trust_remote_code)
    resolved = fitted(method, base)
    if method.search:
        _check_search(resolved)
    return resolved


def fitted(method: Method, base: Base) -> Resolved:
    """Fit the model of a method to a base; `resolve` checks settings of a search. No weights are read.

    Raises:
        IncompatibleError: if the strategy, a setting or the vectors do not fit the base.
        InputError: if a length breaks its rule, or if the base is extended already.
    """
    if base.saved_strategy is not None:
        return _as_saved(base, base.saved_strategy, method)
    if base.family != "dense" and isinstance(method.vectors, int):
        raise IncompatibleError(
            f"vectors=N, which +late and +hybrid have too, averages the tokens of a dense model, got "
            f"vectors={method.vectors} with {base.name}, a {base.family} model: use +windows or +windows:fusion=bm25."
        )
    if (
        base.family == "dense"
        and method.vectors is not None
        and base.similarity not in (None, "cosine", "dot")
    ):
        raise IncompatibleError(
            f"several vectors are compared by cosine or dot product, and {base.name} compares by "
            f"{base.similarity}: leave out vectors."
        )
    if isinstance(method.vectors, int):
        check_averages(f"vectors={method.vectors}", base.name, base.pooling)
    length = method.trained_len or base.trained_len
    if length is None:
        raise InputError(
            f"{base.name} does not say how many tokens it was trained on: give trained_len, such as :trained_len=512."
        )
    target = method.target_len or method.strategy_class.default_target_len(length)
    strategy = method.strategy_class(trained_len=length, target_len=target, **method.params)
    if base.entry.interpolation is not None:
        # its table is interpolated already, by the rule of `pi`
        trained = base.trained_len or 1
        grown = base.entry.interpolation * trained
        requests_more = method.target_len not in (None, grown) or method.params or method.trained_len
        if method.strategy != "none" or requests_more:
            raise IncompatibleError(
                f"{base.name} is extended already, to {grown} tokens; only none@{grown} fits it."
            )
        strategy = STRATEGIES["pi"](trained_len=trained, target_len=grown)
    check_fit(base.config, strategy, base.name)
    trained_len = None
    if strategy.trained_len != base.trained_len:
        trained_len = strategy.trained_len
    dtype = method.dtype
    if dtype is not None and DTYPES[dtype] == str(base.config.dtype).removeprefix("torch."):
        dtype = None
    canonical = method.having(
        base=base.name,
        target_len=strategy.target_len,
        trained_len=trained_len,
        revision=None,
        dtype=dtype,
        trust_remote_code=base.runs_code,
        params=strategy.settings,
    )
    return Resolved(base, canonical, strategy)


def _check_search(resolved: Resolved) -> None:
    """Refuse settings of a search that do not fit the base, or can have no effect on its vectors."""
    base, method = resolved.base, resolved.method
    of_dense = [key for key in _OF_DENSE if key in method.search]
    if base.family != "dense" and of_dense:
        key = of_dense[-1]
        raise IncompatibleError(
            f"{key} changes searches with dense vectors, got {key}={method.search[key]} with {base.name}, a "
            f"{base.family} model: leave it out."
        )
    if base.family == "late-interaction" and method.temperature is not None:
        raise IncompatibleError(
            f"late interaction has no temperature, got temperature={method.temperature:g} with {base.name}: leave it "
            "out."
        )
    if method.query is not None and resolved.vectors is None:
        raise InputError(
            f"query={method.query} compares with parts of a document, so it needs vectors=window or vectors=N: "
            "add one."
        )
    if method.score is not None and resolved.vectors is None:
        raise InputError(
            f"score={method.score} joins the vectors of a document, so it needs vectors=window or vectors=N: add one."
        )
    if method.weights is not None:
        check_averages(f"weights={method.weights}", base.name, base.pooling)
    if method.query == "tokens":
        check_averages("query=tokens", base.name, base.pooling)


def _as_saved(base: Base, strategy: Strategy, method: Method) -> Resolved:
    """Return a model that we saved. It accepts a compute type and a search, and otherwise only its own settings."""
    check_fit(base.config, strategy, base.name)
    own = Method(
        base.name,
        strategy.KEY,
        strategy.target_len,
        dtype=method.dtype,
        vectors=base.vectors,
        params=strategy.settings,
    )
    requested = dict(replace(method.model, revision=None, trust_remote_code=False).experiment)
    if requested["strategy"] == "none":
        del requested["strategy"]
    if not requested.items() <= own.experiment.items():
        raise InputError(
            f"{base.name} is extended already and accepts no strategy, length or other parameter except a dtype and a "
            "revision on the hub: load it as it was saved, or extend its base instead."
        )
    if not base.files.local:
        own = Method(base.name, dtype=method.dtype)  # its repository has a name of its own
    return Resolved(base, replace(own, **method.search), strategy)
