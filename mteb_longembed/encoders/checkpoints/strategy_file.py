"""The file beside the weights of a model that `save_pretrained` wrote: its strategy and its base."""

from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from mteb_longembed.encoders.positions.strategies import Strategy, get_strategy
from mteb_longembed.errors import ModelError

#: The content of a JSON object.
Json = dict[str, object]
#: The name of the file.
STRATEGY_FILE = "longembed_config.json"


class Saved(NamedTuple):
    """What the file says: the strategy with its lengths and parameters, and the base that the model was made from."""

    strategy: Strategy
    base_name: str
    base_revision: str | None  #: the base's commit, or a hash of its files; None if it is not known


def to_json(saved: Saved) -> Json:
    """The content as it is written."""
    return {
        "strategy": saved.strategy.KEY,
        **asdict(saved.strategy),
        "base": {"name": saved.base_name, "revision": saved.base_revision},
    }


def from_json(config: Json | None, where: str | Path) -> Saved:
    """Read the content. An error names the file (`where`).

    Raises:
        ModelError: if the file is missing, or lacks a strategy, its parameters or the base.
    """
    try:
        values: dict[str, Any] = {**(config or {})}
        base = values.pop("base")
        name = base["name"]
        revision = base["revision"]
        if not isinstance(name, str) or not isinstance(revision, str | None):
            raise TypeError("base must have a name and a revision")
        strategy = get_strategy(values.pop("strategy"))(**values)
    except (TypeError, KeyError, ValueError, AttributeError, ArithmeticError) as error:
        raise ModelError(
            f"{where} must hold a strategy with its parameters, and its base, got {str(config)[:80]!r} ({error})."
        ) from error
    return Saved(strategy, name, revision)
