"""A base before any weights load: what its small files say, or what a loaded model says about itself."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeGuard

from huggingface_hub import parse_local_safetensors_file_metadata
from huggingface_hub.errors import SafetensorsParsingError
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer
from transformers import AutoConfig, PretrainedConfig
from transformers.models.auto import CONFIG_MAPPING

from mteb_longembed.encoders.heads.grouping import Vectors, read_vectors
from mteb_longembed.encoders.positions.families import Family, family_of
from mteb_longembed.errors import InputError, LongEmbedError, ModelError
from mteb_longembed.files import is_folder
from mteb_longembed.hub import translate_hub_errors
from mteb_longembed.names.zoo import ZooEntry

from .identity import digest
from .model_files import Files, has_our_modules, local_name
from .native import NATIVE
from .strategy_file import STRATEGY_FILE, Json, Saved, from_json

#: Packages of modules that load without code of the repository.
_STOCK = ("sentence_transformers.",)
#: Parts of the class names of modules that do not give one dense vector for each text.
_OTHER_MODELS = ("cross_encoder", "SparseEncoder", "Splade", "pylate.", "multi_vector_encoder.")
#: Heads of models that classify and do not embed.
_CLASSIFIERS = ("ForSequenceClassification", "ForImageClassification")
#: Floating-point types by their names in safetensors files -> torch's names.
_SAFETENSORS_DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
POOLING_SWITCHES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}


@dataclass(frozen=True)
class Base:
    """A base. What its files do not say is None.

    Args:
        name: a hub id or `local/NAME`.
        files: the files themselves.
        revision: the hub's commit, a hash of the local files, or a digest of a loaded model.
        family: how positions enter the model.
        config: transformers' configuration.
        max_seq_length: the longest input in tokens by sentence-transformers' settings, as it stands there.
        native: the type of a model that we read as another class than its files name (`native.py`).
        entry: that of the zoo.
        settings: the content of config_sentence_transformers.json.
        pooling: the pooling's mode, or several.
        similarity: by sentence-transformers' name.
        dtype: the type of the weights, by torch's name.
        has_code: whether the repository brings code of its own.
        runs_code: whether that code may run.
        wants_eos: whether the tokenizer's settings ask for an end token (`add_eos_token`).
        saved_as: the content of our file, if we saved the model.
        vectors: as a model that we saved has them; None for one vector for each document.
    """

    name: str
    files: Files
    revision: str | None
    family: type[Family]
    config: PretrainedConfig
    max_seq_length: object = None
    native: str | None = None
    entry: ZooEntry | None = None
    settings: Json = field(default_factory=dict)
    pooling: str | tuple[str, ...] | None = None
    similarity: str | None = None
    dtype: str | None = None
    has_code: bool = False
    runs_code: bool = False
    wants_eos: bool = False
    saved_as: Saved | None = None
    vectors: Vectors | None = None

    @property
    def path(self) -> str:
        """What to load: a folder or a hub id."""
        return self.files.path

    @property
    def n_parameters(self) -> int | None:
        """The number of weights in the local files of its transformer. None on the hub, and for an adapter."""
        if self.files.adapter_base is not None:
            return None
        return sum(_weights_by_type(self.files, self.files.subfolder).values()) or None

    @property
    def origin(self) -> tuple[str, str | None]:
        """Name and revision of the base that the model was made from; its own, unless we saved it."""
        if self.saved_as is None:
            return self.name, self.revision
        return self.saved_as.base_name, self.saved_as.base_revision

    @property
    def allowed_len(self) -> int | None:
        """The longest input in tokens that its configuration allows."""
        return self.family.trained_len(self.config)

    @property
    def trained_len(self) -> int | None:
        """The longest input in tokens that the base was trained on."""
        if self.saved_as is not None:
            return self.saved_as.strategy.trained_len
        if self.entry is not None and self.entry.trained_len is not None:
            return self.entry.trained_len
        return min(filter(_is_length, [self.max_seq_length, self.allowed_len]), default=None)

    @property
    def interpolated(self) -> int | None:
        """The target length to which its position table is interpolated already, by the rule of `pi`."""
        if self.entry is None or self.entry.interpolation is None or self.entry.trained_len is None:
            return None
        return self.entry.interpolation * self.entry.trained_len


def read_base(files: Files, entry: ZooEntry | None, *, trust_remote_code: bool) -> Base:
    """What the small files of a base say. What the zoo knows stands above or beside it.

    Raises:
        HubError, ModelError: if the files cannot be read, or are not those of an embedding model.
    """
    subfolder = files.subfolder
    config_files = files
    folder = subfolder
    if files.adapter_base is not None:
        config_files = files.adapter_base
        folder = ""
    # checked first, because a folder that is no model may be a whole disk
    raw = _checked(files, config_files.json(f"{folder}config.json", optional=False))
    settings = files.json("config_sentence_transformers.json") or {}
    transformer = files.json(f"{subfolder}sentence_bert_config.json") or {}
    tokenizer = files.json(f"{subfolder}tokenizer_config.json") or {}
    pooling = _pooling_of(files)
    brings_code = "auto_map" in raw or "auto_map" in tokenizer
    foreign = [module for module in files.modules if not module["type"].startswith(_STOCK)]
    are_ours = has_our_modules(files.modules)
    has_code = not are_ours and (brings_code or bool(foreign))
    runs_code = has_code and trust_remote_code
    config = _config(raw, config_files, folder, runs_code=runs_code)
    dtype = _dtype_of(raw, config_files, folder)
    similarity = settings.get("similarity_fn_name")
    mode = _pooling_mode(pooling)
    name = local_name(files.path) if files.local else files.path
    vectors = None
    saved_as = None
    if entry is not None:
        name = entry.hub_id
        mode = mode or entry.pooling
    elif are_ours:
        vectors = _vectors_in(pooling, files.path)
        file = f"{subfolder}{STRATEGY_FILE}"
        saved_as = from_json(files.json(file), f"{files.path}/{STRATEGY_FILE}")
    return Base(
        name=name,
        files=files,
        revision=files.revision(code=runs_code),
        family=family_of(config),
        config=config,
        max_seq_length=transformer.get("max_seq_length"),
        native=str(raw.get("model_type")) if raw.get("model_type") in NATIVE else None,
        entry=entry,
        settings=settings,
        pooling=mode,
        similarity=similarity if isinstance(similarity, str) else None,
        dtype=dtype,
        has_code=has_code,
        runs_code=runs_code,
        wants_eos=tokenizer.get("add_eos_token") is True,
        saved_as=saved_as,
        vectors=vectors,
    )


def base_of_loaded(model: SentenceTransformer) -> Base:
    """What a loaded model says about itself: its user's name for it or `local/NAME`, with its digest as revision."""
    first = model[0]
    if not isinstance(first, Transformer):
        raise ModelError(
            f"the model starts with a {type(first).__name__}, but only a Transformer can be extended."
        )
    card = model.model_card_data
    source = str(first.config.name_or_path or "")
    path = source or str(card.base_model or "")
    if not card.model_name and not path:
        raise InputError(
            "the loaded model has no name, so its results could be mistaken for another's: set "
            "model.model_card_data.model_name first."
        )
    pooling = None
    if len(model) > 1:
        pooling = getattr(model[1], "pooling_mode", None)
    return Base(
        name=card.model_name or local_name(path),
        files=Files(str(Path(source).resolve()), local=True) if is_folder(source) else Files(source),
        revision=digest(model),
        family=family_of(first.config),
        config=first.config,
        max_seq_length=model.max_seq_length,
        pooling=pooling,
        similarity=model.similarity_fn_name,
        dtype=str(model.dtype).removeprefix("torch."),
    )


