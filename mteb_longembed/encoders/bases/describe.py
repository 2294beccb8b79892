"""What is known about a base model before any weights load: name, revision, trained length, family."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from transformers import AutoConfig, PretrainedConfig
from transformers.models.auto import CONFIG_MAPPING

from mteb_longembed.encoders.families import Family, family_of
from mteb_longembed.errors import InputError, ModelError
from mteb_longembed.names.grammar import is_folder
from mteb_longembed.names.zoo import ZooEntry, entry_of

from .e5rope import is_e5rope, native_config
from .files import commit_of, reader
from .hashing import Stamp, hash_of_folder, local_name, stamp_of_folder

#: Heads of models that classify and do not embed.
_CLASSIFIERS = ("ForSequenceClassification", "ForImageClassification")
#: Floating-point types by their names in safetensors files -> torch's names.
_SAFETENSORS_DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}


@dataclass(frozen=True)
class BaseInfo:
    """What the small files of a base model say about it.

    Args:
        name: hub id, or `local/NAME`.
        path: what to load: a folder or a hub id.
        revision: the hub's commit, or a hash of the local files.
        trained_len: longest input in tokens that it was trained on, from its files or the zoo. None if unknown.
        family: how the model uses positions.
        config: its transformers configuration.
        entry: its entry in the zoo.
        has_modules: whether it is a sentence-transformers repository.
        dtype: the type of the checkpoint's weights by torch's name. None if its files do not say.
        has_code: whether its files contain model code.
        runs_code: whether this code may run.
        stamp: its files on disk when `revision` was computed. None on the hub, because commits do not change.
    """

    name: str
    path: str
    revision: str | None
    trained_len: int | None
    family: type[Family]
    config: PretrainedConfig
    entry: ZooEntry | None = None
    has_modules: bool = True
    dtype: str | None = None
    has_code: bool = False
    runs_code: bool = False
    stamp: Stamp | None = None

    def is_unchanged(self) -> bool:
        """Whether a local base still has the files that were described. Commits on the hub do not change."""
        return self.stamp is None or stamp_of_folder(self.path) == self.stamp

    def check_unchanged(self) -> None:
        """Raise InputError if the files of a local base have changed since they were described."""
        if self.is_unchanged():
            return
        now = hash_of_folder(self.path, code=self.runs_code)
        if now != self.revision:
            raise InputError(
                f"{self.name} must still be at revision {self.revision}, got {now}: its files have changed "
                "during the run, so start again."
            )


def describe(
    base: str, *, revision: str | None = None, trust_remote_code: bool = False, known_hash: str | None = None
) -> BaseInfo:
    """Read the small files of a base model: an alias, a hub repository or a local folder.

    Args:
        base: alias of the zoo, hub id or folder.
        revision: the base's own commit, branch or tag on the hub.
        trust_remote_code: run the repository's own configuration code.
        known_hash: the hash of a folder's files, if it is known already.

    Raises:
        HubError: if the repository, its revision or its files cannot be read.
        ModelError: if it is not a model that encodes text.
        InputError: if a revision is given for a local folder. Its revision is the hash of its files.
    """
    entry = entry_of(base)
    if entry is not None and entry.kind != "hub":
        raise ModelError(
            f"{base} runs behind mteb's own interface and has no weights to extend; use mteb.get_model or "
            f"mteb run -m {base}."
        )
    path = base if entry is None else entry.path
    folder = is_folder(path)
    if folder and revision is not None:
        raise InputError(
            f"only a model on the hub has a revision to choose, got {revision!r} with the folder of {base}."
        )
    if not folder and (path.startswith((".", "/", "~")) or path.count("/") != 1):
        raise ModelError(
            f"{base!r} is neither a folder that exists nor a hub id of the form ORGANISATION/NAME."
        )
    revision = revision or (entry.revision if entry else None)
    # "/" and "." are folders too, and we must not read everything below them
    stamp = stamp_of_folder(path) if folder and Path(path, "config.json").is_file() else None
    read = reader(path, revision)
    raw = read("config.json")
    modules = read("modules.json", optional=True, kind=list)
    if modules is not None and not all(isinstance(module, dict) for module in modules):
        raise ModelError(f"modules.json of {path} must list modules as objects, got {str(modules)[:80]!r}.")
    if raw is None:
        inner = [m.get("path", "") for m in modules or []]
        raise ModelError(
            f"{base} has no config.json{f' (its modules: {inner})' if inner else ''}, so it is not a "
            "transformers model and cannot be extended."
        )
    _check_embedding_model(base, raw, modules)
    config = _config(path, revision, raw, trust_remote_code)
    family = family_of(config)
    settings = read("sentence_bert_config.json", optional=True) or {}
    length = entry.trained_len if entry else None
    if length is None:
        said = settings.get("max_seq_length")
        if said is not None and (not isinstance(said, int) or isinstance(said, bool)):
            raise ModelError(
                f"max_seq_length in sentence_bert_config.json of {path} must be a number of tokens, got "
                f"{str(said)[:80]!r}."
            )
        length = shortest(family.trained_len(config), said)
    has_code = _has_code(raw, modules, read("tokenizer_config.json", optional=True))
    runs_code = has_code and trust_remote_code
    if folder:
        commit: str | None = known_hash or hash_of_folder(path, code=runs_code)
    else:
        commit = commit_of(path, revision)
    return BaseInfo(
        name=(entry.hub_id if entry else None) or (local_name(path) if folder else path),
        path=path,
        revision=commit,
        trained_len=length,
        family=family,
        config=config,
        entry=entry,
        has_modules=modules is not None,
        dtype=_said_dtype(raw) or (_weights_dtype(path) if folder else None),
        has_code=has_code,
        runs_code=runs_code,
        stamp=stamp,
    )


def pooling_and_similarity(base: BaseInfo) -> tuple[str | tuple[str, ...] | None, str | None]:
    """The pooling and the similarity of a base, from its files. None for what they do not say."""
    said = base.entry.pooling if base.entry else None
    path = base.path
    read = reader(path, None if is_folder(path) else base.revision)
    similarity = (read("config_sentence_transformers.json", optional=True) or {}).get("similarity_fn_name")
    modules = read("modules.json", optional=True, kind=list) or []
    folders = [m.get("path", "") for m in modules if str(m.get("type", "")).endswith(".Pooling")]
    if not folders:
        return said, similarity
    config = read(f"{folders[0]}/config.json", optional=True) or {}
    # older folders have one switch for each mode
    modes = config.get("pooling_mode") or [mode for key, mode in _POOLING_SWITCHES.items() if config.get(key)]
    modes = (modes,) if isinstance(modes, str) else tuple(modes)
    return (modes[0] if len(modes) == 1 else modes or said), similarity


_POOLING_SWITCHES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}


def shortest(*said: int | None) -> int | None:
    """The trained length in tokens: the smallest of the numbers that a base gives in several places.

    None if it gives no number, or only a tokenizer's placeholder for "no limit".
    """
    return min((n for n in said if n and n < 10**9), default=None)


def _has_code(raw: dict[str, Any], modules: list[dict[str, Any]] | None, tokenizer: Any) -> bool:
    """Whether `trust_remote_code=True` makes a repository run code of its own."""
    types = [str(module.get("type", "")) for module in modules or ()]
    foreign = any(not kind.startswith("sentence_transformers.") for kind in types)
    return foreign or "auto_map" in raw or "auto_map" in (tokenizer or {})


def _said_dtype(raw: dict[str, Any]) -> str | None:
    said = raw.get("dtype") or raw.get("torch_dtype")
    return said if isinstance(said, str) else None


def parameters_by_type(file: Path) -> Counter[str]:
    """How many parameters of each type a safetensors file has, by the types' names in such files.

    Raises:
        ModelError: if the file cannot be read.
    """
    counts: Counter[str] = Counter()
    try:
        with safe_open(file, "np") as weights:
            for key in weights.keys():  # noqa: SIM118 - not a dictionary
                weight = weights.get_slice(key)
                counts[weight.get_dtype()] += math.prod(weight.get_shape())
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{file} cannot be read as safetensors: {str(error)[:80]}.") from error
    return counts


def _weights_dtype(path: str) -> str | None:
    """The type of a folder's weights by torch's name, if all floating-point weights have the same type."""
    found = {kind for file in Path(path).glob("*.safetensors") for kind in parameters_by_type(file)}
    names = {_SAFETENSORS_DTYPES[kind] for kind in found if kind in _SAFETENSORS_DTYPES}
    return names.pop() if len(names) == 1 else None


def _check_embedding_model(base: str, raw: dict[str, Any], modules: list[dict[str, Any]] | None) -> None:
    if modules is not None:
        types = [str(module.get("type", "")) for module in modules]
        if any("cross_encoder" in t or "SparseEncoder" in t or "Splade" in t for t in types):
            raise ModelError(f"{base} is not a dense embedding model: its modules are {', '.join(types)}.")
        return
    said = raw.get("architectures")
    heads = [a for a in (said if isinstance(said, list) else []) if str(a).endswith(_CLASSIFIERS)]
    if heads or not {"model_type", "auto_map"} & set(raw):
        what = heads[0] if heads else "a configuration without model_type"
        raise ModelError(f"{base} is not an embedding model: it has no modules.json and is {what}.")


def _config(
    path: str, revision: str | None, raw: dict[str, Any], trust_remote_code: bool
) -> PretrainedConfig:
    try:
        if is_e5rope(raw):
            return native_config(raw)
        return AutoConfig.from_pretrained(path, revision=revision, trust_remote_code=trust_remote_code)
    except (ValueError, KeyError, ImportError) as error:
        if "auto_map" in raw and not trust_remote_code:
            raise ModelError(
                f"{path} brings its own model code, which runs only if you ask for it: pass "
                "trust_remote_code=True."
            ) from error
        if not _is_known(raw.get("model_type")):
            raise ModelError(
                f"transformers does not know the model type {str(raw.get('model_type'))[:80]!r} of {path}."
            ) from error
        raise _no_config(path, error) from error
    except Exception as error:  # transformers raises errors of many kinds for configurations
        raise _no_config(path, error) from error


def _is_known(model_type: Any) -> bool:
    return isinstance(model_type, str) and model_type in CONFIG_MAPPING


def _no_config(path: str, error: Exception) -> ModelError:
    why = " ".join(str(error).split())[:160]
    return ModelError(
        f"config.json of {path} is not a configuration that transformers accepts: {type(error).__name__}: {why}."
    )
