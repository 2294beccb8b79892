"""Facts from a model's files that do not change how it runs: its size, its vectors, its licence and languages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError, SafetensorsParsingError
from huggingface_hub.repocard import metadata_load

from mteb_longembed.errors import HubError, ModelError
from mteb_longembed.hub import hub_answers

from .base import Base, parameters_by_type
from .files import Files

#: Bytes of a number, by its type's name in safetensors files. All other types have 4.
_BYTES = {"F64": 8, "I64": 8, "F16": 2, "BF16": 2, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
_MEBI = 2**20


@dataclass(frozen=True)
class Facts:
    """What is known about a model. A value is None if the model's files do not say it.

    Args:
        counts: how many parameters have each type, by the types' names in safetensors files.
        n_embedding_parameters: parameters of the table of word embeddings.
        width: dimensions of a vector.
        similarity: how vectors are compared, by sentence-transformers' name.
        prompts: whether it has prompts for queries or documents.
        card: the data of its model card.
        published: day on which its repository was created, as YYYY-MM-DD.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    n_embedding_parameters: int | None = None
    width: int | None = None
    similarity: str | None = None
    prompts: bool | None = None
    card: Mapping[str, Any] = field(default_factory=dict)
    published: str | None = None

    @property
    def n_parameters(self) -> int | None:
        """How many parameters the model has."""
        return sum(self.counts.values()) or None

    @property
    def memory_mb(self) -> int | None:
        """The size of the weights in memory, in MiB."""
        size = sum(count * _BYTES.get(kind, 4) for kind, count in self.counts.items())
        return round(size / _MEBI) if size else None


def card_data(files: Files) -> dict[str, Any]:
    """The data of a model card (between the dashes at the top of README.md). Empty if it cannot be read."""
    if not files.path:
        return {}
    try:
        file = files.find("README.md", optional=True)
        found = None if file is None else metadata_load(file)
    except (
        Exception
    ):  # YAML's error class is in a package that we do not require; a bad card must not end a run
        return {}
    return found if isinstance(found, dict) else {}


def facts(base: Base) -> Facts:
    """Read the facts about a model, without its weights. This never raises."""
    if not base.path:  # a model that was made in memory
        return Facts()
    config = base.config
    vocabulary, hidden = getattr(config, "vocab_size", None), getattr(config, "hidden_size", None)
    settings: Any = _quietly(base.files, "config_sentence_transformers.json") or {}
    prompts = settings.get("prompts") if settings else None
    counts, published = (_counts_in(Path(base.path)), None) if base.files.local else _ask_hub(base)
    return Facts(
        counts=counts,
        n_embedding_parameters=vocabulary * hidden if vocabulary and hidden else None,
        width=_width(base, hidden),
        similarity=settings.get("similarity_fn_name"),
        prompts=any(prompts.values()) if isinstance(prompts, dict) else None,
        card=card_data(base.files),
        published=published,
    )


def _quietly(files: Files, name: str) -> Any:
    try:
        return files.json(name)
    except (HubError, ModelError):
        return None


def _width(base: Base, hidden: int | None) -> int | None:
    """Dimensions of a vector: from the last Dense module, otherwise from the pooling, otherwise from a token."""
    width = hidden
    for entry in base.modules:
        kind, folder = str(entry.get("type", "")), str(entry.get("path", ""))
        config = _quietly(base.files, f"{folder}/config.json") if folder else None
        if not config:
            continue
        if kind.endswith("Pooling"):
            one = config.get("embedding_dimension") or config.get("word_embedding_dimension") or hidden
            said = config.get("pooling_mode")
            modes = len(said) if isinstance(said, list) else 1
            if said is None:
                modes = sum(bool(config.get(key)) for key in config if key.startswith("pooling_mode_")) or 1
            width = one * modes if one else None
        elif kind.endswith(".Dense"):
            width = config.get("out_features", width)
    return width


def _counts_in(folder: Path) -> Counter[str]:
    """How many parameters of each type the safetensors files of a folder have."""
    try:
        return sum(map(parameters_by_type, folder.rglob("*.safetensors")), Counter())
    except ModelError:
        return Counter()


def _ask_hub(base: Base) -> tuple[Mapping[str, int], str | None]:
    """How many parameters of each type a repository has, and the day on which it was created."""
    if not hub_answers():
        return {}, None
    modules = {str(entry.get("path", "")) for entry in base.modules} - {""}
    try:
        api = HfApi()
        info = api.model_info(base.path, revision=base.revision)
        published = info.created_at.strftime("%Y-%m-%d") if info.created_at else None
        # the hub itself counts only files in the top folder
        counts = Counter(dict(info.safetensors.parameters) if info.safetensors else {})
        for sibling in info.siblings or []:
            folder, _, name = sibling.rfilename.rpartition("/")
            if folder in modules and name.endswith(".safetensors"):
                found = api.parse_safetensors_file_metadata(
                    base.path, sibling.rfilename, revision=base.revision
                )
                counts.update(found.parameter_count)
    except (HfHubHTTPError, SafetensorsParsingError, OSError, ValueError):
        return {}, None
    return counts, published
