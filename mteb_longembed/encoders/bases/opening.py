"""A specification -> its checkpoint: the small files of a base are read, without any weights."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeGuard

from huggingface_hub import parse_local_safetensors_file_metadata
from huggingface_hub.errors import SafetensorsParsingError
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer
from transformers import AutoConfig, PretrainedConfig
from transformers.models.auto import CONFIG_MAPPING

from mteb_longembed.encoders.families import family_of
from mteb_longembed.errors import InputError, LongEmbedError, ModelError
from mteb_longembed.hub import translate_hub_errors
from mteb_longembed.names.grammar import is_folder
from mteb_longembed.names.zoo import ZooEntry, entry_of

from .checkpoint import BaseCheckpoint, Vectors
from .identity import digest
from .model_files import Files, Json, ModuleEntry, local_name
from .native import NATIVE
from .spec import ModelSpec
from .strategy_file import STRATEGY_FILE, StrategyFile

#: The types and similarities of models with a vector for every token, by sentence-transformers and PyLate.
_LATE_INTERACTION = {"MultiVectorEncoder", "ColBERT", "MaxSim", "maxsim", "meanmaxsim"}
#: Packages of modules that load without code of the repository. sentence-transformers reads PyLate's as its own.
_STOCK = ("sentence_transformers.", "pylate.")
#: Heads of models that classify and do not embed.
_CLASSIFIERS = ("ForSequenceClassification", "ForImageClassification")
#: Classes of modules that give something else than dense vectors.
_NOT_DENSE = ("cross_encoder", "SparseEncoder", "Splade")
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


def open_checkpoint(spec: ModelSpec) -> BaseCheckpoint:
    """The model that a specification asks for. Each state of a base is read once in a process.

    Raises:
        HubError, ModelError: if the base cannot be read, or is not an embedding model.
        IncompatibleError, InputError: if the specification does not fit the base.
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
    files = files.with_adapter_base()
    base = _read(files, entry, bool(spec.trust_remote_code))
    return base.extended_by(spec)


