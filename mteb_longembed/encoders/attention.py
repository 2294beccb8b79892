"""Attention of extended models: torch's own, with scaled queries, windows in bands, and SelfExtend.

transformers passes the mask of a registered function to the attention function. Ours makes none: the attention
function itself handles padding, causality and sliding windows, so no mask of size n x n is built.
"""

import contextlib
import functools
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import repeat_kv
from transformers.models.mpnet.modeling_mpnet import MPNetSelfAttention

from mteb_longembed.encoders.strategies import Strategy
from mteb_longembed.errors import ModelError

from .devices import to_device
from .self_extend import bands, self_extend, turns_of

T = TypeVar("T")
#: The name under which transformers knows our attention function.
ATTENTION = "longembed"
#: The attribute of a transformers layer with the function that runs it again under gradient checkpointing.
_CHECKPOINT = "_gradient_checkpointing_func"


@dataclass(eq=False)
class Batch:
    """The documents of a forward pass, as every layer needs them, on the host: no layer waits for the device.

    Args:
        strategy: the strategy of the model.
        lengths: the tokens of each document, at least 1.
        device: the device of the documents.
        inv_freq: `[r/2]` rotary inverse frequencies, on the host, from the rotary module. None without one.
        offsets: `[b]` by how many positions each document is moved in training. None for none.
    """

    strategy: Strategy
    lengths: Sequence[int]
    device: torch.device
    inv_freq: Tensor | None = None
    offsets: Tensor | None = None
    _made: dict[Hashable, Any] = field(default_factory=dict, repr=False)

    @property
    def n(self) -> Tensor:
        """`[b]` tokens of each document, on the host."""
        return torch.tensor(self.lengths)

    @property
    def longest(self) -> int:
        """Tokens of the longest document."""
        return max(self.lengths)

    def are_all(self, width: int) -> bool:
        """Return whether every document has `width` tokens, so that a batch of this width has no padding."""
        return min(self.lengths) == width

    def on_device(self, key: Hashable, make: Callable[[], Tensor]) -> Tensor:
        """Return the tensor of `make`, built on the host and copied to the device once for all layers."""
        return self.cached(key, lambda: to_device(make(), self.device))

    def cached(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the result of `make`, computed at the first call and kept for the lifetime of the batch."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]


#: The current batch of this thread.
_CURRENT: ContextVar[Batch | None] = ContextVar("_CURRENT", default=None)


def current() -> Batch:
    """Return the current batch of this thread. ModelError if the transformer was called directly."""
    batch = _CURRENT.get()
    if batch is None:
        raise ModelError(
            "the transformer of an extended model was called directly, without the lengths of documents: call its "
            "SentenceTransformer."
        )
    return batch


@contextlib.contextmanager
def holding(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Set a variable of this thread to this value inside the context."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


#: Inside this context, the model of this thread gets this batch.
running = functools.partial(holding, _CURRENT)


def pass_batch(model: torch.nn.Module) -> None:
    """Pass the batch to layers that gradient checkpointing runs again after the forward pass."""
    for module in model.modules():
        run_again = vars(module).get(_CHECKPOINT)
        is_wrapped = isinstance(run_again, functools.partial) and run_again.func is _with_batch
        if run_again is not None and not is_wrapped:
            vars(module)[_CHECKPOINT] = functools.partial(_with_batch, run_again)


def _with_batch(checkpoint: Callable[..., T], layer: Callable[..., T], *args: object, **kwargs: object) -> T:
    return checkpoint(running(current())(layer), *args, **kwargs)


def long_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    is_causal: bool | None = None,
    **kwargs: object,
) -> tuple[Tensor, None]:
    """Compute attention with transformers' interface: `[b, h, n, d]` in, `[b, n, h, d]` out, and no weights.

    Raises:
        ModelError: if the model requests soft capping, sinks, biases or another mask, which are not supported.
    """
    for name in ("softcap", "s_aux", "position_bias", "cache"):
        if kwargs.get(name) is not None:
            raise ModelError(
                f"{type(module).__name__} uses {name} in its attention, but our attention has no {name}."
            )
    if attention_mask is not None:
        raise ModelError(
            f"our attention takes a padding mask alone, got one of shape {tuple(attention_mask.shape)}: pass "
            "only tokenised texts to the extended model."
        )
    batch = current()
    strategy = batch.strategy
    causal = bool(module.is_causal if is_causal is None else is_causal)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    # in an extended model, a window of at least the trained length had no effect in training
    least = strategy.trained_len if strategy.extends else strategy.target_len
    window = None
    if sliding_window is not None and sliding_window < least:
        window = sliding_window
    # a layer with a window never sees more tokens than in training, so there is nothing to extend in it
    if window is None and batch.longest > strategy.trained_len:
        if strategy.logn and not causal and batch.are_all(batch.longest):
            # one factor for all documents: as part of the scale it costs nothing, and is not rounded
            scale *= float(strategy.query_factor(batch.n[0]))
        elif strategy.logn:
            query = scaled_queries(query, batch, causal=causal)
        if strategy.GROUPS:
            return _grouped(query, key, value, batch, scale, dropout, causal=causal), None
    out = attend_plain(query, key, value, batch, scale=scale, causal=causal, window=window, dropout=dropout)
    return out.transpose(1, 2).contiguous(), None


def scaled_queries(query: Tensor, batch: Batch, *, causal: bool) -> Tensor:
    """Scale queries `[b, h, n, d]` by log-n factors. In a causal model token i sees i + 1 tokens."""

    def factors() -> Tensor:
        seen = batch.n[:, None]
        if causal:
            seen = torch.arange(1, query.shape[2] + 1)[None]
        return batch.strategy.query_factor(seen)[:, None, :, None]

    return (query * batch.on_device(("query factor", causal), factors)).to(query.dtype)


def _grouped(
    q: Tensor, k: Tensor, v: Tensor, batch: Batch, scale: float, dropout: float, *, causal: bool
) -> Tensor:
    """Compute SelfExtend, `[b, n, h, d]`, document by document; plain attention up to the trained length."""
    if dropout > 0:
        warnings.warn(
            "this strategy changes relative positions, so its attention runs without dropout.", stacklevel=2
        )
    width = q.shape[2]
    documents = [slice(None)]  # all of one length run together
    if not batch.are_all(width):
        documents = [slice(row, row + 1) for row in range(len(batch.lengths))]
    parts = []
    for rows, n in zip(documents, batch.lengths, strict=False):
        queries, keys, values = (x[rows, :, :n] for x in (q, k, v))
        g, w = batch.strategy.sizes(n)
        if n <= batch.strategy.trained_len:
            part = _torchs(queries, keys, values, None, scale, causal=causal)
        else:
            inv_freq = batch.inv_freq
            assert inv_freq is not None  # `install_positions` lets only rotary models have sizes
            turns = batch.cached(("turns", n), functools.partial(turns_of, n, g, w, inv_freq, q.device))
            part = self_extend(queries, keys, values, w, turns, scale=scale, causal=causal)
        parts.append(F.pad(part, (0, 0, 0, width - n)))
    return torch.cat(parts).transpose(1, 2).contiguous()


def attend_plain(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    batch: Batch,
    *,
    scale: float,
    causal: bool,
    window: int | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Compute softmax attention of each document over its own tokens: `[b, h, n, d]`; padding also sees these.

    `q` is `[b, h, n, d]`, `k` and `v` are `[b, hk, n, d]`, and `hk` divides `h`; padding is on the right. A token sees
    tokens at a distance below `window`, or all of them.
    """
    n = q.shape[2]
    real = None
    # padding is on the right, so a causal model never sees it
    if not causal and not batch.are_all(n):
        real = batch.on_device("real", lambda: torch.arange(n) < batch.n[:, None])[:, None, None, :]
    if window is None or window >= n:
        return _torchs(q, k, v, real, scale, causal=causal, dropout=dropout)
    at = torch.arange(n, device=q.device)
    outs = []
    for rows, keys, seen in bands(n, window - 1, 0 if causal else window - 1, q.device):
        if real is not None:
            # padding that sees no token sees itself, because each row must see a key; the expansion tokens of a ColBERT
            # query are padding that counts
            itself = at[rows, None] == at[keys]
            seen = seen & real[..., keys]
            seen = seen | (itself & ~seen.any(-1, keepdim=True))
        parts = q[:, :, rows], k[:, :, keys], v[:, :, keys]
        outs.append(_torchs(*parts, seen, scale, causal=False, dropout=dropout))
    return torch.cat(outs, dim=2)


def _torchs(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, *, causal: bool, dropout: float = 0.0
) -> Tensor:
    """Call torch's attention. With a mask, several devices have only a slow path for grouped queries."""
    repeats = q.shape[1] // k.shape[1]
    if mask is not None:
        k = repeat_kv(k, repeats)
        v = repeat_kv(v, repeats)
        repeats = 1
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal, scale=scale, enable_gqa=repeats > 1
    )


class FusedAttention(MPNetSelfAttention):
    """MPNet's attention by torch's fused function, with scaled queries; its relative bias is part of the mask.

    transformers has only the plain form, with all scores in memory. Results agree up to rounding.
    """

    strategy: Strategy

    @classmethod
    def put_into(cls, attention: MPNetSelfAttention, strategy: Strategy) -> None:
        """Replace the attention of a layer by this one, in place."""
        attention.__class__ = cls
        assert isinstance(attention, cls)
        attention.strategy = strategy

    def forward(  # type: ignore[override]  # a layer always has a bias
        self, hidden_states: Tensor, attention_mask: Tensor | None, position_bias: Tensor, **kwargs: object
    ) -> tuple[Tensor]:
        """Return the hidden states of tokens, `[b, n, d]`, given the previous layer's."""
        # the bias is the same for all documents; without padding there is no mask
        added = position_bias[:1].expand_as(position_bias)
        if attention_mask is not None:
            added = position_bias + attention_mask
        shape = (*hidden_states.shape[:-1], self.num_attention_heads, self.attention_head_size)
        q, k, v = (part(hidden_states).view(shape).transpose(1, 2) for part in (self.q, self.k, self.v))
        if self.strategy.logn:
            q = scaled_queries(q, current(), causal=False)
        dropped = self.dropout.p if self.training else 0.0
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=added, dropout_p=dropped)
        return (self.o(heads.transpose(1, 2).flatten(2)),)


AttentionInterface.register(ATTENTION, long_attention)
# transformers' masks are not used: the batch has the lengths of documents
AttentionMaskInterface.register(ATTENTION, lambda **kwargs: None)
