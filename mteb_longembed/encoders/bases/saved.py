"""What a base that is extended already carries: the form of the models that `save_pretrained` writes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Literal

from mteb_longembed.encoders.adapters import ADAPTERS
from mteb_longembed.encoders.strategies import Strategy, get_strategy
from mteb_longembed.errors import ModelError

from .model_files import Json, ModuleEntry

#: Our classes by their names in a saved model's modules.json, with those of versions 0.1 and 0.2. Exactly these are
#: trusted.
OUR_CLASSES = frozenset(
    f"mteb_longembed.encoders.{name}"
    for name in (
        "modules.LongTransformer", "modules.WindowPooling", "span_pooling.SpanPooling", "span_pooling.RaggedVectors",
        "several.SpanPooling", "several.RaggedVectors",
        "span_pooling.FewerVectors", "token_weights.TokenWeights",
    )
)  # fmt: skip
#: The file beside the weights with the strategy and its parameters.
STRATEGY_FILE = "longembed_config.json"
#: The key of that file that holds the base.
_BASE = "base"


@dataclass(frozen=True)
class Origin:
    """The base that an extended model was made from: its name and revision (None if it is unknown)."""

    name: str
    revision: str | None = None


@dataclass(frozen=True)
class Carried:
    """The extension that is in a base's files already. The files of version 0.1 do not say the origin."""

    strategy: Strategy
    vectors: int | Literal["window"] | None = None
    origin: Origin | None = None


def is_ours(modules: Sequence[ModuleEntry] | None) -> bool:
    """Whether the content of a `modules.json` is that of an extended model that `save_pretrained` wrote."""
    return any(isinstance(m, dict) and m.get("type") in OUR_CLASSES for m in modules or ())


def check_modules(path: str, modules: list[ModuleEntry]) -> None:
    """Raise ModelError if a `modules.json` does not list modules inside its folder, or ours are not the first."""
    if not all(map(_is_well_formed, modules)) or (is_ours(modules) and modules[0]["type"] not in OUR_CLASSES):
        raise ModelError(
            f"modules.json of {path} must list modules with a type and a path each, ours first, got "
            f"{str(modules)[:80]!r}."
        )


def carried_in(extension: Json | None, pooling: Json, path: str) -> Carried:
    """What a saved model carries, by its `STRATEGY_FILE` and the configuration of its pooling."""
    vectors = pooling.get("vectors")
    if vectors not in (None, "window") and not (isinstance(vectors, int) and vectors > 0):
        raise ModelError(
            f"the pooling of {path} must hold vectors, a number of tokens or window, got {vectors!r}."
        )
    return Carried(strategy_in(extension, f"{path}/{STRATEGY_FILE}"), vectors, origin_in(extension))


def _is_well_formed(entry: object) -> bool:
    kind, path = (entry.get("type"), entry.get("path")) if isinstance(entry, dict) else (None, None)
    if not isinstance(kind, str) or not isinstance(path, str):
        return False
    return not (PurePosixPath(path).is_absolute() or PureWindowsPath(path).anchor or ".." in path)


def what_is_saved(strategy: Strategy, origin: Origin | None, adapters: list[str]) -> Json:
    """What `LongTransformer.save` writes: the strategy with its parameters, the adapters and the base."""
    config = {"strategy": strategy.key(), **strategy.values()}
    if strategy.past_target == "cut":
        del config["past_target"]  # versions before 0.3 do not know it
    if adapters:
        config[ADAPTERS] = adapters
    return config if origin is None else {**config, _BASE: dataclasses.asdict(origin)}


def strategy_in(config: Json | None, where: str | Path) -> Strategy:
    """The strategy that `what_is_saved` describes. An error names the file (`where`)."""
    try:
        values: dict[str, Any] = {**(config or {})}
        values.pop(_BASE, None)
        if not all(isinstance(name, str) for name in values.pop(ADAPTERS, ())):
            raise TypeError(f"{ADAPTERS} must be names")
        return get_strategy(values.pop("strategy"))(**values)
    except (TypeError, KeyError, ValueError, AttributeError, ArithmeticError) as error:
        raise ModelError(
            f"{where} must hold a strategy with its parameters, got {str(config)[:80]!r} ({error})."
        ) from error


def origin_in(config: Json | None) -> Origin | None:
    """The base that `what_is_saved` describes. None if it does not say."""
    base = config.get(_BASE) if isinstance(config, dict) else None
    if not isinstance(base, dict) or not isinstance(base.get("name"), str):
        return None
    revision = base.get("revision")
    return Origin(base["name"], revision if isinstance(revision, str) else None)
