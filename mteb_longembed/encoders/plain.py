"""A strategy in a plain checkpoint: the settings of transformers that express it, if there are any."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from transformers import PretrainedConfig

from mteb_longembed.errors import IncompatibleError

from .families.absolute import Absolute
from .families.rotary import Rotary
from .strategies import Strategy

#: Rope types for which a larger theta or a further division changes the frequencies as the strategy does.
_STACKABLE = ("default", "linear")


def refuse(family: Any, strategy: Strategy, reason: str) -> IncompatibleError:
    """The error for a plain checkpoint that would be another method."""
    return IncompatibleError(
        f"{strategy.key()} on {family.name} positions cannot be a plain checkpoint: {reason}."
    )


def plain_form(family: Any, strategy: Strategy) -> Callable[[Strategy, dict[str, Any]], dict[str, Any]]:
    """The function that writes the strategy into a configuration. Refuses what would be another method."""
    key = strategy.key()
    if isinstance(family, Absolute):
        if "windows" in strategy.hooks():
            raise refuse(family, strategy, "it cuts windows while it runs; use pi, ntk or rp")
        if key == "gp" and strategy.factor != "target":  # type: ignore[attr-defined]
            raise refuse(
                family, strategy, "its groups depend on each document's length; use gp:factor=target"
            )
        return lambda _, rope: rope
    if not isinstance(family, Rotary):
        raise refuse(family, strategy, "transformers has no setting for it; use save_pretrained")
    if key not in _ROPE:
        known = ", ".join(_ROPE)
        raise refuse(
            family, strategy, f"it acts on each document while it runs; use {known}, or save_pretrained"
        )
    return _ROPE[key]


def rope_of(config: PretrainedConfig) -> dict[str, Any]:
    """The rope parameters of the layers with full attention."""
    rope = config.rope_parameters
    return dict(rope.get("full_attention", rope))


def _stackable(strategy: Strategy, rope: dict[str, Any]) -> None:
    kind = rope.get("rope_type", "default")
    if kind not in _STACKABLE:
        raise IncompatibleError(
            f"{strategy.key()} on top of rope scaling of type {kind} has no setting in transformers; "
            "use save_pretrained."
        )


def _rope_ntk(strategy: Any, rope: dict[str, Any]) -> dict[str, Any]:
    _stackable(strategy, rope)
    return {**rope, "rope_theta": rope["rope_theta"] * strategy.factor}


def _rope_pi(strategy: Strategy, rope: dict[str, Any]) -> dict[str, Any]:
    _stackable(strategy, rope)
    return {**rope, "rope_type": "linear", "factor": float(rope.get("factor") or 1.0) * strategy.scale}


def _rope_yarn(strategy: Any, rope: dict[str, Any]) -> dict[str, Any]:
    kind = rope.get("rope_type", "default")
    if kind != "default" and not (kind == "linear" and rope.get("factor", 1.0) == 1):
        raise IncompatibleError(
            f"{strategy.key()} on top of rope scaling of type {kind} has no setting in transformers, which would "
            "drop the base's own; use save_pretrained, or export ntk or pi."
        )
    # the checkpoint is the model with logn=off, so it has YaRN's own temperature
    unscaled = dataclasses.replace(strategy, logn=False)
    return {
        **rope,
        "rope_type": "yarn",
        "factor": strategy.factor,
        "original_max_position_embeddings": strategy.trained_len,
        "beta_fast": strategy.beta_fast,
        "beta_slow": strategy.beta_slow,
        "attention_factor": float(unscaled.rotary_scale(torch.tensor(strategy.target_len))),
    }


#: Strategy -> the function that makes its rope parameters from the base's.
_ROPE: dict[str, Callable[[Any, dict[str, Any]], dict[str, Any]]] = {
    "ntk": _rope_ntk,
    "pi": _rope_pi,
    "yarn": _rope_yarn,
}


def lost_in(family: Any, strategy: Strategy) -> list[str]:
    """One sentence for each difference between the plain checkpoint and the extended model."""
    lo, key, lost = strategy.trained_len, strategy.key(), []
    # absolute rp and gp:factor=target read the same rows at every length
    keeps = key not in ("none", "rp", "gp") and getattr(strategy, "short", "keep") == "keep"
    if keeps or (isinstance(family, Absolute) and key == "ntk"):
        lost.append(
            f"inputs of at most {lo} tokens are extended like longer ones, but the extended model "
            "gives them the base model's embedding."
        )
    if strategy.logn and strategy.target_len > lo:
        lost.append(
            f"inputs beyond {lo} tokens get no attention scaling: the checkpoint is the model with logn=off."
        )
    if strategy.past_target == "read":
        lost.append(f"inputs beyond {strategy.target_len} tokens are cut.")
    return lost


def can_be_plain(family: Any, strategy: Strategy, config: PretrainedConfig) -> bool:
    """Whether transformers has settings for what a strategy does to a family's positions."""
    if strategy.key() == "none":
        return True
    try:
        form = plain_form(family, strategy)
        if isinstance(family, Rotary):
            form(strategy, rope_of(config))
    except IncompatibleError:
        return False
    return True
