"""A specification -> its checkpoint: the small files of a base are read, without any weights."""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TypeGuard

from huggingface_hub import parse_local_safetensors_file_metadata
from huggingface_hub.errors import SafetensorsParsingError
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer
from transformers import AutoConfig, PretrainedConfig
from transformers.models.auto import CONFIG_MAPPING
from transformers.utils.import_utils import is_peft_available

from mteb_longembed.encoders.families import family_of
from mteb_longembed.errors import InputError, LongEmbedError, ModelError
from mteb_longembed.hub import translate_hub_errors
from mteb_longembed.names.grammar import is_folder
from mteb_longembed.names.zoo import ZooEntry, entry_of

from .checkpoint import BaseCheckpoint, Vectors
from .identity import digest
from .model_files import Files, SmallFiles, local_name, open_files
from .native import NATIVE
from .spec import ModelSpec
from .strategy_file import STRATEGY_FILE, Json, StrategyFile

#: The types and similarities of models with a vector for every token, by sentence-transformers and PyLate.
_LATE_INTERACTION = {"MultiVectorEncoder", "ColBERT", "MaxSim", "maxsim", "meanmaxsim"}
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
    """The model that a specification asks for. No weights are read.

    Raises:
        HubError, ModelError: if the base cannot be read, or is not an embedding model.
        IncompatibleError, InputError: if the specification does not fit the base.
    """
    entry = entry_of(spec.base)
    trusted = bool(spec.trust_remote_code)
    if entry is None:
        files = open_files(spec.base, spec.revision, trusted)
    elif entry.kind == "hub":
        files = open_files(entry.path, spec.revision or entry.revision, trusted)
    else:
        raise ModelError(
            f"{spec.base} runs behind mteb's own interface and has no weights to extend; use mteb.get_model or "
            f"mteb run -m {spec.base}."
        )
    base = _base(files, entry)
    if base.has_adapter and not is_peft_available():
        raise ModelError(
            f"{base.path} has an adapter (LoRA), which needs PEFT: pip install 'mteb-longembed[peft]'."
        )
    return base.extended_by(spec)


@functools.lru_cache(maxsize=128)
def _base(files: SmallFiles, entry: ZooEntry | None) -> BaseCheckpoint:
    """A base alone. What the zoo knows stands above or beside what the files say."""
    settings = files.model
    similarity = settings.get("similarity_fn_name")
    kinds = {str(settings.get("model_type")), str(similarity)}
    is_late = "vectors" not in files.pooling and bool(kinds & _LATE_INTERACTION)
    limits = [files.transformer.get("max_seq_length")]
    if is_late:
        limits += [files.transformer.get("document_length"), settings.get("document_length")]
    pooling = _pooling_mode(files.pooling)
    dtype = _dtype_of(files)
    vectors = None
    if files.are_ours:
        vectors = _vectors_in(files.pooling, files.files.path)
    config = _config(files)
    family = family_of(config)
    limits.append(family.trained_len(config))
    native: str | None = str(files.config.get("model_type"))
    if native not in NATIVE:
        native = None
    base = BaseCheckpoint(
        name=files.name,
        files=files.files,
        revision=files.revision,
        trained_len=min(filter(_is_length, limits), default=None),
        family=family,
        config=config,
        native=native,
        entry=entry,
        modules=files.modules,
        settings=settings,
        pooling=pooling,
        similarity=similarity if isinstance(similarity, str) else None,
        dtype=dtype,
        has_code=files.has_code,
        runs_code=files.runs_code,
        late_interaction=is_late,
        wants_eos=files.tokenizer.get("add_eos_token") is True,
        vectors=vectors,
    )
    if entry is not None:
        trained_len = entry.trained_len or base.trained_len
        return replace(base, name=entry.hub_id, trained_len=trained_len, pooling=pooling or entry.pooling)
    if not files.are_ours:
        return base
    carried = StrategyFile.from_json(files.extension, f"{base.path}/{STRATEGY_FILE}")
    return replace(base, carried=carried, trained_len=carried.strategy.trained_len)


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
    pooling = None
    if len(model) > 1:
        pooling = getattr(model[1], "pooling_mode", None)
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


def _vectors_in(pooling: Json, path: str) -> Vectors | None:
    """How many vectors a document has, by the configuration of a pooling of ours."""
    vectors = pooling.get("vectors")
    if vectors is None or vectors == "window" or (isinstance(vectors, int) and vectors > 0):
        return vectors
    raise ModelError(
        f"the pooling of {path} must hold vectors, a number of tokens or window, got {vectors!r}."
    )


def _config(files: SmallFiles) -> PretrainedConfig:
    """transformers' configuration.

    Raises:
        ModelError: if transformers does not know or accept it, or if it needs code that may not run.
    """
    raw = files.config
    source = files.config_files
    kind = raw.get("model_type")
    try:
        if kind in NATIVE:
            return NATIVE[str(kind)][0](raw)
        with translate_hub_errors():
            config: PretrainedConfig = AutoConfig.from_pretrained(
                source.path,
                trust_remote_code=files.runs_code,
                revision=source.commit,
                subfolder=files.folder.rstrip("/"),
            )
            return config
    except LongEmbedError:
        raise
    except Exception as error:  # transformers raises errors of many kinds for configurations
        of_kind = isinstance(error, (ValueError, KeyError, ImportError))
        if of_kind and "auto_map" in raw and not files.runs_code:
            why = "brings its own model code, which runs only if you ask for it: pass trust_remote_code=True"
        elif of_kind and str(kind) not in CONFIG_MAPPING:
            why = f"has the model type {str(kind)[:80]!r}, which transformers does not know"
        else:
            message = " ".join(str(error).split())[:160]
            why = f"has a config.json that transformers does not accept: {type(error).__name__}: {message}"
        raise ModelError(f"{source.path} {why}.") from error


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
    # a header of another form raises errors of Python's own
    except (SafetensorsParsingError, OSError, TypeError, AttributeError) as error:
        raise ModelError(f"{file} cannot be read as safetensors: {str(error)[:80]}.") from error


def _dtype_of(files: SmallFiles) -> str | None:
    """The type of a base's weights by torch's name: what config.json says, or the one type of all local weights."""
    said = files.config.get("dtype") or files.config.get("torch_dtype")
    if isinstance(said, str):
        return said
    names: set[str] = set()
    if files.config_files.local:
        for file in Path(files.config_files.path, files.folder).glob("*.safetensors"):
            names |= {_SAFETENSORS_DTYPES.get(kind, "") for kind in parameters_by_type(file)}
    names.discard("")
    if len(names) == 1:
        return names.pop()
    return None
