"""The positions of a loaded transformer are swapped in place: tables of learned positions, and rotary modules."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import PreTrainedModel
from transformers.models.mpnet.modeling_mpnet import MPNetSelfAttention

from mteb_longembed.encoders.strategies import Strategy
from mteb_longembed.errors import IncompatibleError

from .attention import ATTENTION, current, scaled_queries
from .digest import BY_LENGTH
from .long_rotary import LongRotary
from .long_table import LongTable
from .positions import FROM_PADDING, ROTARY, positions_of


def swap(model: PreTrainedModel, strategy: Strategy) -> None:
    """Swap the positions of a private model of transformers in place.

    Raises:
        IncompatibleError: if the strategy does not fit the model's layers; `check_fit` has asked its configuration.
    """
    is_rotary = positions_of(model.config) == ROTARY
    if is_rotary:
        for name, part in model.named_modules():
            if hasattr(part, "inv_freq") or hasattr(part, "full_attention_inv_freq"):
                rotary = part if isinstance(part, LongRotary) else LongRotary(part, model.config)
                if strategy.MOVES:
                    _check_layers(model, rotary, strategy)
                model.set_submodule(name, rotary)
                break
    elif strategy.MOVES:
        _swap_table(model, strategy)
    if model.config.model_type == "mpnet":
        for module in model.modules():
            if isinstance(module, MPNetSelfAttention):
                FusedAttention.put_into(module, strategy)
    elif is_rotary or strategy.MOVES or strategy.logn:
        _swap_attention(model, strategy)


def _swap_attention(model: PreTrainedModel, strategy: Strategy) -> None:
    own = str(model.config._attn_implementation)
    inside = strategy.GROUPS or strategy.logn
    if "flash" not in own:
        model.set_attn_implementation(ATTENTION)
    elif inside and strategy.target_len > strategy.trained_len:
        raise IncompatibleError(
            f"{strategy.KEY} acts inside attention, but {type(model).__name__} was loaded with "
            f"attn_implementation={own}, which replaces ours: use pi or ntk with logn=off, or leave it out."
        )


def _swap_table(model: PreTrainedModel, strategy: Strategy) -> None:
    embeddings: Any = model.embeddings
    table = embeddings.position_embeddings
    first_row = 0
    if model.config.model_type in FROM_PADDING:
        first_row = embeddings.padding_idx + 1
    rows = table.num_embeddings - first_row
    if rows < strategy.trained_len:
        raise IncompatibleError(
            f"the trained length must be at most the {rows} rows of the model's table, got {strategy.trained_len} "
            "tokens: give a smaller trained_len."
        )
    table.__class__ = LongTable
    table.first_row = first_row
    table.strategy = strategy
    table.n_own = table.num_embeddings
    # the model takes its ids from these buffers
    ids = torch.arange(first_row + strategy.target_len, device=table.weight.device)[None]
    for name, values in (("position_ids", ids), ("token_type_ids", torch.zeros_like(ids))):
        if hasattr(embeddings, name):
            embeddings.register_buffer(name, values, persistent=False)


def _check_layers(model: PreTrainedModel, rotary: LongRotary, strategy: Strategy) -> None:
    """Raise IncompatibleError for what rope scaling or sliding layers of a model do not allow."""
    key = strategy.KEY
    base = type(model).__name__
    if strategy.NEEDS_PLAIN_ROPE and rotary.rope_type not in ("default", "linear"):
        raise IncompatibleError(
            f"{key} needs plain rotary frequencies, but {base} already has rope scaling of type {rotary.rope_type}; "
            "use ntk or pi, which work with rope scaling."
        )
    if strategy.GROUPS and rotary.rope_type in BY_LENGTH:
        raise IncompatibleError(
            f"{key} needs the same rotary frequencies at every length, but the frequencies of {base} change with "
            f"the length (type {rotary.rope_type}); use pi or ntk."
        )
    layers = [part for part in model.modules() if hasattr(part, "is_causal")]
    windows = [getattr(layer, "sliding_window", None) or 0 for layer in layers]
    widest = max(windows, default=0)
    if rotary.layer_type is not None and widest >= strategy.trained_len:
        raise IncompatibleError(
            f"{key} extends the full layers of {base} alone, so its sliding layers must see fewer tokens than the "
            f"trained length of {strategy.trained_len}, got {widest}; use pcw, or give the trained_len of the model "
            "itself."
        )
    slide = {0 < window < strategy.trained_len for window in windows}
    if rotary.layer_type is None and not strategy.GROUPS and len(slide) == 2:
        raise IncompatibleError(
            f"{key} would also change the sliding layers of {base}, because they share one rotary module with the "
            "layers of full attention; use pcw (on some of these models se works too)."
        )


# ---- MPNet ----------------------------------------------------------------------------------------------------


class FusedAttention(MPNetSelfAttention):
    """MPNet's attention by torch's own function, with scaled queries; its relative bias is part of the mask.

    transformers has only the plain form, with all scores in memory. Numbers are the same up to rounding.
    """

    strategy: Strategy

    @classmethod
    def put_into(cls, attention: MPNetSelfAttention, strategy: Strategy) -> None:
        """Let a layer run this attention."""
        attention.__class__ = cls
        assert isinstance(attention, cls)
        attention.strategy = strategy

    def forward(  # type: ignore[override]  # a layer always has a bias
        self, hidden_states: Tensor, attention_mask: Tensor | None, position_bias: Tensor, **kwargs: object
    ) -> tuple[Tensor]:
        """Return the tokens of documents, `[b, n, d]`, given the previous layer's."""
        # the bias is the same for all documents; without padding there is no mask
        added = position_bias[:1].expand_as(position_bias)
        if attention_mask is not None:
            added = position_bias + attention_mask
        shape = (*hidden_states.shape[:-1], self.num_attention_heads, self.attention_head_size)
        q, k, v = (part(hidden_states).view(shape).transpose(1, 2) for part in (self.q, self.k, self.v))
        if self.strategy.logn:
            q = scaled_queries(q, current(), causal=False)
        dropped = self.dropout.p if self.training else 0.0
        heads = scaled_dot_product_attention(q, k, v, attn_mask=added, dropout_p=dropped)
        return (self.o(heads.transpose(1, 2).flatten(2)),)
