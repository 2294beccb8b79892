"""The model that a name requests: from the name and the small files of its base, before any weights load."""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PureWindowsPath
from posixpath import join
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self, cast

from pydantic import BeforeValidator
from sentence_transformers import MultiVectorEncoder, SentenceTransformer, SparseEncoder
from sentence_transformers.base import BaseModel
from sentence_transformers.sentence_transformer.modules import Transformer
from transformers import AutoConfig, PretrainedConfig

from mteb_longembed.base_names import full_base
from mteb_longembed.encoders.strategies import STRATEGIES, Strategy, algorithm_of
from mteb_longembed.errors import IncompatibleError, InputError, LongEmbedError, ModelError, UnknownNameError
from mteb_longembed.hub import find, translate_hub_errors
from mteb_longembed.names import PRESETS, SEARCH_SETTINGS, name_of, split_name, split_settings
from mteb_longembed.values import Tokens, Vectors, read, read_fields
from mteb_longembed.zoo import ZooEntry, entry_of, holds_model, is_folder

from .e5rope import E5_ROPE
from .head import reader_of
from .swap import allowed_len, check_fit
from .vectors import check_averages

#: The entry of a base that the zoo lacks.
_UNLISTED = ZooEntry(hub_id="")
#: The content of a JSON object.
Json = dict[str, Any]
#: The class of the first module of a model that we saved.
BACKBONE = "mteb_longembed.encoders.model.LongTransformer"
#: What a base gives for a text: one dense vector, a vector for each token, or one weight for each word of a vocabulary.
Kind = Literal["dense", "late-interaction", "sparse"]
#: The class of sentence-transformers that a base of each kind has.
KINDS: dict[Kind, type[BaseModel]] = {
    "dense": SentenceTransformer,
    "late-interaction": MultiVectorEncoder,
    "sparse": SparseEncoder,
}
#: The entry `model_type` of config_sentence_transformers.json, and parts of the class names of modules -> the kind.
#: `ColBERT` is PyLate's, and a model of `GroupByDocument` is a dense one of ours with several vectors.
_TYPES: dict[str, Kind] = {
    "SparseEncoder": "sparse",
    "MultiVectorEncoder": "late-interaction",
    "ColBERT": "late-interaction",
}
_MODULES: dict[str, Kind] = {
    "GroupByDocument": "dense",
    "sparse_encoder.": "sparse",
    "multi_vector_encoder.": "late-interaction",
    "pylate.": "late-interaction",
}
#: Heads of models that classify and do not embed.
_CLASSIFIERS = ("ForSequenceClassification", "ForImageClassification")
_COMMIT = re.compile(r"[0-9a-f]{40}")
#: The endings of files that determine a model's embeddings.
_HASHED = (".safetensors", ".bin", ".json", ".txt", ".model")
#: The switches of older folders of sentence-transformers, one for each mode of a pooling.
POOLING_SWITCHES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
#: Checked values by the names of their parameters.
Settings = Mapping[str, object]
#: Short spellings of compute types -> torch's names.
DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
_SHORT: dict[object, str] = {full: short for short, full in DTYPES.items()}
#: A compute type by its short spelling; torch's is read too.
DType = Annotated[Literal["fp32", "fp16", "bf16"], BeforeValidator(lambda text: _SHORT.get(text, text))]
#: The parameters that every name may set after the colon, whatever its strategy.
OF_EVERY_NAME = ("dtype", "revision", "trained_len", "trust_remote_code", "vectors")


# ---- what a name requests --------------------------------------------------------------------------------------


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
        params = {}
        for key, value in self.params.items():
            if key in SEARCH_SETTINGS:
                others = f", or adapt(NAME, documents, {key}=...)" if key in ("weights", "whiten") else ""
                raise InputError(
                    f"{key} changes search and no model, got {key}={value}: leave it out here; it belongs in a name "
                    f"for mteb_longembed.search(NAME), mteb-longembed search, compare and mteb run{others}."
                )
            if key not in declared:
                raise UnknownNameError(f"parameter of {self.strategy}", key, declared)
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

        Settings of search are none of a model: `retrieval.naming.read_name` reads these and leaves them out here.
        `general` are settings beside the name, which win over those in it if they are not None.

        People may write a colon before the parameters. A canonical name has a comma there, for Windows' folders.
        """
        general = {key: value for key, value in general.items() if value is not None}
        if holds_model(text):
            return cls(text, **general)
        base, strategy, target, settings = split_name(text)
        base = full_base(base)
        if strategy is None:
            return cls(base, **general)
        params: dict[str, Any] = split_settings(text, settings)
        for key in without:
            del params[key]
        written = {key: params.pop(key) for key in OF_EVERY_NAME if key in params}
        if strategy not in STRATEGIES:
            raise UnknownNameError("strategy", strategy, [*STRATEGIES, *PRESETS])
        return cls(base, strategy, cast("Any", target), params=params, **{**written, **general})

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
    def experiment(self) -> dict[str, Any]:
        """What the specification sets beside its base, as mteb's experiment."""
        given = {key: getattr(self, key) for key in ("target_len", *OF_EVERY_NAME)}
        set_here = {key: value for key, value in given.items() if value not in (None, False)}
        return {"strategy": self.strategy, **self.params, **set_here}

    @cached_property
    def kind(self) -> type[Strategy]:
        """The class of the strategy.

        Raises:
            UnknownNameError: if no strategy has this key.
        """
        if self.strategy not in STRATEGIES:
            raise UnknownNameError("strategy", self.strategy, STRATEGIES)
        return STRATEGIES[self.strategy]