def _checked(files: Files, config: Json | None) -> Json:
    """The content of config.json, if the model gives one dense vector for each text.

    Raises:
        ModelError: if there is no such file, or the model classifies or gives other vectors.
    """
    path = files.path
    modules = files.modules
    if config is None:
        inner = ""
        if modules:
            inner = f" (its modules: {[module['path'] for module in modules]})"
        raise ModelError(
            f"{path} has no config.json{inner}, so it is not a transformers model and cannot be extended."
        )
    types = ", ".join(module["type"] for module in modules)
    if any(name in types for name in _OTHER_MODELS):
        raise ModelError(
            f"{path} must give one dense vector for each text, but its modules are {types}: use it with mteb as it is."
        )
    what = _what_else(config)
    if not modules and what is not None:
        raise ModelError(f"{path} is not an embedding model: it has no modules.json and is {what}.")
    return config


def _what_else(config: Json) -> str | None:
    """What a configuration of transformers describes, if it is no encoder."""
    architectures = config.get("architectures")
    for name in architectures if isinstance(architectures, list) else ():
        if str(name).endswith(_CLASSIFIERS):
            return str(name)
    if not {"model_type", "auto_map"} & set(config):
        return "a configuration without model_type"
    return None


def _pooling_of(files: Files) -> Json:
    """The configuration of the first pooling. Empty if there is none."""
    for module in files.modules:
        if module["type"].endswith("Pooling"):
            return files.json(f"{module['path']}/config.json") or {}
    return {}


