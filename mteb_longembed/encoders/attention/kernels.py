"""Attention over one tile of the score matrix, with the log-sum-exp that is needed to merge tiles.

Each device has a kernel that returns (output, log-sum-exp) without storing the scores. `_math` computes the cases
without a kernel, a block of rows at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mteb_longembed.encoders.torch_parts import (
    efficient_attention,
    flash_attention,
    flash_attention_for_cpu,
    flash_attention_for_cpu_backward,
    flash_attention_in_band,
)

from .devices import has_efficient, has_flash

#: How many rows the path without a kernel scores at a time, so that its memory grows linearly with n.
_MATH_ROWS = 256


@dataclass(frozen=True, eq=False)
class TileScores:
    """How the scores of one tile are made.

    Args:
        scale: of the products of queries and keys.
        causal: whether row i sees only the keys up to i. It needs as many rows as keys.
        mask: `[m, n]` float32, 0 where row i sees key j and -inf elsewhere. Each row must see a key.
    """

    scale: float
    causal: bool = False
    mask: Tensor | None = None

    def mask_in(self, dtype: torch.dtype) -> Tensor | None:
        """The mask in another number type, None if all keys are seen."""
        if self.mask is None:
            return None
        return self.mask.to(dtype)

    def rows(self, q: Tensor, k: Tensor, start: int) -> Tensor:
        """The scores `[b, h, rows, n]` of the rows from `start` on, in float32 or float64.

        Args:
            q: `[b, h, rows, d]`, the queries of these rows.
            k: `[b, h, n, d]`.
            start: the first row.
        """
        work = torch.promote_types(q.dtype, torch.float32)
        scores = (q.to(work) @ k.to(work).transpose(-1, -2)) * self.scale
        if self.causal:
            rows = torch.arange(start, start + q.shape[2], device=q.device)
            hidden = torch.arange(k.shape[2], device=q.device) > rows[:, None]
            scores = scores.masked_fill(hidden, -torch.inf)
        if self.mask is not None:
            scores = scores + self.mask[start : start + q.shape[2]].to(scores.dtype)
        return scores


def attend(
    q: Tensor, k: Tensor, v: Tensor, *, scale: float, causal: bool = False, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Softmax attention of `q` over `k`, and the log-sum-exp of each row's scores.

    Args:
        q: `[b, h, m, d]`, rotated already.
        k: `[b, hk, n, d]`, and `hk` divides `h` (grouped queries).
        v: as `k`.
        scale: see `TileScores`.
        causal: see `TileScores`.
        mask: see `TileScores`.

    Returns:
        `[b, h, m, d]` in q's dtype and `[b, h, m]` in float32 (float64 for float64 input).
    """
    how = TileScores(scale, causal, mask)
    if q.device.type == "cpu" and v.shape[-1] == q.shape[-1]:
        return flash_attention_for_cpu(q, k, v, 0.0, causal, attn_mask=how.mask_in(q.dtype), scale=scale)
    if mask is None and has_flash(q.device, q.dtype, q.shape[-1]):
        return flash_attention(q, k, v, 0.0, causal, False, scale=scale)
    if mask is None and has_efficient(q.device, q.dtype):
        out, lse = efficient_attention(
            q, repeat_heads(k, q), repeat_heads(v, q), None, True, 0.0, causal, scale=scale
        )
        # this kernel pads the log-sum-exps to a multiple of 32 rows; we cut the padding off
        return out, lse[..., : q.shape[2]]
    return _math(q, k, v, how)


def attend_band(
    q: Tensor, k: Tensor, v: Tensor, *, scale: float, left: int, right: int
) -> tuple[Tensor, Tensor] | None:
    """Row i over keys i-left..i+right, in one call. None if the device has no windowed kernel.

    Args:
        q: `[b, h, n, d]`, rotated already.
        k: `[b, hk, n, d]`.
        v: as `k`.
        scale: of the scores.
        left: how many keys before its own a row sees.
        right: how many keys after its own a row sees.
    """
    if not has_flash(q.device, q.dtype, q.shape[-1]):
        return None
    n = q.shape[2]
    out, lse = flash_attention_in_band(
        q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), None, None, n, n, 0.0, False, False,
        scale=scale, window_size_left=left, window_size_right=right,
    )  # fmt: skip
    return out.transpose(1, 2), lse


def attend_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, how: TileScores
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of one tile's q, k and v, from the output and log-sum-exp merged over ALL tiles.

    A tile's probabilities are `exp(scores - lse)` with the merged log-sum-exp. So its part of the gradient needs
    nothing else from the other tiles.

    Args:
        grad: the gradient of the merged output.
        q: queries, keys and values of the tile, as in `attend`.
        k: see `q`.
        v: see `q`.
        out: the output, merged over all tiles.
        lse: the log-sum-exp of each row, merged over all tiles.
        how: how the scores of the tile were made.
    """
    if q.device.type == "cpu" and k.shape[1] == q.shape[1] and v.shape[-1] == q.shape[-1]:
        return flash_attention_for_cpu_backward(
            grad, q, k, v, out, lse, 0.0, how.causal, attn_mask=how.mask_in(q.dtype), scale=how.scale
        )
    return _math_backward(grad, q, k, v, out, lse, how)


def repeat_heads(x: Tensor, q: Tensor) -> Tensor:
    """`x` `[b, hk, n, d]` with each head repeated until it has as many heads as `q`."""
    groups = q.shape[1] // x.shape[1]
    if groups == 1:
        return x
    return x.repeat_interleave(groups, dim=1)


def _math(q: Tensor, k: Tensor, v: Tensor, how: TileScores) -> tuple[Tensor, Tensor]:
    """As `attend`, a block of rows at a time."""
    k = repeat_heads(k, q)
    v = repeat_heads(v, q)
    outs = []
    lses = []
    for start in range(0, q.shape[2], _MATH_ROWS):
        scores = how.rows(q[:, :, start : start + _MATH_ROWS], k, start)
        lse = scores.logsumexp(-1)
        outs.append(((scores - lse[..., None]).exp() @ v.to(scores.dtype)).to(q.dtype))
        lses.append(lse)
    return torch.cat(outs, dim=2), torch.cat(lses, dim=2)


def _math_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, how: TileScores
) -> tuple[Tensor, Tensor, Tensor]:
    """As `attend_backward`, a block of rows at a time."""
    kv_heads = k.shape[1]
    work = torch.promote_types(q.dtype, torch.float32)
    keys = repeat_heads(k, q)
    values = repeat_heads(v, q).to(work)
    grad_q = torch.empty_like(q)
    grad_k = torch.zeros_like(keys, dtype=work)
    grad_v = torch.zeros_like(values)
    for start in range(0, q.shape[2], _MATH_ROWS):
        rows = slice(start, start + _MATH_ROWS)
        probs = (how.rows(q[:, :, rows], keys, start) - lse[:, :, rows, None]).exp()
        g = grad[:, :, rows].to(work)
        delta = (g * out[:, :, rows].to(work)).sum(-1, keepdim=True)
        d_scores = probs * (g @ values.transpose(-1, -2) - delta) * how.scale
        grad_q[:, :, rows] = (d_scores @ keys.to(work)).to(q.dtype)
        grad_k += d_scores.transpose(-1, -2) @ q[:, :, rows].to(work)
        grad_v += probs.transpose(-1, -2) @ g
    if q.shape[1] != kv_heads:
        grad_k = grad_k.unflatten(1, (kv_heads, -1)).sum(2)
        grad_v = grad_v.unflatten(1, (kv_heads, -1)).sum(2)
    return grad_q, grad_k.to(k.dtype), grad_v.to(v.dtype)
