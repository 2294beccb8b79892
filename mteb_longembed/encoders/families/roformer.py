"""RoFormer: rotary positions in an attention layer for which transformers has only one, slow implementation."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel

from mteb_longembed.encoders.attention.context import Documents
from mteb_longembed.encoders.attention.devices import to_device
from mteb_longembed.encoders.attention.plan import RelativePositionAttention
from mteb_longembed.encoders.attention.rotation import Rotation
from mteb_longembed.encoders.strategies import Strategy
from mteb_longembed.errors import IncompatibleError

from .attention_functions import LayerAttention, documents_of, long_attention
from .family import Family
from .rotary import mapped_frequencies

#: The rope base (theta). RoFormer has no setting for it.
_THETA = 10_000.0


class RoFormer(Family):
    """RoFormer: we replace its self-attention with ours, which has the same weights under the same names."""

    name: ClassVar[str] = "rotary"
    hooks: ClassVar[frozenset[str]] = frozenset({"windows", "position_ids", "inv_freq", "attention"})

    def __init__(self, model: PreTrainedModel, strategy: Strategy, *, extended: bool = False) -> None:
        super().__init__(model, strategy)
        settings = LayerAttention(strategy)
        size = model.config.hidden_size // model.config.num_attention_heads
        inv_freq = _THETA ** -(torch.arange(0, size, 2, dtype=torch.float64) / size)
        rotation = Rotation(inv_freq.float(), interleaved=True)
        if "attention" in strategy.hooks():
            if model.config.rotary_value:
                raise IncompatibleError(
                    f"{strategy.key()} changes relative positions of queries and keys, but this RoFormer also "
                    "rotates its values (rotary_value); use gp, rp, pi or ntk."
                )
            settings.planned = RelativePositionAttention(strategy.attention(), rotation)
        encoder: Any = model.encoder
        encoder.embed_positions.__class__ = _NoTable
        for layer in encoder.layer:
            layer.attention.self = _SelfAttention(layer.attention.self, settings, rotation)

    @classmethod
    def matches(cls, config: PretrainedConfig) -> bool:
        return config.model_type == "roformer" and not config.is_decoder


class _NoTable(nn.Embedding):
    """Replaces the table of sines, which ends at the trained length. We compute angles when we need them."""

    def forward(  # type: ignore[override]
        self, input_ids_shape: torch.Size, *args: object, **kwargs: object
    ) -> Tensor:
        return self.weight.new_zeros(input_ids_shape[1], 1)


class _SelfAttention(nn.Module):
    """RoFormer's self-attention with our attention function."""

    is_causal = False

    def __init__(self, base: Any, settings: LayerAttention, rotation: Rotation) -> None:
        super().__init__()
        self.query: nn.Linear = base.query
        self.key: nn.Linear = base.key
        self.value: nn.Linear = base.value
        self.dropout: nn.Dropout = base.dropout
        self.heads = base.num_attention_heads
        self.rotary_value = base.rotary_value
        self.longembed = settings
        self.rotation = rotation

    def forward(
        self, hidden_states: Tensor, attention_mask: Tensor | None = None, *args: object, **kwargs: object
    ) -> tuple[Tensor, None]:
        b, n, _ = hidden_states.shape
        q, k, v = (
            layer(hidden_states).view(b, n, self.heads, -1).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        if attention_mask is None:
            real = None
        else:
            real = attention_mask[:, 0, 0] == 0
        documents = documents_of(real, b, n, hidden_states.device)
        turn, scaled = documents.cached("turn", lambda: self._turns(documents, n))
        q = self.rotation.apply(q, scaled)
        k = self.rotation.apply(k, scaled)
        if self.rotary_value:
            v = self.rotation.apply(v, turn)
        out, _ = long_attention(self, q, k, v, real, dropout=self.dropout.p if self.training else 0.0)
        return out.reshape(b, n, -1), None

    def _turns(self, documents: Documents, width: int) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """Cosines and sines `[b, 1, n, r/2]` for values, and those for queries and keys."""
        strategy = self.longembed.strategy
        n = documents.n
        # frequencies on the host, in float64; angles on the device
        rows = mapped_frequencies(strategy, n, self.rotation.inv_freq, _THETA)
        p = torch.arange(width, device=documents.device).expand(len(n), -1)
        p = strategy.position_ids(p, documents.lengths_on_device()[:, None])
        angles = (p.float()[..., None] * to_device(rows, documents.device)[:, None])[:, None]
        size = to_device(strategy.rotary_scale(n), documents.device).view(-1, 1, 1, 1)
        turn = angles.cos(), angles.sin()
        return turn, (turn[0] * size, turn[1] * size)
