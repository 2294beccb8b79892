"""What single files of a base say: its configuration, its pooling and the type of its weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from huggingface_hub import parse_local_safetensors_file_metadata
from huggingface_hub.errors import SafetensorsParsingError
from transformers import AutoConfig, PretrainedConfig
from transformers.models.auto import CONFIG_MAPPING

from mteb_longembed.errors import LongEmbedError, ModelError
from mteb_longembed.hub import translate_hub_errors

from .model_files import Files, Json, ModuleEntry
from .native import NATIVE

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


def check_embedding_model(path: str, raw: Json | None, modules: Sequence[ModuleEntry] | None) -> Json:
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


def read_config(files: Files, folder: str, raw: Json, trust_remote_code: bool) -> PretrainedConfig:
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


def pooling_mode(config: Json) -> str | tuple[str, ...] | None:
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


def shortest(*lengths: object) -> int | None:
    """The smallest number of tokens that a base gives. None if it gives none, or a placeholder for "no limit"."""
    return min((n for n in lengths if isinstance(n, int) and 0 < n < 10**9), default=None)


def parameters_by_type(file: Path) -> Counter[str]:
    """How many parameters of each type a safetensors file has, by the types' names in such files."""
    try:
        return Counter(parse_local_safetensors_file_metadata(file).parameter_count)
    except (SafetensorsParsingError, OSError) as error:
        raise ModelError(f"{file} cannot be read as safetensors: {str(error)[:80]}.") from error


def dtype_of(files: Files, folder: str, raw: Json) -> str | None:
    """The type of a base's weights by torch's name: what config.json says, or the one type of all local weights."""
    said = raw.get("dtype") or raw.get("torch_dtype")
    if isinstance(said, str):
        return said
    names: set[str] = set()
    if files.local:
        for file in Path(files.path, folder).glob("*.safetensors"):
            names |= {_SAFETENSORS_DTYPES.get(kind, "") for kind in parameters_by_type(file)}
    names.discard("")
    return names.pop() if len(names) == 1 else None