# ---- what files say --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Files:
    """The files of a folder, or of one commit of a repository."""

    path: str  #: a folder, or a hub id; empty for a model that has no files
    commit: str | None = None  #: of the repository; None for a folder
    local: bool = False  #: whether they are in a folder

    @classmethod
    def open(cls, path: str, revision: str | None = None) -> Self:
        """Open the files of a folder, or of a repository at the commit that a branch or tag has now."""
        if is_folder(path):
            if revision is not None:
                raise InputError(
                    f"only a model on the hub has a revision to choose, got {revision!r} with the folder of {path}."
                )
            return cls(str(Path(path).resolve()), local=True)
        if path.startswith((".", "/", "~")) or path.count("/") != 1:
            raise ModelError(
                f"{path!r} is neither a folder that exists nor a hub id of the form ORGANISATION/NAME."
            )
        files = cls(path, revision)
        if revision is None or not _COMMIT.fullmatch(revision):
            # the folder of a file in the hub's cache is named by the commit
            file = files.find("modules.json") or files.find("config.json")
            if file and _COMMIT.fullmatch(file.parent.name):
                return cls(path, file.parent.name)
        return files

    def find(self, name: str) -> Path | None:
        """Return the local path of a file. None if there is none.

        Raises:
            HubError: if there is no such repository, or it cannot be reached and is not in the cache.
        """
        if not self.local:
            return find(self.path, name, self.commit)
        file = Path(self.path, name)
        return file if file.is_file() else None

    def json(self, name: str, kind: type = dict) -> Any:
        """Read a JSON file, an object or a list. Return an empty one if the file does not exist."""
        file = self.find(name)
        if file is None:
            return kind()
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise ModelError(f"{name} of {self.path} cannot be read as JSON: {str(error)[:80]}.") from error
        if not isinstance(content, kind):
            raise ModelError(f"{name} of {self.path} must hold a {kind.__name__}, got {str(content)[:80]!r}.")
        return content

    def modules(self) -> list[dict[str, str]]:
        """Return the entries of modules.json: a class (`type`) and a folder (`path`) each. Empty without such a file.

        Behind a router stand the modules of its routes, documents' first.

        Raises:
            ModelError: if it does not list modules inside its folder.
        """
        entries = self._checked("modules.json", self.json("modules.json", list))
        if entries and entries[0]["type"].endswith(".Router"):
            name = join(entries[0]["path"], "router_config.json")
            types = self.json(name).get("types")
            routes = types if isinstance(types, dict) else {}
            parts = sorted(routes, key=lambda part: not part.startswith("document_"))
            inside = [{"type": routes[part], "path": join(entries[0]["path"], part)} for part in parts]
            entries += self._checked(name, inside)
        return entries

    def _checked(self, name: str, entries: list[Any]) -> list[dict[str, str]]:
        """Return the entries of a file. ModelError unless they are modules inside the folder."""
        for entry in entries:
            known = entry if isinstance(entry, dict) else {}
            inside = known.get("path")
            is_inside = isinstance(inside, str) and not PureWindowsPath(inside).anchor and ".." not in inside
            if not is_inside or not isinstance(known.get("type"), str):
                raise ModelError(
                    f"{name} of {self.path} must list modules with a type, and a path inside the model's own folder, "
                    f"got {entry!r:.120}."
                )
        return entries

    def hashed(self, folders: Iterable[str], *, code: bool) -> str:
        """Return 40 hex digits over the weights and settings in some folders, by name; with code if it runs.

        What else lies there, such as an export in `onnx/`, is another model. All weights are read.
        """
        endings = (*_HASHED, ".py") if code else _HASHED
        digest = hashlib.sha256()
        for file in sorted(file for folder in folders for file in Path(self.path, folder).glob("*")):
            if file.name.endswith(endings) and file.is_file():
                digest.update(os.fsencode(file.relative_to(self.path)) + b"\0")
                with open(file, "rb") as stream:  # noqa: PTH123 - the name may be no text
                    digest.update(hashlib.file_digest(stream, "sha256").digest())
        return digest.hexdigest()[:40]