def _vectors_in(pooling: Json, path: str) -> Vectors | None:
    """How many vectors a document has, by the configuration of a pooling of ours."""
    try:
        return read_vectors(pooling.get("vectors"))
    except InputError as error:
        raise ModelError(f"the pooling of {path} cannot be read: {error}") from error


def _config(raw: Json, files: Files, folder: str, *, runs_code: bool) -> PretrainedConfig:
    """transformers' configuration.

    Raises:
        ModelError: if transformers does not know or accept it, or if it needs code that may not run.
    """
    kind = raw.get("model_type")
    try:
        if kind in NATIVE:
            return NATIVE[str(kind)][0](raw)
        with translate_hub_errors():
            config: PretrainedConfig = AutoConfig.from_pretrained(
                files.path,
                trust_remote_code=runs_code,
                revision=files.commit,
                subfolder=folder.rstrip("/"),
            )
            return config
    except LongEmbedError:
        raise
    except Exception as error:  # transformers raises errors of many kinds for configurations
        of_kind = isinstance(error, (ValueError, KeyError, ImportError))
        if of_kind and "auto_map" in raw and not runs_code:
            why = "brings its own model code, which runs only if you ask for it: pass trust_remote_code=True"
        elif of_kind and str(kind) not in CONFIG_MAPPING:
            why = f"has the model type {str(kind)[:80]!r}, which transformers does not know"
        else:
            message = " ".join(str(error).split())[:160]
            why = f"has a config.json that transformers does not accept: {type(error).__name__}: {message}"
        raise ModelError(f"{files.path} {why}.") from error


def _pooling_mode(config: Json) -> str | tuple[str, ...] | None:
    """The mode of a pooling by its config.json: one name, several, or None if it says none."""
    mode = config.get("pooling_mode")
    if isinstance(mode, str):
        return mode
    if isinstance(mode, list):
        modes = tuple(name for name in mode if isinstance(name, str))
    else:
        # older folders of sentence-transformers have one switch for each mode
        modes = tuple(name for key, name in POOLING_SWITCHES.items() if config.get(key))
    if len(modes) == 1:
        return modes[0]
    return modes or None


def _is_length(n: object) -> TypeGuard[int]:
    """Whether it is a number of tokens, and no placeholder for "no limit"."""
    return isinstance(n, int) and 0 < n < 10**9


def _dtype_of(raw: Json, files: Files, folder: str) -> str | None:
    """The type of a base's weights by torch's name: what config.json says, or the one type of all local weights."""
    said = raw.get("dtype") or raw.get("torch_dtype")
    if isinstance(said, str):
        return said
    kinds = _weights_by_type(files, folder)
    names = [name for kind, name in _SAFETENSORS_DTYPES.items() if kind in kinds]
    if len(names) == 1:
        return names[0]
    return None


def _weights_by_type(files: Files, folder: str) -> Counter[str]:
    """How many weights the local safetensors files have, by their type; none for a repository of the hub."""
    counts: Counter[str] = Counter()
    if files.local:
        for file in Path(files.path, folder).glob("*.safetensors"):
            try:
                counts.update(parse_local_safetensors_file_metadata(file).parameter_count)
            # a header of another form raises errors of Python's own
            except (SafetensorsParsingError, OSError, TypeError, AttributeError) as error:
                raise ModelError(f"{file} cannot be read as safetensors: {str(error)[:80]}.") from error
    return counts
