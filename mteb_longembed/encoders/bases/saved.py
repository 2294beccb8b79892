"""Folders that `save_pretrained` of an extended model wrote: how they are told apart, and their strategy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, cast

from mteb_longembed.encoders.strategies import Strategy, get_strategy
from mteb_longembed.errors import ModelError

#: Our classes as they stand in a saved model's modules.json: exactly these are trusted.
OUR_CLASSES = frozenset(
    f"mteb_longembed.encoders.modules.{name}" for name in ("LongTransformer", "WindowPooling")
) | {"mteb_longembed.encoders.several.SpanPooling", "mteb_longembed.encoders.several.RaggedVectors"}
#: Beside the weights: the strategy and its parameters.
STRATEGY_FILE = "longembed_config.json"


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
        ModelError: if the file is not in this form.
    """
    modules = _read_json(folder / "modules.json")
    well_formed = isinstance(modules, list) and all(
        isinstance(entry, dict) and isinstance(entry.get("type"), str) and isinstance(entry.get("path"), str)
        for entry in modules
    )
    if not well_formed or not modules or modules[0]["type"] not in OUR_CLASSES:
        raise ModelError(
            f"{folder / 'modules.json'} must list modules with a type and a path each, ours first, got "
            f"{str(modules)[:80]!r}."
        )
    return list(modules)


def saved_strategy(folder: Path) -> Strategy:
    """The strategy that was written beside the weights of a folder's first module.

    Raises:
        ModelError: if the file is missing or not in the form that we write.
    """
    return read_strategy(folder / saved_modules(folder)[0]["path"])


def saved_vectors(folder: Path) -> int | Literal["window"] | None:
    """How many vectors a document of a saved model has: content tokens a vector, `window`, or None for one.

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
    config = _read_json(folder / STRATEGY_FILE)
    try:
        values = {**config}
        return get_strategy(values.pop("strategy"))(**values)
    except (TypeError, KeyError, ValueError, AttributeError, ArithmeticError) as error:
        raise ModelError(
            f"{folder / STRATEGY_FILE} must hold a strategy with its parameters, got {str(config)[:80]!r} ({error})."
        ) from error


def _read_json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(
            f"{file} cannot be read as JSON: {type(error).__name__}: {str(error)[:80]}."
        ) from error
