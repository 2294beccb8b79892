"""What can be known of a base model before any weights load: name, revision, trained length, family."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import constants, hf_hub_download
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from transformers import AutoConfig, PretrainedConfig

from mteb_longembed.errors import HubError, InputError, ModelError

from .e5rope import is_e5rope, native_config
from .families import Family, family_of
from .zoo import ZooEntry, entry_of

_REFUSED = (RepositoryNotFoundError, RevisionNotFoundError, GatedRepoError, HFValidationError)
#: Heads of models that classify instead of embedding.
_CLASSIFIERS = ("ForSequenceClassification", "ForImageClassification")


@dataclass(frozen=True)
class BaseInfo:
    """A base model, as far as its small files tell.

    `name` is the hub id or `local/NAME`, `path` what to load, `revision` the hub's commit or a hash of the
    local files, `trained_len` in tokens, `has_modules` whether it is a sentence-transformers repository.
    """

    name: str
    path: str
    revision: str | None
    trained_len: int
    family: type[Family]
    config: PretrainedConfig
    entry: ZooEntry | None = None
    has_modules: bool = True


def describe(
    base: str, *, revision: str | None = None, trained_len: int | None = None, trust_remote_code: bool = False
) -> BaseInfo:
    """Read the small files of a base model: an alias, a hub repository or a local folder.

    Args:
        base: alias of the zoo, hub id or folder.
        revision: the base's own commit, branch or tag on the hub.
        trained_len: the longest input in tokens the base was trained on, where its files are wrong about it.
        trust_remote_code: run the repository's own configuration code.

    Raises:
        HubError: if the repository, its revision or its files cannot be had.
        ModelError: if it is no model that encodes text.
        InputError: if the trained length is not said anywhere.
    """
    entry = entry_of(base)
    if entry is not None and entry.kind != "hub":
        raise ModelError(
            f"{base} runs behind mteb's own interface and has no weights to extend; use mteb.get_model or "
            f"mteb run -m {base}."
        )
    path = base if entry is None else entry.path
    revision = revision or (entry.revision if entry else None)
    folder = Path(path).is_dir()
    if not folder and (path.startswith((".", "/", "~")) or path.count("/") != 1):
        raise ModelError(
            f"{base!r} is neither a folder that exists nor a hub id of the form ORGANISATION/NAME."
        )
    read = _reader(path, revision)
    raw = read("config.json")
    modules = read("modules.json", optional=True)
    if raw is None:
        inner = [m.get("path", "") for m in modules or []]
        raise ModelError(
            f"{base} has no config.json{f' (its modules: {inner})' if inner else ''}, so it is no "
            "transformers model that could be extended."
        )
    _check_embedding_model(base, raw, modules)
    config = _config(path, revision, raw, trust_remote_code)
    family = family_of(config)
    settings = read("sentence_bert_config.json", optional=True) or {}
    length = trained_len or (entry.trained_len if entry else None)
    if length is None:
        length = shortest(base, family.trained_len(config), settings.get("max_seq_length"))
    name = (entry.hub_id if entry else None) or (local_name(path) if folder else path)
    return BaseInfo(
        name=name,
        path=path,
        revision=hash_of_folder(path) if folder else _commit(path, revision),
        trained_len=length,
        family=family,
        config=config,
        entry=entry,
        has_modules=modules is not None,
    )


def shortest(base: str, *said: int | None) -> int:
    """The trained length in tokens: the least of what a base says in several places.

    Raises:
        InputError: if it says nothing, or only a tokenizer's stand-in for "no limit".
    """
    known = [n for n in said if n and n < 10**9]
    if not known:
        raise InputError(f"{base} does not say how many tokens it was trained on: give trained_len.")
    return min(known)


def local_name(path: str | Path) -> str:
    """`local/NAME` for a folder: never a path, and legal in a folder name on every system."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(path).resolve().name).strip("-.") or "model"
    return f"local/{stem}"


#: What decides about a model's embeddings, by the ending of a file's name.
_HASHED = (".safetensors", ".bin", ".json", ".txt", ".model")


def hash_of_folder(path: str | Path) -> str:
    """SHA-256 (40 hex digits) over the weights and settings of a folder, in the order of their names."""
    digest = hashlib.sha256()
    files = [f for f in Path(path).rglob("*") if f.suffix in _HASHED]
    for file in sorted(files, key=lambda f: f.relative_to(path).as_posix()):
        digest.update(file.relative_to(path).as_posix().encode() + b"\0")
        with file.open("rb") as stream:
            while chunk := stream.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()[:40]


def _reader(path: str, revision: str | None) -> Any:
    """A function that reads one JSON file of a folder or hub repository, None where it is not there."""

    def read(name: str, optional: bool = False) -> Any:
        if Path(path).is_dir():
            file = Path(path, name)
            if not file.is_file():
                return None
        else:
            try:
                file = Path(hf_hub_download(path, name, revision=revision))
            except LocalEntryNotFoundError as error:
                if optional:
                    return None
                raise unreachable(path) from error
            except EntryNotFoundError:
                return None
            except _REFUSED as error:
                at = f" at revision {revision}" if revision else ""
                raise HubError(
                    f"the hub has no readable model {path!r}{at}: check the name, and HF_TOKEN if it is "
                    "private or gated."
                ) from error
            except (OfflineModeIsEnabled, HfHubHTTPError, OSError) as error:
                raise unreachable(path) from error
        try:
            return json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ModelError(f"{name} of {path} is no JSON: {error}.") from error

    return read


def unreachable(path: str) -> HubError:
    """The error for a repository that cannot be fetched."""
    return HubError(
        f"the hub at {constants.ENDPOINT} cannot be reached for {path!r} and it is not in the cache: models "
        "downloaded before (HF_HOME) and local folders work offline."
    )


def _commit(path: str, revision: str | None) -> str | None:
    """The commit that the cache holds for a revision: the name of the snapshot's folder."""
    snapshot = Path(hf_hub_download(path, "config.json", revision=revision)).parent.name
    return snapshot if re.fullmatch(r"[0-9a-f]{40}", snapshot) else revision


def _check_embedding_model(base: str, raw: dict[str, Any], modules: list[dict[str, Any]] | None) -> None:
    if modules is not None:
        types = [str(module.get("type", "")) for module in modules]
        if any("cross_encoder" in t or "SparseEncoder" in t or "Splade" in t for t in types):
            raise ModelError(f"{base} is no dense embedding model: its modules are {', '.join(types)}.")
        return
    heads = [a for a in raw.get("architectures") or [] if a.endswith(_CLASSIFIERS)]
    if heads or not {"model_type", "auto_map"} & set(raw):
        what = heads[0] if heads else "a configuration without model_type"
        raise ModelError(f"{base} is no embedding model: it has no modules.json and is {what}.")


def _config(
    path: str, revision: str | None, raw: dict[str, Any], trust_remote_code: bool
) -> PretrainedConfig:
    if is_e5rope(raw):
        return native_config(raw)
    try:
        return AutoConfig.from_pretrained(path, revision=revision, trust_remote_code=trust_remote_code)
    except (ValueError, KeyError, ImportError) as error:
        if "auto_map" in raw and not trust_remote_code:
            raise ModelError(
                f"{path} brings its own model code, which runs only if you ask for it: pass "
                "trust_remote_code=True."
            ) from error
        raise ModelError(
            f"transformers knows no model type {raw.get('model_type')!r}, which {path} asks for."
        ) from error
