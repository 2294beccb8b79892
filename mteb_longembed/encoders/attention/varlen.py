"""Attention of documents that are packed one after another in one tensor, each over itself, with log-sum-exps."""

from __future__ import annotations

import torch
from torch import Tensor

from .devices import has_flash, varlen_kernel, varlen_options
from .kernels import attend
from .tiles import band_blocks

#: How far a token sees, to the left and to the right; -1 stands for no bound.
Window = tuple[int, int]
FULL: Window = (-1, -1)
CAUSAL: Window = (-1, 0)


def attend_varlen(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_q: Tensor,
    cu_k: Tensor,
    max_q: int,
    max_k: int,
    *,
    scale: float,
    window: Window = FULL,
) -> tuple[Tensor, Tensor]:
    """Softmax attention of each document's queries `[tokens, h, d]` over its own keys `[keys, hk, d]`.

    Without a kernel, documents run one after the other. This is slow, and it is the reference for the kernels.

    `cu_q` and `cu_k` `[documents + 1]` int32 say where each document's queries and keys start, and where the last one's
    end; `max_q` and `max_k` are those of the longest document; `hk` divides `h`. Token i sees keys
    `i - left` to `i + right` of `window`; windows other than `FULL` need as many keys as queries.

    Returns:
        `[tokens, h, d]` in q's dtype and `[tokens, h]` in float32 (float64 for float64 input). A row that sees nothing
        has -inf.
    """
    kernel = varlen_kernel()
    if kernel is None or not has_flash(q.device, q.dtype, q.shape[-1]):
        return _one_by_one(q, k, v, cu_q.tolist(), cu_k.tolist(), scale, window)
    from torch.nn.attention.varlen import AuxRequest

    options = varlen_options()
    if k.shape[1] != q.shape[1] and "enable_gqa" not in options:
        k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
    out, lse = kernel(
        q, k, v, cu_q, cu_k, max_q, max_k,
        return_aux=AuxRequest(lse=True), scale=scale, window_size=window, **options,
    )  # fmt: skip
    # FlashAttention returns [h, tokens], and +inf for rows without a key
    lse = lse.transpose(0, 1) if lse.shape == (q.shape[1], q.shape[0]) else lse
    return out, lse.masked_fill(lse == torch.inf, -torch.inf)


def _one_by_one(
    q: Tensor, k: Tensor, v: Tensor, cu_q: list[int], cu_k: list[int], scale: float, window: Window
) -> tuple[Tensor, Tensor]:
    """Each document separately, by the kernels that padded batches use."""
    out = torch.empty(*q.shape[:2], v.shape[-1], dtype=q.dtype, device=q.device)
    work = torch.promote_types(q.dtype, torch.float32)
    lse = torch.empty(q.shape[:2], dtype=work, device=q.device)
    for start_q, stop_q, start_k, stop_k in zip(cu_q, cu_q[1:], cu_k, cu_k[1:], strict=False):
        own = q[start_q:stop_q].transpose(0, 1)[None]
        keys, values = (x[start_k:stop_k].transpose(0, 1)[None] for x in (k, v))
        n = stop_q - start_q
        whole = slice(0, n), slice(0, stop_k - start_k), None
        left, right = (n if side < 0 else min(side, n) for side in window)
        blocks = [whole] if window in (FULL, CAUSAL) else band_blocks(n, left, right, q.device)
        for rows, cols, mask in blocks:
            k_seen, v_seen, causal = keys[:, :, cols], values[:, :, cols], window == CAUSAL
            found, found_lse = attend(own[:, :, rows], k_seen, v_seen, scale=scale, causal=causal, mask=mask)
            at = slice(start_q + rows.start, start_q + rows.stop)
            out[at], lse[at] = found[0].transpose(0, 1), found_lse[0].transpose(0, 1).to(work)
    return out, lse
