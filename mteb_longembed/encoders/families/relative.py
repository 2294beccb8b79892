"""Relative biases: T5 adds a learned number for each head and bucket of distances to the attention scores."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PretrainedConfig, PreTrainedModel
from transformers.masking_utils import flash_attention_mask

from mteb_longembed.encoders.attention import devices
from mteb_longembed.encoders.attention.flex import attend_biased
from mteb_longembed.encoders.attention.plan import Plan
from mteb_longembed.encoders.strategies import Strategy
from mteb_longembed.errors import ModelError

from .base import Family
from .interface import LayerAttention, each_length, install, trial

#: The name under which transformers knows our attention function with biases.
ATTENTION = "longembed_relative"
#: How many numbers one block of biases has, over all heads: 64 MiB in float32.
_BLOCK = 2**24


class DistanceBias:
    """The biases of all pairs of tokens, made one block of rows at a time. It replaces T5's `[1, h, n, n]` tensor.

    Args:
        layer: the attention layer that owns the learned biases.
        strategy: maps the positions of documents longer than the trained length.
        plan: the changed relative positions of such documents, or None.
    """

    def __init__(self, layer: Any, strategy: Strategy, plan: Plan | None) -> None:
        self.layer = layer
        self.strategy = strategy
        self.plan = plan

    def block(self, rows: slice, n: int) -> Tensor:
        """The biases `[h, rows, n]` between some tokens of a document and all its `n` tokens."""
        if self.plan is not None and n > self.strategy.trained_len:
            distance = -self.plan.relative(rows, n)
        else:
            p = self._positions(n)
            distance = (p - p[rows, None]).double()
        return self._at(distance).permute(2, 0, 1)

    def by_distance(self, n: int) -> tuple[Tensor, Tensor] | None:
        """The same biases as a table `[h, 2 m + 1]` by distance, and each token's place `[n]`, on the layer's device.

        None where they do not depend on one distance alone: where relative positions are planned, and where mapped
        positions lie unevenly between whole ones.
        """
        if self.plan is not None and n > self.strategy.trained_len:
            return None
        p = self._positions(n).double()
        if bool((p == p.floor()).all()):
            place, step = p.long(), 1.0
        else:
            place, step = torch.arange(n), float(p[1] - p[0])
            if not torch.allclose(p, place.double() * step, rtol=0, atol=1e-5):
                return None
        far = int(place.max() - place.min())
        table = self._at(torch.arange(-far, far + 1).double() * step).T.contiguous()
        return table, place.to(table.device)

    def _positions(self, n: int) -> Tensor:
        p = torch.arange(n)
        return (
            self.strategy.position_ids(p, torch.tensor(n)) if "position_ids" in self.strategy.hooks() else p
        )

    def _at(self, distance: Tensor) -> Tensor:
        """Biases `[..., h]` of float64 distances."""
        weight: Tensor = self.layer.relative_attention_bias.weight
        low = distance.floor()
        between = (distance - low).to(weight.dtype)
        bias = self._learned(low.to(weight.device))
        if bool(between.any()):
            # a fractional distance gets a bias between those of the two whole distances around it
            bias = torch.lerp(
                bias, self._learned((low + 1).to(weight.device)), between[..., None].to(weight.device)
            )
        return bias

    def _learned(self, distance: Tensor) -> Tensor:
        settings = (
            True, self.layer.relative_attention_num_buckets, self.layer.relative_attention_max_distance
        )  # fmt: skip
        bucket = self.layer._relative_position_bucket
        # UMT5's function reads these settings from the layer itself
        own = len(inspect.signature(bucket).parameters) == 1
        buckets = bucket(distance.long()) if own else bucket(distance.long(), *settings)
        return self.layer.relative_attention_bias(buckets)


def relative_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    position_bias: DistanceBias | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attention as transformers asks for it, with biases made block by block: `[b, n, h, d]` out."""
    settings: LayerAttention = module.longembed
    if not isinstance(position_bias, DistanceBias):
        raise ModelError(f"{type(module).__name__} has its own position bias, of a kind that we do not know.")
    if settings.trial is not None:
        settings.trial.append((module, query, key))
    b, h, width, d = query.shape
    scale = d**-0.5 if scaling is None else scaling
    n = torch.full((b,), width) if attention_mask is None else attention_mask.sum(1).cpu()
    factor = settings.strategy.query_scale(n)

    def run(q: Tensor, k: Tensor, v: Tensor, first: int) -> Tensor:
        length = q.shape[2]
        if dropout == 0 and not torch.is_grad_enabled() and devices.has_flex(q.device):
            found = position_bias.by_distance(length)
            if found is not None:
                table, place = found
                return attend_biased(q, k, v, table.to(q.dtype), place, scale=scale * float(factor[first]))
        size = max(_BLOCK // (h * length), 16)
        parts = []
        for start in range(0, length, size):
            rows = slice(start, min(start + size, length))
            bias = position_bias.block(rows, length).to(q.dtype)
            parts.append(nn.functional.scaled_dot_product_attention(
                q[:, :, rows], k, v, attn_mask=bias[None], dropout_p=dropout, scale=scale *
                float(factor[first])
            ))  # fmt: skip
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=2)

    return each_length(query, key, value, n, run).transpose(1, 2).contiguous(), None


class Relative(Family):
    """T5 and mT5 encoders: positions are mapped, and the learned buckets get the distances between them.

    `pi` makes fractional distances. Their bias is interpolated between those of the two whole distances.
    """

    name: ClassVar[str] = "relative"
    hooks: ClassVar[frozenset[str]] = frozenset({"windows", "position_ids", "attention"})

    def __init__(self, model: PreTrainedModel, strategy: Strategy, *, extended: bool = False) -> None:
        super().__init__(model, strategy)
        plan = strategy.attention() if "attention" in strategy.hooks() else None
        settings = LayerAttention(strategy)
        install(model, settings, ATTENTION)
        owners: list[Any] = [m for m in model.modules() if hasattr(m, "relative_attention_bias")]
        for layer in owners:
            layer.compute_bias = _Biases(DistanceBias(layer, strategy, plan))
        trial(model, settings)

    @classmethod
    def matches(cls, config: PretrainedConfig) -> bool:
        return config.model_type in ("t5", "mt5", "umt5")

    @classmethod
    def trained_len(cls, config: PretrainedConfig) -> int | None:
        value = getattr(config, "n_positions", None)
        return value if isinstance(value, int) and value > 0 else super().trained_len(config)

    def prepare(self, features: dict[str, Any], lengths: Tensor) -> dict[str, Any]:
        return features


class _Biases:
    """Replaces a layer's `compute_bias`."""

    def __init__(self, bias: DistanceBias) -> None:
        self.bias = bias

    def __call__(self, *args: Any, **kwargs: Any) -> DistanceBias:
        return self.bias


AttentionInterface.register(ATTENTION, relative_attention)
AttentionMaskInterface.register(ATTENTION, flash_attention_mask)
