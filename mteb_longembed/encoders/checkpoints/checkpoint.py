"""A model before any weights load: what the small files of its base say, and what a name makes of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, cast

from transformers import PretrainedConfig

from mteb_longembed.encoders.families import Family
from mteb_longembed.encoders.strategies import ALGORITHM, Strategy
from mteb_longembed.encoders.strategies.pi import PositionInterpolation
from mteb_longembed.errors import IncompatibleError, InputError
from mteb_longembed.names.zoo import ZooEntry

from .model_files import Files, ModuleEntry
from .spec import DTYPES, ModelSpec
from .strategy_file import Json, StrategyFile

#: Content tokens for each vector, or one vector for each window.
Vectors = int | Literal["window"]


@dataclass(frozen=True)
class BaseCheckpoint:
    """A base by its small files, ours or anybody's, and the model that a specification makes of it.

    All code that builds, describes or stores a model starts here. What the files do not say is None.

    Args:
        name: a hub id or `local/NAME`.
        files: the files themselves.
        revision: the hub's commit, or a hash of the local files.
        trained_len: the longest input in tokens that the base was trained on.
        family: how positions enter the model.
        config: transformers' configuration.
        native: the type of a model that we read as another class than its files name (`native.py`).
        entry: that of the zoo.
        modules: the entries of modules.json.
        settings: the content of config_sentence_transformers.json.
        pooling: the pooling's mode, or several.
        similarity: by sentence-transformers' name.
        dtype: the type of the weights, by torch's name.
        has_code: whether the repository brings code of its own.
        runs_code: whether that code may run.
        late_interaction: whether every token of a text has a vector (ColBERT).
        wants_eos: whether the tokenizer's settings ask for an end token (`add_eos_token`).
        carried: the content of our file, if we saved the model.
        spec: the canonical specification of the extended model. It prints the model's name.
        strategy: with all lengths and parameters. None for a base alone.
        vectors: None for one vector for each document.
    """

    name: str
    files: Files
    revision: str | None
    trained_len: int | None
    family: type[Family]
    config: PretrainedConfig
    native: str | None = None
    entry: ZooEntry | None = None
    modules: tuple[ModuleEntry, ...] = ()
    settings: Json = field(default_factory=dict)
    pooling: str | tuple[str, ...] | None = None
    similarity: str | None = None
    dtype: str | None = None
    has_code: bool = False
    runs_code: bool = False
    late_interaction: bool = False
    wants_eos: bool = False
    carried: StrategyFile | None = None
    spec: ModelSpec = field(default_factory=lambda: ModelSpec(""))
    extension: Strategy | None = None
    vectors: Vectors | None = None

    @property
    def path(self) -> str:
        """What to load: a folder or a hub id."""
        return self.files.path

    @property
    def strategy(self) -> Strategy:
        """The strategy of the extended model, with all lengths and parameters."""
        assert self.extension is not None, "a base alone has no strategy: use extended_by"
        return self.extension

    @property
    def model_name(self) -> str:
        """The one name under which results of the extended model are stored."""
        return str(self.spec)

    @property
    def model_revision(self) -> str:
        """The base's commit or hash, and the version of our algorithms."""
        return f"{self.revision}-{ALGORITHM}"

    @property
    def base_name(self) -> str:
        """The name of the base that the extended model is made from."""
        if self.carried is None:
            return self.name
        return self.carried.base_name

    @property
    def base_revision(self) -> str | None:
        """The revision of the base that the extended model is made from."""
        if self.carried is None:
            return self.revision
        return self.carried.base_revision

    @property
    def saved(self) -> bool:
        """Whether we saved it: its modules are ours, and its name is that of an extended model."""
        return self.carried is not None

    @property
    def has_adapter(self) -> bool:
        """Whether its files hold an adapter of PEFT."""
        return self.files.adapter_base is not None or bool(self.carried and self.carried.adapters)

    @property
    def interpolated(self) -> int | None:
        """The target length to which its position table is interpolated already, by the rule of `pi`."""
        if self.entry is None or self.entry.interpolation is None or self.entry.trained_len is None:
            return None
        return self.entry.interpolation * self.entry.trained_len

    def extended_by(self, spec: ModelSpec) -> BaseCheckpoint:
        """The model that a specification makes of this base. No weights are read.

        Raises:
            IncompatibleError: if the strategy, a parameter or the vectors do not fit the base.
            InputError: if a length breaks its rule, or if the base is extended already.
        """
        if self.late_interaction:
            self._check_no_vectors(spec)
        if self.carried is not None:
            return self._as_saved(spec, self.carried.strategy)
        if not self.late_interaction:
            self._check_vectors(spec)
            self._check_averages(spec)
        strategy = self._strategy_for(spec)
        trained_len = None
        if strategy.trained_len != self.trained_len:
            trained_len = strategy.trained_len
        dtype = spec.dtype
        if DTYPES.get(dtype or "") == self.dtype:
            dtype = None
        canonical = replace(
            spec,
            base=self.name,
            target_len=strategy.target_len,
            trained_len=trained_len,
            revision=None,
            dtype=dtype,
            trust_remote_code=self.runs_code,
            params=strategy.settings(),
        )
        vectors = cast("Vectors | None", spec.vectors)  # read when the specification was made
        return replace(self, spec=canonical, extension=strategy, vectors=vectors)

    def _strategy_for(self, spec: ModelSpec) -> Strategy:
        """The strategy with all lengths and parameters."""
        grown = self.interpolated
        if grown is not None:
            if (
                spec.strategy != "none"
                or spec.target_len not in (None, grown)
                or spec.params
                or spec.trained_len
            ):
                raise IncompatibleError(
                    f"{self.name} is extended already, to {grown} tokens; only none@{grown} fits it."
                )
            return PositionInterpolation(trained_len=self.trained_len or grown, target_len=grown)
        self.family.check_fit(spec.kind, self.name)
        strategy = spec.strategy_on(self.trained_len, self.name)
        self.family.check_parameters(strategy, self.name)
        rows = self.family.trained_len(self.config)
        self.family.check_target(strategy, max(self.trained_len or 0, strategy.trained_len), rows)
        return strategy

    def _as_saved(self, spec: ModelSpec, strategy: Strategy) -> BaseCheckpoint:
        """A model that we saved. It takes nothing but settings of the search."""
        published = ModelSpec(self.name, **spec.search)
        if spec.vectors == self.vectors:
            spec = replace(spec, vectors=None)
        if replace(spec, base=self.name, revision=None, trust_remote_code=False) != published:
            raise InputError(
                f"{self.name} is extended already and accepts no strategy, length, dtype or other parameter except a "
                "revision on the hub: load it as it was saved, or extend its base instead."
            )
        if not self.files.local:
            return replace(self, spec=published, extension=strategy)  # its repository has a name of its own
        full = replace(
            published,
            strategy=strategy.KEY,
            target_len=strategy.target_len,
            vectors=self.vectors,
            params=strategy.settings(),
        )
        return replace(self, spec=full, extension=strategy)

    def _check_no_vectors(self, spec: ModelSpec) -> None:
        """Refuse settings that need one vector for each text."""
        for key, value in {"vectors": spec.vectors, "agg": spec.params.get("agg"), **spec.search}.items():
            if value is not None:
                raise IncompatibleError(
                    f"{key} needs a base with one vector for each text, but {self.name} has one for each token, got "
                    f"{key}={value}: leave it out."
                )

    def _check_vectors(self, spec: ModelSpec) -> None:
        """Refuse several vectors that could not be compared or pooled."""
        vectors = spec.vectors
        most = spec.max_vectors
        if vectors is not None and self.similarity not in (None, "cosine", "dot"):
            raise IncompatibleError(
                f"several vectors are compared by cosine or dot product, and {self.name} compares by "
                f"{self.similarity}: leave out vectors."
            )
        if most is not None and vectors is None:
            raise InputError(
                f"max_vectors needs several vectors to pool, got max_vectors={most} with one: add vectors=N, or "
                "vectors=window."
            )
        if most is not None and self.similarity == "dot":
            raise IncompatibleError(
                f"max_vectors pools by the cosine, and {self.name} compares by the dot product: leave it out."
            )

    def _check_averages(self, spec: ModelSpec) -> None:
        """Refuse means of tokens for a base that was trained with another pooling."""
        if isinstance(spec.vectors, int):
            averages = f"vectors={spec.vectors}"
        elif spec.weights is not None:
            averages = f"weights={spec.weights}"
        else:
            return
        if self.pooling in (None, "mean"):
            return
        kind = self.pooling
        if isinstance(kind, tuple):
            kind = "+".join(kind)
        raise IncompatibleError(
            f"{averages} averages the tokens of a document, but {self.name} was trained with {kind} pooling, not "
            "mean: use pcw, with vectors=window for several vectors."
        )