@functools.lru_cache(maxsize=128)
def _read(files: Files, entry: ZooEntry | None, trust_remote_code: bool) -> BaseCheckpoint:
    """A base alone."""
    path = files.path
    if entry:
        name = entry.hub_id
    else:
        name = files.name()
    is_ours = entry is None and files.are_ours()
    modules = files.modules()
    inside = files.transformer_folder()
    base_files = files
    folder = inside
    if files.adapter_base is not None:
        base_files = files.adapter_base
        folder = ""
    raw = base_files.json(f"{folder}config.json", optional=False)
    options = files.json(f"{inside}sentence_bert_config.json") or {}
    tokenizer = files.json(f"{inside}tokenizer_config.json") or {}
    settings = files.json("config_sentence_transformers.json") or {}
    extension = files.json(f"{inside}{STRATEGY_FILE}")
    is_foreign = any(not module["type"].startswith(_STOCK) for module in modules or ())
    has_code = not is_ours and (is_foreign or "auto_map" in (raw or {}) or "auto_map" in tokenizer)
    runs_code = has_code and trust_remote_code
    revision = files.revision(code=runs_code)

    raw = _check_embedding_model(path, raw, modules)
    pooling = _pooling_config(files, modules or [])
    mode = _pooling_mode(pooling)
    if is_ours:
        vectors = _vectors_in(pooling, path)
    else:
        vectors = None
    dtype = _dtype_of(base_files, folder, raw)
    similarity = settings.get("similarity_fn_name")
    kinds = {str(settings.get("model_type")), str(similarity)}
    is_late = "vectors" not in pooling and bool(kinds & _LATE_INTERACTION)
    limits = [options.get("max_seq_length")]
    if is_late:
        limits += [options.get("document_length"), settings.get("document_length")]
    config = _read_config(base_files, folder, raw, trust_remote_code)
    family = family_of(config)
    limits.append(family.trained_len(config))
    base = BaseCheckpoint(
        name=name,
        files=files,
        revision=revision,
        trained_len=min(filter(_is_length, limits), default=None),
        family=family,
        config=config,
        entry=entry,
        modules=tuple(modules or ()),
        pooling=mode,
        similarity=similarity if isinstance(similarity, str) else None,
        dtype=dtype,
        has_code=has_code,
        runs_code=runs_code,
        late_interaction=is_late,
        wants_eos=tokenizer.get("add_eos_token") is True,
        vectors=vectors,
    )
    if is_ours:
        carried = StrategyFile.from_json(extension, f"{path}/{STRATEGY_FILE}")
        return replace(base, carried=carried, trained_len=carried.strategy.trained_len)
    if entry is None:
        return base
    # what the zoo knows stands above or beside what the files say
    return replace(base, trained_len=entry.trained_len or base.trained_len, pooling=mode or entry.pooling)


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
    if len(model) > 1:
        pooling = getattr(model[1], "pooling_mode", None)
    else:
        pooling = None
    limits = [family.trained_len(first.config), model.max_seq_length]
    return BaseCheckpoint(
        name=card.model_name or local_name(path),
        files=files,
        revision=digest(model),
        trained_len=min(filter(_is_length, limits), default=None),
        family=family,
        config=first.config,
        pooling=pooling,
        similarity=model.similarity_fn_name,
        dtype=str(model.dtype).removeprefix("torch."),
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


def _check_embedding_model(path: str, raw: Json | None, modules: Sequence[ModuleEntry] | None) -> Json:
    """The content of a base's config.json, if the base is a dense embedding model.

    Raises:
        ModelError: if there is no such file, or the model classifies or gives sparse vectors.
    """
    types = [module["type"] for module in modules or ()]
    if raw is None:
        inner = ""
        if modules:
            inner = f" (its modules: {[module['path'] for module in modules]})"
        raise ModelError(
            f"{path} has no config.json{inner}, so it is not a transformers model and cannot be extended."
        )
    for kind in types:
        if any(name in kind for name in _NOT_DENSE):
            raise ModelError(f"{path} is not a dense embedding model: its modules are {', '.join(types)}.")
    if modules is not None:
        return raw
    what = _what_else(raw)
    if what:
        raise ModelError(f"{path} is not an embedding model: it has no modules.json and is {what}.")
    return raw


def _what_else(raw: Json) -> str | None:
    """What a configuration of transformers describes, if it is no encoder."""
    architectures = raw.get("architectures")
    for name in architectures if isinstance(architectures, list) else ():
        if str(name).endswith(_CLASSIFIERS):
            return str(name)
    if not {"model_type", "auto_map"} & set(raw):
        return "a configuration without model_type"
    return None


def _read_config(files: Files, folder: str, raw: Json, trust_remote_code: bool) -> PretrainedConfig:
    """transformers' configuration for the config.json (`raw`) in a folder of a base.

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
                trust_remote_code=trust_remote_code,
                revision=files.commit,
                subfolder=folder.rstrip("/"),
            )
            return config
    except LongEmbedError:
        raise
    except Exception as error:  # transformers raises errors of many kinds for configurations
        of_kind = isinstance(error, (ValueError, KeyError, ImportError))
        if of_kind and "auto_map" in raw and not trust_remote_code:
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


def parameters_by_type(file: Path) -> Counter[str]:
    """How many parameters of each type a safetensors file has, by the types' names in such files."""
    try:
        return Counter(parse_local_safetensors_file_metadata(file).parameter_count)
    except (SafetensorsParsingError, OSError) as error:
        raise ModelError(f"{file} cannot be read as safetensors: {str(error)[:80]}.") from error


def _dtype_of(files: Files, folder: str, raw: Json) -> str | None:
    """The type of a base's weights by torch's name: what config.json says, or the one type of all local weights."""
    said = raw.get("dtype") or raw.get("torch_dtype")
    if isinstance(said, str):
        return said
    names: set[str] = set()
    if files.local:
        for file in Path(files.path, folder).glob("*.safetensors"):
            names |= {_SAFETENSORS_DTYPES.get(kind, "") for kind in parameters_by_type(file)}
    names.discard("")
    if len(names) == 1:
        return names.pop()
    return None
