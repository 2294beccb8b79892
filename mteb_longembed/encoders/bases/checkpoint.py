"""A model before any weights load: what the small files of its base say, and what a name makes of it."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from typing import Literal, cast

from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer
from transformers import PretrainedConfig

from mteb_longembed.encoders.families import Family, family_of
from mteb_longembed.encoders.strategies import ALGORITHM, Strategy
from mteb_longembed.encoders.strategies.pi import PositionInterpolation
from mteb_longembed.errors import IncompatibleError, InputError, ModelError
from mteb_longembed.names.grammar import is_folder
from mteb_longembed.names.zoo import ZooEntry, entry_of

from .identity import digest
from .model_files import Files, Json, ModuleEntry, local_name
from .small_files import check_embedding_model, dtype_of, pooling_mode, read_config, shortest
from .spec import DTYPES, ModelSpec
from .strategy_file import STRATEGY_FILE, StrategyFile

#: The types and similarities of models with a vector for every token, by sentence-transformers and PyLate.
_LATE_INTERACTION = {"MultiVectorEncoder", "ColBERT", "MaxSim", "maxsim", "meanmaxsim"}
#: Packages of modules that load without code of the repository. sentence-transformers reads PyLate's as its own.
_STOCK = ("sentence_transformers.", "pylate.")
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
        entry: that of the zoo.
        modules: the entries of modules.json.
        pooling: the pooling's mode, or several.
        similarity: by sentence-transformers' name.
        dtype: the type of the weights, by torch's name.
        has_code: whether the repository brings code of its own.
        runs_code: whether that code may run.
        late_interaction: whether every token of a text has a vector (ColBERT).
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
    entry: ZooEntry | None = None
    modules: tuple[ModuleEntry, ...] = ()
    pooling: str | tuple[str, ...] | None = None
    similarity: str | None = None
    dtype: str | None = None
    has_code: bool = False
    runs_code: bool = False
    late_interaction: bool = False
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
        return self.name if self.carried is None else self.carried.base_name

    @property
    def base_revision(self) -> str | None:
        """The revision of the base that the extended model is made from."""
        return self.revision if self.carried is None else self.carried.base_revision

    @property
    def saved(self) -> bool:
        """Whether we saved it: its modules are ours, and its name is that of an extended model."""
        return self.carried is not None

    @property
    def interpolated(self) -> int | None:
        """The target length to which its position table is interpolated already, by the rule of `pi`."""
        if self.entry is None or self.entry.interpolation is None or self.entry.trained_len is None:
            return None
        return self.entry.interpolation * self.entry.trained_len

    def check_unchanged(self) -> None:
        """Raise InputError if the files of a local base have changed since they were read."""
        if self.files.are_unchanged():
            return
        now = self.files.revision(code=self.runs_code)
        if now != self.revision:
            raise InputError(
                f"{self.name} must still be at revision {self.revision}, got {now}: its files have changed "
                "during the run, so start again."
            )

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
        strategy = self._strategy_for(spec)
        if not self.late_interaction:
            self._check_vectors(spec)
            self._check_averages(spec, strategy)
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
            strategy=strategy.key(),
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

    def _check_averages(self, spec: ModelSpec, strategy: Strategy) -> None:
        """Refuse means of tokens for a base that was trained with another pooling."""
        if strategy.max_tokens is None and "windows" not in strategy.hooks():
            averages = "past_target=read"
        elif isinstance(spec.vectors, int):
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


def open_checkpoint(spec: ModelSpec) -> BaseCheckpoint:
    """The model that a specification asks for. Only small files are read, each state of a base once in a process.

    Raises:
        HubError, ModelError: if the base cannot be read, or is not an embedding model.
        IncompatibleError, InputError: as `extended_by`.
    """
    entry = entry_of(spec.base)
    if entry is None:
        files = Files.open(spec.base, spec.revision)
    elif entry.kind == "hub":
        files = Files.open(entry.path, spec.revision or entry.revision)
    else:
        raise ModelError(
            f"{spec.base} runs behind mteb's own interface and has no weights to extend; use mteb.get_model or "
            f"mteb run -m {spec.base}."
        )
    base = _read(files.with_adapter_base(), entry, bool(spec.trust_remote_code))
    return base.extended_by(spec)


@functools.lru_cache(maxsize=128)
def _read(files: Files, entry: ZooEntry | None, trust_remote_code: bool) -> BaseCheckpoint:
    """A base alone."""
    path = files.path
    # first all files, then all decisions
    modules = files.modules()
    inside = files.transformer_folder()
    base_files = files
    folder = inside
    if files.adapter_base is not None:
        base_files = files.adapter_base
        folder = ""
    raw = check_embedding_model(path, base_files.json(f"{folder}config.json", optional=False), modules)
    options = files.json(f"{inside}sentence_bert_config.json") or {}
    tokenizer = files.json(f"{inside}tokenizer_config.json") or {}
    settings = files.json("config_sentence_transformers.json") or {}
    pooling = _pooling_config(files, modules or [])
    carried = None
    if entry is None and files.are_ours():
        extension = files.json(f"{inside}{STRATEGY_FILE}")
        carried = StrategyFile.from_json(extension, f"{path}/{STRATEGY_FILE}")

    config = read_config(base_files, folder, raw, trust_remote_code)
    family = family_of(config)
    kinds = {str(settings.get(key)) for key in ("model_type", "similarity_fn_name")}
    late = "vectors" not in pooling and bool(kinds & _LATE_INTERACTION)
    foreign = any(not module["type"].startswith(_STOCK) for module in modules or ())
    has_code = carried is None and (foreign or "auto_map" in raw or "auto_map" in tokenizer)
    runs_code = has_code and trust_remote_code
    limits = [family.trained_len(config), options.get("max_seq_length")]
    if late:
        limits += [options.get("document_length"), settings.get("document_length")]
    trained_len = shortest(*limits)
    if carried is not None:
        trained_len = carried.strategy.trained_len
    elif entry is not None and entry.trained_len is not None:
        trained_len = entry.trained_len
    similarity = settings.get("similarity_fn_name")
    return BaseCheckpoint(
        name=entry.hub_id if entry else files.name(),
        files=files,
        revision=files.revision(code=runs_code),
        trained_len=trained_len,
        family=family,
        config=config,
        entry=entry,
        modules=tuple(modules or ()),
        pooling=pooling_mode(pooling) or (entry.pooling if entry else None),
        similarity=similarity if isinstance(similarity, str) else None,
        dtype=dtype_of(base_files, folder, raw),
        has_code=has_code,
        runs_code=runs_code,
        late_interaction=late,
        carried=carried,
        vectors=_vectors_in(pooling, path) if carried is not None else None,
    )


def _pooling_config(files: Files, modules: list[ModuleEntry]) -> Json:
    """The configuration of the first pooling. Empty if there is none."""
    for module in modules:
        if module["type"].endswith("Pooling"):
            return files.json(f"{module['path']}/config.json") or {}
    return {}


def _vectors_in(pooling: Json, path: str) -> Vectors | None:
    """How many vectors a document has, by the configuration of a pooling of ours."""
    vectors = pooling.get("vectors")
    if vectors is None or vectors == "window" or (isinstance(vectors, int) and vectors > 0):
        return vectors
    raise ModelError(
        f"the pooling of {path} must hold vectors, a number of tokens or window, got {vectors!r}."
    )


def loaded_checkpoint(model: SentenceTransformer) -> BaseCheckpoint:
    """What a loaded model says about itself: its user's name for it or `local/NAME`, with its digest as revision."""
    first = model[0]
    if not isinstance(first, Transformer):
        raise ModelError(
            f"the model starts with a {type(first).__name__}, but only a Transformer can be extended."
        )
    family = family_of(first.config)
    card = model.model_card_data
    source = str(first.config.name_or_path or "")
    path = source or str(card.base_model or "")
    if not card.model_name and not path:
        raise InputError(
            "the loaded model has no name, so its results could be mistaken for another's: set "
            "model.model_card_data.model_name first."
        )
    if is_folder(source):
        files = Files.open(source)
    elif source:
        files = Files(source, card.base_model_revision)
    else:
        files = Files("", stamp=())
    pooling = getattr(model[1], "pooling_mode", None) if len(model) > 1 else None
    return BaseCheckpoint(
        name=card.model_name or local_name(path),
        files=files,
        revision=digest(model),
        trained_len=shortest(family.trained_len(first.config), model.max_seq_length),
        family=family,
        config=first.config,
        pooling=pooling,
        similarity=model.similarity_fn_name,
        dtype=str(model.dtype).removeprefix("torch."),
    )
