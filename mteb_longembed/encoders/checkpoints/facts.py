"""Facts from a model's files that do not change how it runs: its size, its vectors, its licence and languages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError, SafetensorsParsingError
from huggingface_hub.repocard import metadata_load

from mteb_longembed.errors import HubError, ModelError
from mteb_longembed.hub import hub_answers

from .checkpoint import BaseCheckpoint
from .model_files import Files
from .opening import parameters_by_type
from .strategy_file import Json

#: Bytes of a number, by its type's name in safetensors files.
_BYTES = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 8),
    **dict.fromkeys(("F32", "I32", "U32"), 4),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 2),
    **dict.fromkeys(("F8_E4M3", "F8_E5M2", "I8", "U8", "BOOL"), 1),
}
_MEBI = 2**20


def card_data(files: Files) -> Json:
    """The data of a model card (between the dashes at the top of README.md). Empty if it cannot be read."""
    if not files.path:
        return {}
    try:
        file = files.find("README.md", optional=True)
        data = metadata_load(file) if file else None
    except Exception:  # YAML's errors are in a package that we do not require; a bad card must not end a run
        return {}
    if isinstance(data, dict):
        return data
    return {}


def facts(base: BaseCheckpoint) -> Json:
    """The facts about a model by mteb's names. None for what its files do not say, and for what cannot be read."""
    if not base.path:  # a model that was made in memory
        return {}
    config = base.config
    vocabulary = getattr(config, "vocab_size", None)
    hidden = getattr(config, "hidden_size", None)
    # ELECTRA's tables are narrower than its layers
    factored = getattr(config, "embedding_size", None) or hidden
    prompts = base.settings.get("prompts")
    counts: Mapping[str, int]
    if base.files.local:
        counts = _counts_in(base)
        published = None
    else:
        counts, published = _ask_hub(base)
    size = sum(count * _BYTES.get(kind, 4) for kind, count in counts.items())
    return {
        "n_parameters": sum(counts.values()) or None,
        "n_embedding_parameters": vocabulary * factored if vocabulary and factored else None,
        "memory_usage_mb": round(size / _MEBI) if size else None,
        "embed_dim": _width(base, hidden),
        "release_date": published,
        "use_instructions": any(prompts.values()) if isinstance(prompts, dict) else None,
    }


def _quietly(files: Files, name: str) -> Json | None:
    try:
        return files.json(name)
    except (HubError, ModelError):
        return None


def _width(base: BaseCheckpoint, hidden: int | None) -> int | None:
    """Dimensions of a vector: from the last Dense module, otherwise from the pooling, otherwise from a token."""
    width = hidden
    for entry in base.modules:
        kind = entry["type"]
        config = None
        if entry["path"]:
            config = _quietly(base.files, f"{entry['path']}/config.json")
        if not config:
            continue
        if kind.endswith("Pooling"):
            one = config.get("embedding_dimension") or config.get("word_embedding_dimension") or hidden
            modes = 1
            if isinstance(base.pooling, tuple):
                modes = len(base.pooling)
            width = None
            if isinstance(one, int) and one:
                width = one * modes
        elif kind.endswith(".Dense") and isinstance(out := config.get("out_features"), int):
            width = out
    return width


def _counts_in(base: BaseCheckpoint) -> Counter[str]:
    """How many parameters of each type the safetensors files of a folder have, without those of a training."""
    counts = Counter[str]()
    for folder in {"", *(entry["path"] for entry in base.modules)}:
        for file in Path(base.path, folder).glob("*.safetensors"):
            try:
                counts += parameters_by_type(file)
            except ModelError:
                return Counter()
    return counts


def _ask_hub(base: BaseCheckpoint) -> tuple[Mapping[str, int], str | None]:
    """How many parameters of each type a repository has, and the day on which it was created."""
    if not hub_answers():
        return {}, None
    modules = {entry["path"] for entry in base.modules} - {""}
    try:
        api = HfApi()
        info = api.model_info(base.path, revision=base.revision)
        if info.created_at:
            published = info.created_at.strftime("%Y-%m-%d")
        else:
            published = None
        # the hub itself counts only files in the top folder
        counts = Counter(dict(info.safetensors.parameters) if info.safetensors else {})
        for file in [sibling.rfilename for sibling in info.siblings or []]:
            folder, _, name = file.rpartition("/")
            if folder in modules and name.endswith(".safetensors"):
                header = api.parse_safetensors_file_metadata(base.path, file, revision=base.revision)
                counts.update(header.parameter_count)
    except (HfHubHTTPError, SafetensorsParsingError, OSError, ValueError):
        return {}, None
    return counts, published
