"""Extended models that `save_pretrained` wrote, in a folder or on the hub: how to recognise and read them."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Literal, cast

from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]  # public, not in __all__

from mteb_longembed.encoders.strategies import Strategy, get_strategy
from mteb_longembed.errors import ModelError
from mteb_longembed.names.grammar import is_folder
from mteb_longembed.names.zoo import entry_of

from .files import find_file

#: Our classes by their names in a saved model's modules.json, with those of versions 0.1 and 0.2. Exactly these are
#: trusted.
OUR_CLASSES = frozenset(
    f"mteb_longembed.encoders.{name}"
    for name in (
        "modules.LongTransformer",
        "modules.WindowPooling",
        *(
            f"{module}.{kind}"
            for module in ("span_pooling", "several")
            for kind in ("SpanPooling", "RaggedVectors")
        ),
    )
)
#: The file beside the weights with the strategy and its parameters.
STRATEGY_FILE = "longembed_config.json"
#: The key of that file that holds the base.
_BASE = "base"


@dataclass(frozen=True)
class Origin:
    """The base that an extended model was made from.

    Args:
        name: hub id, or `local/NAME`.
        revision: the hub's commit, or a hash of the local files. None if it is unknown.
    """

    name: str
    revision: str | None = None


def saved_files(base: str, revision: str | None = None) -> Path | None:
    """The folder on this machine with the small files of a saved model. None for any other base.

    Args:
        base: folder or hub id. If the zoo does not list a repository, one of its files is fetched from the hub.
        revision: commit, branch or tag on the hub.

    Raises:
        HubError: if there is no such repository or revision.
        ModelError: if its files are not in the form that we write.
    """
    if is_folder(base):
        return Path(base) if is_saved_extended(base) else None
    if not may_be_repository(base) or entry_of(base) is not None:
        return None
    modules = find_file(base, "modules.json", revision, optional=True)
    if modules is None or not is_saved_extended(modules.parent):
        return None
    folder = modules.parent  # the folder of the commit: all its files are downloaded to it
    commit = commit_in(folder) or revision
    for entry in saved_modules(folder):
        if entry["type"] in OUR_CLASSES:
            for name in ("config.json", STRATEGY_FILE):
                find_file(base, f"{entry['path']}/{name}", commit)
    return folder


def may_be_repository(base: str) -> bool:
    """Whether a text has the form of a hub id: `ORGANISATION/NAME`."""
    try:
        validate_repo_id(base)
    except HFValidationError:
        return False
    return base.count("/") == 1


def commit_in(folder: Path) -> str | None:
    """The commit of a snapshot folder in the hub's cache. None for any other folder."""
    name = folder.name
    is_commit = len(name) == 40 and set(name) <= set("0123456789abcdef") and folder.parent.name == "snapshots"
    return name if is_commit else None


def is_saved_extended(folder: str | Path) -> bool:
    """Whether a folder holds an extended model that `save_pretrained` wrote."""
    try:
        modules = json.loads(Path(folder, "modules.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    entries = modules if isinstance(modules, list) else []
    types = [entry.get("type") for entry in entries if isinstance(entry, dict)]
    return any(isinstance(kind, str) and kind in OUR_CLASSES for kind in types)


def saved_modules(folder: Path) -> list[dict[str, str]]:
    """The entries of modules.json, each with `type` and `path`.

    Raises:
        ModelError: if the file does not have this form.
    """
    modules = _read_json(folder / "modules.json")
    well_formed = isinstance(modules, list) and all(
        isinstance(entry, dict)
        and isinstance(entry.get("type"), str)
        and isinstance(entry.get("path"), str)
        and _is_inside(entry["path"])
        for entry in modules
    )
    if not well_formed or not modules or modules[0]["type"] not in OUR_CLASSES:
        raise ModelError(
            f"{folder / 'modules.json'} must list modules with a type and a path each, ours first, got "
            f"{str(modules)[:80]!r}."
        )
    return list(modules)


def _is_inside(path: str) -> bool:
    return not (PurePosixPath(path).is_absolute() or PureWindowsPath(path).anchor or ".." in path)


def saved_strategy(folder: Path) -> Strategy:
    """The strategy that is stored beside the weights of a folder's first module.

    Raises:
        ModelError: if the file is missing or not in the form that we write.
    """
    return read_strategy(folder / saved_modules(folder)[0]["path"])


def saved_vectors(folder: Path) -> int | Literal["window"] | None:
    """The `vectors` of a saved model: content tokens for each vector, `window`, or None for one vector.

    Raises:
        ModelError: if the file is missing or not in the form that we write.
    """
    for entry in saved_modules(folder):
        if entry["type"].endswith(".SpanPooling"):
            file = folder / entry["path"] / "config.json"
            vectors = _read_json(file).get("vectors")
            if vectors != "window" and not (isinstance(vectors, int) and vectors > 0):
                raise ModelError(f"{file} must hold vectors, a number of tokens or window, got {vectors!r}.")
            return cast("int | Literal['window']", vectors)
    return None


def read_strategy(folder: Path) -> Strategy:
    """The strategy that `LongTransformer.save` wrote into its folder.

    Raises:
        ModelError: if the file is missing or not in the form that we write.
    """
    return strategy_in(_read_json(folder / STRATEGY_FILE), folder / STRATEGY_FILE)


def saved_origin(folder: Path) -> Origin | None:
    """The base that a saved model was made from. None if its files do not say it (version 0.1)."""
    return origin_in(_read_json(folder / saved_modules(folder)[0]["path"] / STRATEGY_FILE))


def what_is_saved(strategy: Strategy, origin: Origin | None) -> dict[str, Any]:
    """What `LongTransformer.save` writes: the strategy with its parameters, and the base."""
    config = {"strategy": strategy.key(), **dataclasses.asdict(strategy)}
    return config if origin is None else {**config, _BASE: dataclasses.asdict(origin)}


def strategy_in(config: Any, where: str | Path) -> Strategy:
    """The strategy that `what_is_saved` describes.

    Args:
        config: what the file holds.
        where: the file, for the error.

    Raises:
        ModelError: if it does not have this form.
    """
    try:
        values = {**config}
        values.pop(_BASE, None)
        return get_strategy(values.pop("strategy"))(**values)
    except (TypeError, KeyError, ValueError, AttributeError, ArithmeticError) as error:
        raise ModelError(
            f"{where} must hold a strategy with its parameters, got {str(config)[:80]!r} ({error})."
        ) from error


def origin_in(config: Any) -> Origin | None:
    """The base that `what_is_saved` describes. None if it does not say."""
    said = config.get(_BASE) if isinstance(config, dict) else None
    if not isinstance(said, dict) or not isinstance(said.get("name"), str):
        return None
    revision = said.get("revision")
    return Origin(said["name"], revision if isinstance(revision, str) else None)


def _read_json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(
            f"{file} cannot be read as JSON: {type(error).__name__}: {str(error)[:80]}."
        ) from error
