"""MPNet's attention by torch's own function: transformers has only its plain form, with all scores in memory.

Numbers are the same up to rounding, and memory is that of one mask.
"""

from typing import Any

from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers.models.mpnet.modeling_mpnet import MPNetSelfAttention


class FusedAttention(MPNetSelfAttention):
    """MPNet's attention; its relative bias is part of the mask."""

    def forward(  # type: ignore[override]  # a layer always has a bias
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None,
        position_bias: Tensor,
        output_attentions: bool = False,
        **kwargs: Any,
    ) -> tuple[Tensor, ...]:
        """The tokens of documents, `[b, n, d]`, from those of the layer before, as `MPNetSelfAttention` has them."""
        if output_attentions:  # which torch's function does not give
            return super().forward(hidden_states, attention_mask, position_bias, output_attentions)  # type: ignore[no-untyped-call]
        # the bias is the same for all documents; without padding there is no mask
        added = position_bias[:1].expand_as(position_bias)
        if attention_mask is not None:
            added = position_bias + attention_mask
        shape = (*hidden_states.shape[:-1], self.num_attention_heads, self.attention_head_size)
        q, k, v = (part(hidden_states).view(shape).transpose(1, 2) for part in (self.q, self.k, self.v))
        dropped = self.dropout.p if self.training else 0.0
        heads = scaled_dot_product_attention(q, k, v, attn_mask=added, dropout_p=dropped)
        return (self.o(heads.transpose(1, 2).flatten(2)),)


def fuse_attention(model: nn.Module) -> None:
    """Give the layers of a private MPNet this attention; in other models nothing changes."""
    for module in model.modules():
        if type(module) is MPNetSelfAttention:
            module.__class__ = FusedAttention
