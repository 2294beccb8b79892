"""A strategy in a plain checkpoint: the settings of transformers that express it, if there are any."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from transformers import PretrainedConfig

from mteb_longembed.encoders.families import Family
from mteb_longembed.encoders.families.absolute import Absolute
from mteb_longembed.encoders.families.rotary import Rotary
from mteb_longembed.encoders.strategies import Strategy
from mteb_longembed.encoders.strategies.gp import GroupedPositions
from mteb_longembed.encoders.strategies.ntk import NTKAware
from mteb_longembed.encoders.strategies.pi import PositionInterpolation
from mteb_longembed.encoders.strategies.yarn import YaRN
from mteb_longembed.errors import IncompatibleError

#: The rotary settings in a configuration of transformers.
RopeParameters = dict[str, Any]


def refuse(family: Family, strategy: Strategy, reason: str) -> IncompatibleError:
    """The error for a plain checkpoint that would be another method."""
    return IncompatibleError(
        f"{strategy.KEY} on {family.name} positions cannot be a plain checkpoint: {reason}."
    )


def plain_rope(family: Family, strategy: Strategy, config: PretrainedConfig) -> RopeParameters | None:
    """The rope parameters that express a strategy. None on absolute positions. Refuses what would be another method."""
    key = strategy.KEY
    if isinstance(family, Absolute):
        if "windows" in strategy.overrides():
            raise refuse(family, strategy, "it cuts windows while it runs; use pi, ntk or rp")
        if isinstance(strategy, GroupedPositions) and strategy.factor != "target":
            reason = "its groups depend on each document's length; use gp:factor=target"
            raise refuse(family, strategy, reason)
        return None
    if not isinstance(family, Rotary):
        raise refuse(family, strategy, "transformers has no setting for it; use save_pretrained")
    if type(strategy) not in (NTKAware, PositionInterpolation, YaRN):  # a subclass is another method
        reason = "it acts on each document while it runs; use ntk, pi, yarn, or save_pretrained"
        raise refuse(family, strategy, reason)
    rope = rope_of(config)
    kind = rope.get("rope_type", "default")
    factor = float(rope.get("factor") or 1.0)
    # ntk and pi change frequencies that are divided already as well; yarn would drop the base's own division
    if not (kind == "default" or (kind == "linear" and (key != "yarn" or factor == 1))):
        raise IncompatibleError(
            f"{key} on top of rope scaling of type {kind} has no setting in transformers; use save_pretrained."
        )
    if isinstance(strategy, NTKAware):
        return {**rope, "rope_theta": rope["rope_theta"] * strategy.factor}
    if isinstance(strategy, PositionInterpolation):
        return {**rope, "rope_type": "linear", "factor": factor * strategy.scale}
    assert isinstance(strategy, YaRN)
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


def rope_of(config: PretrainedConfig) -> RopeParameters:
    """The rope parameters of the layers with full attention."""
    rope = config.rope_parameters
    return dict(rope.get("full_attention", rope))


def lost_in(family: Family, strategy: Strategy) -> list[str]:
    """One sentence for each difference between the plain checkpoint and the extended model."""
    lo = strategy.trained_len
    key = strategy.KEY
    lost = []
    # absolute rp and gp:factor=target read the same rows at every length
    keeps = key not in ("none", "rp", "gp") and not strategy.scales_short
    if keeps or (isinstance(family, Absolute) and key == "ntk"):
        lost.append(
            f"inputs of at most {lo} tokens are extended like longer ones, but the extended model "
            "gives them the base model's embedding."
        )
    if strategy.logn and strategy.target_len > lo:
        lost.append(
            f"inputs beyond {lo} tokens get no attention scaling: the checkpoint is the model with logn=off."
        )
    return lost
