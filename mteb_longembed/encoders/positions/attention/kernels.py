"""Attention with the log-sum-exp of each row's scores, with which attentions over different keys are merged.

Where a device has a kernel that gives both, it runs. `_in_blocks` computes all other cases, a block of rows at a time.
"""

import torch
from torch import Tensor
from torch.backends.cuda import SDPAParams, can_use_efficient_attention, can_use_flash_attention
from torch.utils.checkpoint import checkpoint

#: How many scores the path without a kernel has in memory at a time: 256 MiB in float32.
_SCORES = 2**26


def attend(
    q: Tensor, k: Tensor, v: Tensor, *, scale: float, causal: bool = False, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Softmax attention of `q` over `k`, and the log-sum-exp of each row's scores. Both have gradients.

    Args:
        q: `[b, h, m, d]`, rotated already.
        k: `[b, hk, n, d]`, and `hk` divides `h` (grouped queries).
        v: as `k`.
        scale: of the products of queries and keys.
        causal: whether row i sees only the keys up to i. It needs as many rows as keys.
        mask: `[m, n]` float32, 0 where row i sees key j and -inf elsewhere. Each row must see a key.

    Returns:
        `[b, h, m, d]` in q's dtype and `[b, h, m]` in float32 (float64 for float64 input).
    """
    # the kernels' log-sum-exps have no gradients
    if not learns(q, k, v):
        if q.device.type == "cpu" and v.shape[-1] == q.shape[-1]:
            bias = None if mask is None else mask.to(q.dtype)
            kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
            return kernel(q, k, v, 0.0, causal, attn_mask=bias, scale=scale)
        if q.device.type == "cuda" and mask is None:
            found = _on_cuda(q, repeat_heads(k, q), repeat_heads(v, q), scale, causal=causal)
            if found is not None:
                return found
    return _in_blocks(q, repeat_heads(k, q), repeat_heads(v, q), scale, causal=causal, mask=mask)


def merge(out: Tensor, lse: Tensor, other: Tensor, other_lse: Tensor) -> tuple[Tensor, Tensor]:
    """Attention of the same rows over the keys of both: outputs `[..., n, d]` and log-sum-exps `[..., n]`.

    Source: the rule for merging is from Milakov & Gimelshein 2018 (arXiv:1805.02867).
    """
    both = torch.logaddexp(lse, other_lse)
    kept = out * (lse - both).exp()[..., None]
    return torch.addcmul(kept, other, (other_lse - both).exp()[..., None]), both


def learns(*tensors: Tensor) -> bool:
    """Whether gradients of any of the tensors will be asked for."""
    return torch.is_grad_enabled() and any(x.requires_grad for x in tensors)


def repeat_heads(x: Tensor, q: Tensor) -> Tensor:
    """`x` `[b, hk, n, d]` with each head repeated until it has as many heads as `q`."""
    groups = q.shape[1] // x.shape[1]
    if groups == 1:
        return x
    return x.repeat_interleave(groups, dim=1)


def _on_cuda(q: Tensor, k: Tensor, v: Tensor, scale: float, *, causal: bool) -> tuple[Tensor, Tensor] | None:
    """As `attend`, by FlashAttention or the memory-efficient kernel. None where torch takes neither."""
    given = SDPAParams(q, k, v, None, 0.0, causal, False)
    # torch pads other widths before it calls this kernel
    if q.shape[-1] % 8 == 0 and can_use_flash_attention(given):
        out, lse, *_ = torch.ops.aten._scaled_dot_product_flash_attention(
            q, k, v, 0.0, causal, False, scale=scale
        )
        return out, lse
    if can_use_efficient_attention(given):
        out, lse, *_ = torch.ops.aten._scaled_dot_product_efficient_attention(
            q, k, v, None, True, 0.0, causal, scale=scale
        )
        # this kernel pads the log-sum-exps to a multiple of 32 rows; we cut the padding off
        return out, lse[..., : q.shape[2]]
    return None


def _in_blocks(
    q: Tensor, k: Tensor, v: Tensor, scale: float, *, causal: bool, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """As `attend`, a block of rows at a time, which runs again for its gradients: memory grows linearly with n."""
    b, h, m, _ = q.shape
    rows = max(_SCORES // (b * h * k.shape[2]), 1)
    outs = []
    lses = []
    for start in range(0, m, rows):
        part = q[:, :, start : start + rows]
        seen = None if mask is None else mask[start : start + rows]
        if learns(q, k, v):
            out, lse = checkpoint(_block, part, k, v, scale, start, causal, seen, use_reentrant=False)
        else:
            out, lse = _block(part, k, v, scale, start, causal, seen)
        outs.append(out)
        lses.append(lse)
    return torch.cat(outs, dim=2), torch.cat(lses, dim=2)


def _block(
    q: Tensor, k: Tensor, v: Tensor, scale: float, start: int, causal: bool, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The rows from `start` on, with their scores in float32 or float64."""
    work = torch.promote_types(q.dtype, torch.float32)
    scores = (q.to(work) @ k.to(work).transpose(-1, -2)) * scale
    if causal:
        rows = torch.arange(start, start + q.shape[2], device=q.device)
        hidden = torch.arange(k.shape[2], device=q.device) > rows[:, None]
        scores = scores.masked_fill(hidden, -torch.inf)
    if mask is not None:
        scores = scores + mask.to(work)
    lse = scores.logsumexp(-1)
    return ((scores - lse[..., None]).exp() @ v.to(work)).to(q.dtype), lse
