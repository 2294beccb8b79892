"""Attention over disjoint tiles, merged by log-sum-exp, forward and backward in O(n*d) memory.

Source: the rule for merging is from Milakov & Gimelshein 2018 (arXiv:1805.02867). It is used for tiles as in
    FlashAttention (Dao et al. 2022, arXiv:2205.14135).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from .kernels import TileScores, attend, attend_backward, attend_band
from .tiles import Tile, band_blocks, band_interior


def merge_(out: Tensor, lse: Tensor, other: Tensor, other_lse: Tensor) -> None:
    """Merge the attention `other` of the same rows over other keys into `out` and `lse`, in place.

    `out` `[..., n, d]` is in float32 or float64. `lse` `[..., n]` is -inf for a row that saw no key.
    """
    both = torch.logaddexp(lse, other_lse)
    # a row that saw no key on both sides must keep its zeros, because -inf minus -inf is not a number
    seen = both.masked_fill(both == -torch.inf, 0)
    out.mul_((lse - seen).exp_()[..., None])
    out.addcmul_(other.to(out.dtype), (other_lse - seen).exp_()[..., None].to(out.dtype))
    lse.copy_(both)


def attend_tiles(passes: Sequence[tuple[Tensor, Tensor, Sequence[Tile]]], v: Tensor, scale: float) -> Tensor:
    """One softmax over all tiles of all passes: `[b, h, n, d]` in v's dtype, zeros in rows that no tile covers.

    A pass has queries `[b, h, n, d]` and keys `[b, hk, n, d]`, rotated for it, and its tiles. The tiles of all passes
    must be disjoint. `v` is `[b, hk, n, d]`.
    """
    tiles = [list(p[2]) for p in passes]
    return _MergedAttention.apply(tiles, scale, v, *(x for q, k, _ in passes for x in (q, k)))


def _calls(tile: Tile, device: torch.device) -> Iterator[tuple[slice, slice, bool, Tensor | None, bool]]:
    """Rows, columns, causal, mask and flipped of the kernel calls that cover a tile."""
    if tile.shape == "band":
        for rows, cols, mask in band_blocks(tile.rows.stop, tile.left, tile.right, device):
            yield rows, cols, False, mask, False
    else:
        yield tile.rows, tile.cols, tile.shape != "full", None, tile.shape == "upper"


def _take(x: Tensor, at: slice, flipped: bool) -> Tensor:
    if flipped:
        return x[:, :, at].flip(2)
    return x[:, :, at]


class _MergedAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tiles: list[list[Tile]], scale: float, v: Tensor, *qk: Tensor) -> Tensor:
        q = qk[0]
        work = torch.promote_types(v.dtype, torch.float32)
        out = torch.zeros(*q.shape[:3], v.shape[-1], dtype=work, device=q.device)
        lse = torch.full(q.shape[:3], -torch.inf, dtype=work, device=q.device)
        for covered, q, k in zip(tiles, qk[::2], qk[1::2], strict=True):
            for tile in covered:
                for rows, part, part_lse in _attended(q, k, v, tile, scale):
                    merge_(out[:, :, rows], lse[:, :, rows], part, part_lse.to(work))
        merged = out.to(v.dtype)
        ctx.tiles = tiles
        ctx.scale = scale
        ctx.save_for_backward(v, merged, lse, *qk)
        return merged

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        v, out, lse, *qk = ctx.saved_tensors
        grad_v = torch.zeros_like(v)
        grad_qk = [torch.zeros_like(x) for x in qk]
        columns = qk[::2], qk[1::2], grad_qk[::2], grad_qk[1::2]
        for tiles, q, k, grad_q, grad_k in zip(ctx.tiles, *columns, strict=True):
            for tile in tiles:
                for rows, cols, causal, mask, flipped in _calls(tile, q.device):
                    gradients = attend_backward(
                        _take(grad, rows, flipped), _take(q, rows, flipped), _take(k, cols, flipped),
                        _take(v, cols, flipped), _take(out, rows, flipped), _take(lse, rows, flipped),
                        TileScores(ctx.scale, causal, mask),
                    )  # fmt: skip
                    totals = (grad_q, rows), (grad_k, cols), (grad_v, cols)
                    for (total, at), part in zip(totals, gradients, strict=True):
                        total[:, :, at] += part.flip(2) if flipped else part
        return None, None, grad_v, *grad_qk


def _attended(
    q: Tensor, k: Tensor, v: Tensor, tile: Tile, scale: float
) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """The rows of a tile with their attention and log-sum-exps, a band in as few calls as the device allows."""
    if tile.shape != "band":
        [(rows, cols, causal, _, flipped)] = _calls(tile, q.device)
        queries = _take(q, rows, flipped)
        keys = _take(k, cols, flipped)
        values = _take(v, cols, flipped)
        out, lse = attend(queries, keys, values, scale=scale, causal=causal)
        yield rows, *((out.flip(2), lse.flip(2)) if flipped else (out, lse))
        return
    in_one_call = attend_band(q, k, v, scale=scale, left=tile.left, right=tile.right)
    if in_one_call is not None:
        yield tile.rows, *in_one_call
        return
    n = tile.rows.stop
    inner = band_interior(n, tile.left, tile.right, q.device)
    for rows, cols, mask in band_blocks(n, tile.left, tile.right, q.device):
        if inner is None or not inner[0].start <= rows.start < inner[0].stop:
            yield rows, *attend(q[:, :, rows], k[:, :, cols], v[:, :, cols], scale=scale, mask=mask)
    if inner is None:
        return
    rows, size, mask = inner
    seen = slice(rows.start - tile.left, rows.stop + tile.right)
    outs = []
    lses = []
    for one in range(len(q)):
        # [h, n, d] -> [blocks, h, size, d]: views, which are possible because there is only one document
        blocks = q[one, :, rows].unflatten(1, (-1, size)).transpose(0, 1)
        keys, values = (
            x[one, :, seen].unfold(1, size + tile.left + tile.right, size).permute(1, 0, 3, 2) for x in (k, v)
        )
        out, lse = attend(blocks, keys, values, scale=scale, mask=mask)
        outs.append(out.transpose(0, 1).flatten(1, 2))
        lses.append(lse.transpose(0, 1).flatten(1, 2))
    yield rows, torch.stack(outs), torch.stack(lses)