@dataclass(frozen=True)
class Base:
    """A base. What its files do not say is None."""

    name: str  #: a hub id or `local/NAME`
    files: Files  #: the files themselves
    config: PretrainedConfig  #: transformers' configuration
    #: the longest input in tokens by sentence-transformers' settings, as it stands there
    max_seq_length: object = None
    modules: Sequence[Mapping[str, str]] = ()  #: the entries of modules.json, as `Files.modules` gives them
    entry: ZooEntry = _UNLISTED  #: the zoo's entry
    pooling: str | None = None  #: the pooling's mode; several are joined by `+`
    similarity: str | None = None  #: by sentence-transformers' name
    runs_code: bool = False  #: whether the repository brings code of its own, and it may run
    adapter_of: Files | None = None  #: the files of the base, if these are only an adapter of PEFT
    made: Strategy | None = None  #: the strategy inside, if we saved the model
    origin: str | None = None  #: the name of the base that it was made from then
    #: as a model that we saved has them; None for one vector for each document
    vectors: Vectors | None = None
    digest: str | None = None  #: of a loaded model
    kind: Kind = "dense"  #: what it gives for a text

    @cached_property
    def revision(self) -> str | None:
        """The commit on the hub, a hash of the local files, or the digest of a loaded model."""
        if self.digest is not None or not self.files.local:
            return self.digest or self.files.commit
        folders = {"", *(module["path"] for module in self.modules)}
        found = self.files.hashed(folders, code=self.runs_code)
        if self.adapter_of is None:
            return found
        other = self.adapter_of.commit or self.adapter_of.hashed([""], code=False)
        return hashlib.sha256(f"{found} {other}".encode()).hexdigest()[:40]

    @cached_property
    def trained_len(self) -> int | None:
        """The longest input in tokens that the base was trained on."""
        if self.made is not None:
            return self.made.trained_len
        if self.entry.trained_len is not None:
            return self.entry.trained_len
        lengths = [self.max_seq_length, allowed_len(self.config)]
        # 10**9 and more stand for "no limit"
        return min((n for n in lengths if isinstance(n, int) and 0 < n < 10**9), default=None)


def read_base(name: str, revision: str | None, *, trust_remote_code: bool) -> Base:
    """Read the small files of a base. What the zoo knows replaces or completes it.

    Raises:
        HubError, ModelError: if the files cannot be read, or do not hold an embedding model.
    """
    entry = entry_of(name) or _UNLISTED
    if entry.kind != "hub":
        raise ModelError(
            f"{name} runs behind mteb's own interface and has no weights to extend; use mteb.get_model or "
            f"mteb run -m {name}."
        )
    files = Files.open(entry.folder or entry.hub_id or name, revision or entry.revision)
    modules = files.modules()
    types = [module["type"] for module in modules]
    saved = files.json("config_sentence_transformers.json")
    kind = _kind_of(types, saved.get("model_type"))
    folder = ""
    if modules:
        # the transformer of a sparse model may read documents alone
        routed = kind == "sparse" and types[0].endswith(".Router") and len(modules) > 1
        folder = modules[int(routed)]["path"]
    config_files = files
    config_folder = folder
    adapter_of = None
    if files.find(join(folder, "config.json")) is None:
        adapter = files.json(join(folder, "adapter_config.json"))
        if isinstance(adapter.get("base_model_name_or_path"), str):
            adapter_of = Files.open(adapter["base_model_name_or_path"], adapter.get("revision"))
            config_files = adapter_of
            config_folder = ""
    raw = config_files.json(join(config_folder, "config.json"))
    if not modules and "HF_ColBERT" in (raw.get("architectures") or ()):
        kind = "late-interaction"  # of Stanford's library
    _check_embeds(files.path, types, raw)
    transformer = files.json(join(folder, "sentence_bert_config.json"))
    are_ours = BACKBONE in types
    setting = transformer.get("longembed", {})
    is_foreign = "auto_map" in raw or not all(kind.startswith("sentence_transformers.") for kind in types)
    runs_code = trust_remote_code and is_foreign and not are_ours and raw.get("model_type") != E5_ROPE
    pooling = {}
    for module in reversed(modules):
        if module["type"].endswith("Pooling"):
            pooling = files.json(f"{module['path']}/config.json")
    own_name = entry.hub_id or files.path
    if files.local and not entry.hub_id:
        own_name = local_name(files.path)
    return Base(
        name=own_name,
        files=files,
        config=_config(raw, config_files, config_folder, runs_code=runs_code),
        max_seq_length=transformer.get("max_seq_length"),
        modules=modules,
        entry=entry,
        pooling=_pooling_mode(pooling) or entry.pooling,
        similarity=saved.get("similarity_fn_name"),
        runs_code=runs_code,
        adapter_of=adapter_of,
        made=saved_strategy(setting, f"sentence_bert_config.json of {files.path}") if are_ours else None,
        origin=setting["base"] if are_ours else None,
        vectors=read("vectors", Vectors | None, pooling.get("vectors")) if are_ours else None,
        kind=kind,
    )


