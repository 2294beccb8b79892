"""Relative biases: T5 adds a learned number for each head and bucket of distances to the attention scores."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PretrainedConfig, PreTrainedModel

from mteb_longembed.encoders.attention.context import Documents
from mteb_longembed.encoders.attention.devices import to_device
from mteb_longembed.encoders.attention.plan import Plan
from mteb_longembed.encoders.strategies import Strategy
from mteb_longembed.encoders.transformers_parts import distance_buckets
from mteb_longembed.errors import ModelError

from .attention_functions import (
    LayerAttention,
    documents_of,
    each_length,
    install,
    padding_mask,
    probe_attention,
)
from .family import Family

#: The name under which transformers knows our attention function with biases.
ATTENTION = "longembed_relative"
#: How many numbers one block of biases has, over all heads: 64 MiB in float32.
_BLOCK = 2**24


@dataclass(eq=False)
class DistanceBias:
    """The biases of all pairs of tokens, made one block of rows at a time. It replaces T5's `[1, h, n, n]` tensor.

    Args:
        layer: owns the learned biases.
        strategy: maps positions.
        plan: the changed relative positions of documents beyond the trained length. None: mapped positions alone.
    """

    layer: Any
    strategy: Strategy
    plan: Plan | None

    def __call__(self, *args: object, **kwargs: object) -> DistanceBias:
        """It stands where the layer's `compute_bias` did."""
        return self

    def block(self, rows: slice, documents: Documents, n: int) -> Tensor:
        """The biases `[h, rows, n]` between some tokens of a document and all its `n` tokens."""
        found = self._by_distance(documents, n)
        if found is not None:
            table, positions = found
            return table[:, positions - positions[rows, None] + table.shape[1] // 2]
        # from relative positions of fp32 or whole ones, on the host: Apple's devices have no float64
        if self.plan is not None and n > self.strategy.trained_len:
            distance = -self.plan.relative(rows, n)
        else:
            p = self.strategy.position_ids(torch.arange(n), torch.tensor(n))
            distance = (p - p[rows, None]).double()
        return self._at(distance, documents.device).permute(2, 0, 1)

    def _by_distance(self, documents: Documents, n: int) -> tuple[Tensor, Tensor] | None:
        """The same biases as a table `[h, 2 m + 1]` by distance, and each token's place `[n]`, on the device.

        None where they do not depend on one distance alone: where relative positions are planned, and where mapped
        positions lie unevenly between whole ones. Layers share the table, unless they have gradients.
        """
        make = lambda: self._table(documents.device, n)  # noqa: E731
        if torch.is_grad_enabled():
            return make()
        return documents.cached((id(self), n), make)

    def _table(self, device: torch.device, n: int) -> tuple[Tensor, Tensor] | None:
        if self.plan is not None and n > self.strategy.trained_len:
            return None
        p = self.strategy.position_ids(torch.arange(n), torch.tensor(n)).double()
        if bool((p == p.floor()).all()):
            positions = p.long()
            step = 1.0
        else:
            positions = torch.arange(n)
            step = float(p[1] - p[0])
            if not torch.allclose(p, positions.double() * step, rtol=0, atol=1e-5):
                return None
        far = int(positions.max() - positions.min())
        table = self._at(torch.arange(-far, far + 1).double() * step, device).T.contiguous()
        return table, to_device(positions, device)

    def _at(self, distance: Tensor, device: torch.device) -> Tensor:
        """Biases `[..., h]` on the device, of distances on the host."""
        low = distance.floor()
        between = (distance - low).float()
        bias = self._learned(to_device(low.long(), device))
        if bool(between.any()):
            # a fractional distance gets a bias between those of the two whole distances around it
            weight = to_device(between.to(bias.dtype), device)[..., None]
            bias = torch.lerp(bias, self._learned(to_device(low.long() + 1, device)), weight)
        return bias

    def _learned(self, distance: Tensor) -> Tensor:
        layer = self.layer
        bucket = distance_buckets(layer)
        settings = (True, layer.relative_attention_num_buckets, layer.relative_attention_max_distance)
        # UMT5's function reads these settings from the layer itself
        reads_layer = len(inspect.signature(bucket).parameters) == 1
        if reads_layer:
            buckets = bucket(distance)
        else:
            buckets = bucket(distance, *settings)
        return layer.relative_attention_bias(buckets)


def relative_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    position_bias: DistanceBias | None = None,
    **kwargs: object,
) -> tuple[Tensor, None]:
    """Attention as transformers asks for it, with biases made block by block: `[b, n, h, d]` out."""
    settings: LayerAttention = module.longembed
    if not isinstance(position_bias, DistanceBias):
        raise ModelError(f"{type(module).__name__} has its own position bias, of a kind that we do not know.")
    if settings.probe is not None:
        settings.probe.append((module, query, key))
    b, h, width, d = query.shape
    if scaling is None:
        scale = d**-0.5
    else:
        scale = scaling
    documents = documents_of(attention_mask, b, width, query.device)
    factor = settings.strategy.query_scale(documents.n)

    def run(q: Tensor, k: Tensor, v: Tensor, first: int) -> Tensor:
        length = q.shape[2]
        scaled = scale * float(factor[first])
        size = max(_BLOCK // (h * length), 16)
        blocks = []
        for start in range(0, length, size):
            rows = slice(start, min(start + size, length))
            bias = position_bias.block(rows, documents, length).to(q.dtype)
            blocks.append(nn.functional.scaled_dot_product_attention(
                q[:, :, rows], k, v, attn_mask=bias[None], dropout_p=dropout, scale=scaled
            ))  # fmt: skip
        if len(blocks) == 1:
            return blocks[0]
        return torch.cat(blocks, dim=2)

    return each_length(query, key, value, documents, run).transpose(1, 2).contiguous(), None


class Relative(Family):
    """T5 and mT5 encoders: positions are mapped, and the learned buckets get the distances between them.

    `pi` makes fractional distances. Their bias is interpolated between those of the two whole distances.
    """

    name: ClassVar[str] = "relative"
    hooks: ClassVar[frozenset[str]] = frozenset({"windows", "position_ids", "attention"})

    def __init__(self, model: PreTrainedModel, strategy: Strategy, *, extended: bool = False) -> None:
        super().__init__(model, strategy)
        plan = None
        if "attention" in strategy.hooks():
            plan = strategy.attention()
        settings = LayerAttention(strategy)
        install(model, settings, ATTENTION)
        for layer in model.modules():
            if hasattr(layer, "relative_attention_bias"):
                vars(layer)["compute_bias"] = DistanceBias(layer, strategy, plan)
        probe_attention(model, settings)

    @classmethod
    def matches(cls, config: PretrainedConfig) -> bool:
        return config.model_type in ("t5", "mt5", "umt5")

    @classmethod
    def trained_len(cls, config: PretrainedConfig) -> int | None:
        value = getattr(config, "n_positions", None)
        if isinstance(value, int) and value > 0:
            return value
        return super().trained_len(config)


AttentionInterface.register(ATTENTION, relative_attention)
AttentionMaskInterface.register(ATTENTION, padding_mask)
