"""Ordinary attention over right-padded documents, full or in a sliding window, without n x n masks."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from .kernels import repeat_heads
from .merge import attend_tiles
from .tiles import band


def attend_plain(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float,
    causal: bool,
    window: int | None = None,
    lengths: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Softmax attention of each document over its own tokens.

    Args:
        q: `[b, h, n, d]`.
        k: `[b, hk, n, d]`; `hk` divides `h`.
        v: `[b, hk, n, d]`.
        scale: factor of the scores.
        causal: whether token i sees only tokens 0..i.
        window: token i sees tokens at a distance below this. None for all tokens.
        lengths: `[b]` real tokens of each document. The rest is padding. None if there is no padding.
        dropout: probability of dropping an attention weight.

    Returns:
        `[b, h, n, d]`. Rows of padding hold finite numbers without meaning.
    """
    n = q.shape[2]
    if window is not None and window >= n:
        window = None
    real = None
    if lengths is not None and not causal:
        # padding is on the right, so a causal model never sees it
        real = (torch.arange(n, device=q.device) < lengths[:, None])[:, None, None, :]
    if window is None:
        return _sdpa(q, k, v, scale=scale, causal=causal, mask=real, dropout=dropout)
    if dropout > 0 or real is not None:
        at = torch.arange(n, device=q.device)
        behind = at[:, None] - at
        near = (behind < window) & (behind >= 0 if causal else behind > -window)
        near = near if real is None else near & real
        # a row of padding may have no real neighbour, so it sees itself
        near = near | (behind == 0)
        return _sdpa(q, k, v, scale=scale, causal=False, mask=near, dropout=dropout)
    if q.requires_grad:
        k, v = repeat_heads(k, q), repeat_heads(v, q)
    return attend_tiles([(q, k, [band(n, window - 1, 0 if causal else window - 1)])], v, scale)


def _sdpa(
    q: Tensor, k: Tensor, v: Tensor, *, scale: float, causal: bool, mask: Tensor | None, dropout: float
) -> Tensor:
    grouped = k.shape[1] != q.shape[1]
    if grouped and mask is not None:
        # with a mask, several devices have only a slow path for grouped queries
        k, v, grouped = repeat_heads(k, q), repeat_heads(v, q), False
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal, scale=scale, enable_gqa=grouped
    )