def _kind_of(types: Sequence[str], model_type: object) -> Kind:
    """Infer the kind of a base from the classes of its modules and from `model_type`."""
    shown = " ".join(types)
    by_modules = [kind for part, kind in _MODULES.items() if part in shown]
    return (by_modules or [_TYPES.get(str(model_type), "dense")])[0]


def kind_of_loaded(model: BaseModel) -> Kind:
    """Return the kind of a loaded model; dense for one of ours that gives several vectors of a dense base."""
    if type(model[-1]).__name__ == "GroupByDocument":
        return "dense"
    return next(kind for kind, owner in KINDS.items() if isinstance(model, owner))


def base_of_loaded(model: BaseModel, digest: str) -> Base:
    """Describe a loaded model: its user's name for it or `local/NAME`, with its digest as revision."""
    kind = kind_of_loaded(model)
    first = reader_of(model) if kind == "sparse" else model[0]
    if not isinstance(first, Transformer):
        raise ModelError(
            f"the model starts with a {type(first).__name__}, but only a Transformer can be extended."
        )
    card: Any = model.model_card_data
    source = str(first.config.name_or_path or "")
    path = source or str(card.base_model or "")
    if not card.model_name and not path:
        raise InputError(
            "the loaded model has no name, so its results could be mistaken for another's: set "
            "model.model_card_data.model_name first."
        )
    second = list(model)[1:2] or [first]
    return Base(
        name=card.model_name or local_name(path),
        files=Files(source),
        config=first.config,
        max_seq_length=model.max_seq_length,
        pooling=_pooling_mode(vars(second[0])),
        similarity=cast("Any", model).similarity_fn_name,
        digest=digest,
        kind=kind,
    )


def _check_embeds(path: str, types: Sequence[str], config: Json) -> None:
    """Raise ModelError for a model that does not embed texts."""
    shown = f" (its modules: {', '.join(types)})" if types else ""
    if not config:
        raise ModelError(
            f"{path} has no config.json{shown}, so it is not a transformers model and cannot be extended."
        )
    if "cross_encoder" in shown:
        raise ModelError(f"{path} must embed each text on its own{shown}: use it with mteb as it is.")
    if types:
        return
    architectures = config.get("architectures")
    for name in architectures if isinstance(architectures, list) else ():
        if str(name).endswith(_CLASSIFIERS):
            raise ModelError(f"{path} is not an embedding model: it has no modules.json and is {name}.")


def _config(raw: Json, files: Files, folder: str, *, runs_code: bool) -> PretrainedConfig:
    """Return transformers' configuration.

    Raises:
        ModelError: if transformers does not know or accept it, or if it needs code that may not run.
    """
    try:
        with contextlib.nullcontext() if files.local else translate_hub_errors():
            return AutoConfig.from_pretrained(
                files.path, trust_remote_code=runs_code, revision=files.commit, subfolder=folder.rstrip("/")
            )
    except LongEmbedError:
        raise
    except Exception as error:  # transformers raises errors of many kinds for configurations
        words = " ".join(str(error).split())[:160]
        why = f"has a config.json that transformers does not accept: {type(error).__name__}: {words}"
        if "auto_map" in raw and not runs_code and isinstance(error, (ValueError, KeyError, ImportError)):
            why = "brings its own model code, which runs only if you ask for it: pass trust_remote_code=True"
        raise ModelError(f"{files.path} {why}.") from error


