"""What a strategy is in a plain checkpoint: settings that transformers knows, or nothing that it knows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from transformers import PretrainedConfig

from mteb_longembed.errors import MisfitError

from .families.absolute import Absolute
from .families.rotary import Rotary
from .strategies import Strategy

#: Rope types whose frequencies a larger theta or a further division changes as the strategy does.
_STACKABLE = ("default", "linear")


def refuse(family: Any, strategy: Strategy, reason: str) -> MisfitError:
    """The error where a plain checkpoint would be another method."""
    return MisfitError(f"{strategy.key()} on {family.name} positions cannot be a plain checkpoint: {reason}.")


def plain_form(family: Any, strategy: Strategy) -> Callable[[Strategy, dict[str, Any]], dict[str, Any]]:
    """How the strategy is written into a configuration; refuses what would be another method."""
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
    """The rope parameters of the layers that attend to everything."""
    rope = config.rope_parameters
    return dict(rope.get("full_attention", rope))


def _stackable(strategy: Strategy, rope: dict[str, Any]) -> None:
    kind = rope.get("rope_type", "default")
    if kind not in _STACKABLE:
        raise MisfitError(
            f"{strategy.key()} on top of rope scaling of type {kind} has no setting in transformers; "
            "use save_pretrained."
        )


def _rope_ntk(strategy: Any, rope: dict[str, Any]) -> dict[str, Any]:
    _stackable(strategy, rope)
    return {**rope, "rope_theta": rope["rope_theta"] * strategy.rope_factor}


def _rope_pi(strategy: Strategy, rope: dict[str, Any]) -> dict[str, Any]:
    _stackable(strategy, rope)
    return {**rope, "rope_type": "linear", "factor": float(rope.get("factor") or 1.0) * strategy.scale}


def _rope_yarn(strategy: Any, rope: dict[str, Any]) -> dict[str, Any]:
    kind = rope.get("rope_type", "default")
    if kind != "default" and not (kind == "linear" and rope.get("factor", 1.0) == 1):
        raise MisfitError(
            f"{strategy.key()} on top of rope scaling of type {kind} has no setting in transformers, which would "
            "drop the base's own; use save_pretrained, or export ntk or pi."
        )
    # the checkpoint is the model with logn=off, which has YaRN's own temperature
    unscaled = dataclasses.replace(strategy, logn=False)
    return {
        **rope,
        "rope_type": "yarn",
        "factor": strategy.stretch,
        "original_max_position_embeddings": strategy.trained_len,
        "beta_fast": strategy.beta_fast,
        "beta_slow": strategy.beta_slow,
        "attention_factor": float(unscaled.rotary_scale(torch.tensor(strategy.target_len))),
    }


#: Strategy -> its rope parameters, made of the base's.
_ROPE: dict[str, Callable[[Any, dict[str, Any]], dict[str, Any]]] = {
    "ntk": _rope_ntk,
    "pi": _rope_pi,
    "yarn": _rope_yarn,
}


def lost_in(family: Any, strategy: Strategy) -> list[str]:
    """One sentence for each thing that the plain checkpoint does not do as the extended model does."""
    lo, lost = strategy.trained_len, []
    if strategy.key() == "none":
        changed = False
    else:
        # absolute rp reads the same rows at every length
        keeps = getattr(strategy, "short", "keep" if strategy.key() != "rp" else "scale") == "keep"
        changed = keeps and strategy.key() != "gp"
        if isinstance(family, Absolute) and strategy.key() == "ntk":
            changed = True
    if changed:
        lost.append(
            f"inputs of at most {lo} tokens are extended like longer ones, where the extended model "
            "gives them the base model's embedding."
        )
    if strategy.logn and strategy.target_len > lo:
        lost.append(
            f"attention scaling of inputs beyond {lo} tokens: the checkpoint is the model with logn=off."
        )
    return lost


def can_be_plain(family: Any, strategy: Strategy, config: PretrainedConfig) -> bool:
    """Whether transformers has settings for what a strategy does to a family's positions."""
    if strategy.key() == "none":
        return True
    try:
        form = plain_form(family, strategy)
        if isinstance(family, Rotary):
            form(strategy, rope_of(config))
    except MisfitError:
        return False
    return True
