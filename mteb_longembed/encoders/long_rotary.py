"""A rotary module that rotates by the positions and frequencies of a strategy."""

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from mteb_longembed.encoders.strategies import Strategy

from .attention import current
from .devices import to_device
from .self_extend import CosSin

#: Rope types whose frequencies depend on the input's length: transformers changes their buffers while a model runs.
BY_LENGTH = ("dynamic", "longrope")


class LongRotary(nn.Module):
    """A model's rotary module, with the strategy's positions and frequencies for documents that it changes.

    Positions are mapped here, and the model never sees the mapped positions: if position ids fall or repeat, a causal
    model assumes that several documents are packed into one input. The model's own module, `base`, still handles all
    documents that the strategy does not change.
    """

    def __init__(self, base: nn.Module, config: PretrainedConfig) -> None:
        super().__init__()
        self.base = base
        self.config = config
        #: the type of the layers that are extended; sliding layers never see more tokens than in training
        self.layer_type: str | None = None
        prefix = ""
        rope = config.rope_parameters
        if getattr(base, "layer_types", None) is not None:
            self.layer_type = "full_attention"
            prefix = "full_attention_"
            rope = rope["full_attention"]
        self.rope_type: str = rope.get("rope_type", "default")
        self.theta = float(rope.get("rope_theta", 10_000.0))
        # no buffer: model.bfloat16() must not round it
        self.inv_freq: Tensor = base.get_buffer(f"{prefix}inv_freq").detach().float().cpu().clone()
        self.scaling = float(getattr(base, f"{prefix}attention_scaling", 1.0))

    def frequencies(self, strategy: Strategy, lengths: Tensor) -> Tensor:
        """Return the base's own inverse frequencies for these lengths: `[d/2]` or `[b, d/2]`, float32, on the host."""
        if self.rope_type not in BY_LENGTH:
            return self.inv_freq
        if strategy.MOVES:  # documents are brought into the trained range
            lengths = lengths.clamp(max=strategy.trained_len)
        init = ROPE_INIT_FUNCTIONS[self.rope_type]
        device = torch.device("cpu")
        rows = [init(self.config, device, int(n), layer_type=self.layer_type)[0] for n in lengths]
        return torch.stack(rows).float()

    def forward(self, x: Tensor, position_ids: Tensor, *layer_type: str) -> CosSin:
        """Return cosines and sines `[b, n, r]` for the documents of x."""
        batch = current()
        batch.inv_freq = self.inv_freq
        strategy = batch.strategy
        n = batch.n[:, None]
        changed = n > strategy.unchanged_len()
        is_plain = self.rope_type not in BY_LENGTH and not bool(changed.any())
        if is_plain or layer_type not in ((), (self.layer_type,)):
            return self.base(x, position_ids, *layer_type)
        p = position_ids.expand(len(n), -1)
        own = self.frequencies(strategy, batch.n).expand(len(n), -1)
        new = torch.stack([strategy.inv_freq(row, self.theta) for row in own])
        inv_freq = to_device(new.where(changed, own), x.device)
        size = torch.tensor(self.scaling).expand(len(n), 1)
        size = to_device((size * strategy.rotation_factor()).where(changed, size), x.device)[..., None]
        moved = strategy.position_ids(p, to_device(n, x.device)).float()
        mapped = moved.where(to_device(changed, x.device), p.float())
        angles = mapped[..., None] * inv_freq[:, None]
        angles = torch.cat([angles, angles], -1)
        return (angles.cos() * size).to(x.dtype), (angles.sin() * size).to(x.dtype)