def _pooling_mode(settings: Json) -> str | None:
    """Return the mode of a pooling; several are joined by `+`. None if it names none."""
    modes = settings.get("pooling_mode") or [
        name for key, name in POOLING_SWITCHES.items() if settings.get(key)
    ]
    if isinstance(modes, str):
        return modes
    return "+".join(map(str, modes)) or None


def is_saved(name: str, revision: str | None) -> bool:
    """Return whether a repository on the hub has a model that we saved. False if it cannot be read."""
    try:
        return BACKBONE in [module["type"] for module in Files.open(name, revision).modules()]
    except LongEmbedError:
        return False


def local_name(path: str | Path) -> str:
    """Return `local/NAME` for a folder. It is never a path, and every system allows it in a folder name."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(path).resolve().name).strip("-.") or "model"
    return f"local/{stem}"


# ---- the model that both make ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Checkpoint:
    """The model that a specification makes of a base. All code that builds, describes or stores a model starts here."""

    base: Base  #: what its files say
    spec: ModelSpec  #: the canonical specification; it prints the model's name
    strategy: Strategy  #: with all lengths and parameters

    @property
    def vectors(self) -> Vectors | None:
        """Content tokens for each vector, or `window`. None for one vector for each document."""
        return self.base.vectors or self.spec.vectors

    @property
    def experiment(self) -> dict[str, Any]:
        """Mteb's experiment: all non-default settings that determine the vectors beside the base's files.

        Always strategy, target and the version of our algorithms, or of the code of somebody's strategy.
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
    """Return the model that a specification makes of a base. No weights are read.

    Raises:
        IncompatibleError: if the strategy, a parameter or the vectors do not fit the base.
        InputError: if a length breaks its rule, or if the base is extended already.
    """
    if base.made is not None:
        return _as_saved(base, base.made, spec)
    if base.kind == "late-interaction" and spec.vectors is not None:
        raise IncompatibleError(
            f"{base.name} has a vector for each token, which vectors={spec.vectors} cannot change: leave out vectors."
        )
    if base.kind == "sparse" and spec.vectors not in (None, "window"):
        raise IncompatibleError(
            f"a sparse model has vectors of documents or windows, got vectors={spec.vectors} with {base.name}: use "
            "pcw with vectors=window, or leave it out."
        )
    if base.kind == "dense" and spec.vectors is not None and base.similarity not in (None, "cosine", "dot"):
        raise IncompatibleError(
            f"several vectors are compared by cosine or dot product, and {base.name} compares by "
            f"{base.similarity}: leave out vectors."
        )
    if isinstance(spec.vectors, int):
        check_averages(f"vectors={spec.vectors}", base.name, base.pooling)
    strategy = strategy_of(spec, base.trained_len, base.name)
    if base.entry.interpolation is not None:
        # its table is interpolated already, by the rule of `pi`
        trained = base.trained_len or 1
        grown = base.entry.interpolation * trained
        asks_for_more = spec.target_len not in (None, grown) or spec.params or spec.trained_len
        if spec.strategy != "none" or asks_for_more:
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


def strategy_of(spec: ModelSpec, trained_len: int | None, base: str) -> Strategy:
    """Return the strategy with all lengths and parameters, for a base of this name and trained length."""
    length = spec.trained_len or trained_len
    if not isinstance(length, int):
        raise InputError(
            f"{base} does not say how many tokens it was trained on: give trained_len, such as :trained_len=512."
        )
    kind = spec.kind
    target = spec.target_len or kind.default_target_len(length)
    return kind(trained_len=length, target_len=target, **cast("dict[str, Any]", spec.params))


def saved_strategy(setting: dict[str, Any], where: str) -> Strategy:
    """Return the strategy in the settings of a model that we saved, which also name its base.

    Raises:
        ModelError: if it is none of ours, or breaks a rule.
    """
    try:
        values = {**setting}
        for key in ("base", "base_revision"):
            del values[key]
        values.pop("has_long_rows", None)
        return STRATEGIES[values.pop("strategy")](**values)
    except (TypeError, KeyError, ValueError) as error:
        raise ModelError(f"{where} must hold a strategy with its parameters ({error}).") from error


def _as_saved(base: Base, strategy: Strategy, spec: ModelSpec) -> Checkpoint:
    """Return a model that we saved. It takes a compute type, and only those other settings that it has."""
    check_fit(base.config, strategy, base.name)
    full = ModelSpec(
        base.name,
        strategy.KEY,
        strategy.target_len,
        dtype=spec.dtype,
        vectors=base.vectors,
        params=strategy.settings,
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
