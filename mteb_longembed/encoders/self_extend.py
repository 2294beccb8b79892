"""SelfExtend inside attention: three ordinary attentions, merged by log-sum-exp, in O(n*d) memory.

Near tokens are a band with exact positions. All tokens at least a window before are a triangle in which queries and
keys are rotated to their grouped positions, and all tokens at least a window after are its mirror image.
"""

from collections.abc import Iterator

import torch
from torch import Tensor
from transformers.integrations.sdpa_attention import repeat_kv

from .devices import to_device

#: Maximum scores in memory without a kernel: 256 MiB in float32.
_SCORES = 2**26
#: Cosines and sines `[n, r/2]`.
CosSin = tuple[Tensor, Tensor]


def angles(to: Tensor, inv_freq: Tensor, device: torch.device) -> CosSin:
    """Return the cosines and sines that rotate token i from position i to `to[i]`; `to` `[n]` is on the host.

    The model computed its angle `i * inv_freq` in float32, with an error of 1e-3 rad at 32k tokens. Computing the
    difference to it in float64 removes the error.
    """
    # Apple's devices have no float64
    now = torch.arange(len(to)).float()[:, None] * inv_freq
    angle = to.double()[:, None] * inv_freq.double() - now.double()
    return to_device(angle.cos().float(), device), to_device(angle.sin().float(), device)


def turns_of(n: int, g: int, w: int, inv_freq: Tensor, device: torch.device) -> tuple[CosSin, CosSin]:
    """Return the angles to a token's position as the earlier and as the later token of a far pair."""
    grouped = torch.arange(n) // g
    return angles(grouped, inv_freq, device), angles(grouped + w - w // g, inv_freq, device)


def rotate(x: Tensor, by: CosSin) -> Tensor:
    """Rotate `x` `[b, h, n, d]` further; the two halves of its first r dimensions form the pairs."""
    work = torch.promote_types(x.dtype, torch.float32)
    cos, sin = (part.to(work) for part in by)
    pairs = cos.shape[-1]
    a = x[..., :pairs].to(work)
    b = x[..., pairs : 2 * pairs].to(work)
    out = torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1).to(x.dtype)
    return torch.cat([out, x[..., 2 * pairs :]], dim=-1)


def self_extend(
    q: Tensor, k: Tensor, v: Tensor, w: int, turns: tuple[CosSin, CosSin], *, scale: float, causal: bool
) -> Tensor:
    """Compute the attention of documents of one length, without padding: `[b, h, n, d]`.

    `q` `[b, h, n, d]` and `k` `[b, hk, n, d]` are rotated to positions 0..n-1; `v` is as `k`, and `hk` divides `h`.
    `w` is the window of exact positions in tokens, and `turns` are the result of `turns_of`.
    """
    n = q.shape[2]
    out, lse = attend_band(q, k, v, scale=scale, left=w - 1, right=0 if causal else w - 1)
    if w >= n:
        return out
    # kernels return half precision, which must not be rounded again at each merge
    out = out.to(lse.dtype)
    earlier, later = turns
    # token i, moved to its later position, over the tokens up to i - w at their earlier one
    queries = rotate(q, later)[:, :, w:]
    far = attend(queries, rotate(k, earlier)[:, :, :-w], v[:, :, :-w], scale=scale, causal=True)
    merged = merge(out[:, :, w:], lse[:, :, w:], *far)
    out = torch.cat([out[:, :, :w], merged[0]], dim=2)
    lse = torch.cat([lse[:, :, :w], merged[1]], dim=2)
    if not causal:
        # the mirror image: read backwards it is causal too
        backwards = (rotate(q, earlier)[:, :, :-w], rotate(k, later)[:, :, w:], v[:, :, w:])
        far = attend(*(x.flip(2) for x in backwards), scale=scale, causal=True)
        merged = merge(out[:, :, :-w], lse[:, :, :-w], far[0].flip(2), far[1].flip(2))
        out = torch.cat([merged[0], out[:, :, -w:]], dim=2)
    return out.to(v.dtype)


def bands(n: int, left: int, right: int, device: torch.device) -> Iterator[tuple[slice, slice, Tensor]]:
    """Yield blocks of rows, their keys, and which keys each row sees: row i of n sees keys i-left..i+right."""
    # small blocks score fewer unneeded keys, large blocks have less overhead
    size = max(64 if device.type == "cpu" else 512, min((left + right) // 8, 512))
    left = min(left, n - 1)
    right = min(right, n - 1)
    distance = torch.arange(size)[:, None] + left - torch.arange(left + size + right)
    seen = to_device((distance <= left) & (distance >= -right), device)
    for start in range(0, n, size):
        stop = min(start + size, n)
        keys = slice(max(start - left, 0), min(stop + right, n))
        # the columns of `seen` begin `left` tokens before the block
        first = keys.start - start + left
        yield slice(start, stop), keys, seen[: stop - start, first : first + keys.stop - keys.start]


def attend_band(
    q: Tensor, k: Tensor, v: Tensor, *, scale: float, left: int, right: int
) -> tuple[Tensor, Tensor]:
    """Attend with row i to keys i-left..i+right; return also each row's log-sum-exp, as `attend` does."""
    outs = []
    lses = []
    for rows, keys, seen in bands(q.shape[2], left, right, q.device):
        out, lse = attend(q[:, :, rows], k[:, :, keys], v[:, :, keys], scale=scale, mask=seen)
        outs.append(out)
        lses.append(lse)
    return torch.cat(outs, dim=2), torch.cat(lses, dim=2)


def attend(
    q: Tensor, k: Tensor, v: Tensor, *, scale: float, causal: bool = False, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Compute softmax attention of `q` over `k`, and each row's log-sum-exp. Both have gradients.

    On a CPU, torch's kernel returns both. All other cases are computed in blocks of rows.

    `q` is `[b, h, m, d]`, `k` and `v` are `[b, hk, n, d]`, and `hk` divides `h`. With `causal`, row i sees the keys up
    to i, and with a `mask` `[m, n]` the keys where it is True, at least one.

    Returns:
        `[b, h, m, d]` in q's dtype and `[b, h, m]` in float32 (float64 for float64 input).
    """
    work = torch.promote_types(q.dtype, torch.float32)
    # the log-sum-exps of the kernel have no gradients
    learns = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v))
    if q.device.type == "cpu" and v.shape[-1] == q.shape[-1] and not learns:
        bias = None
        if mask is not None:
            bias = torch.zeros(mask.shape, dtype=q.dtype).masked_fill(~mask, -torch.inf)
        kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        return kernel(q, k, v, 0.0, causal, attn_mask=bias, scale=scale)
    b, h, m, _ = q.shape
    k = repeat_kv(k, h // k.shape[1]).to(work)
    v = repeat_kv(v, h // v.shape[1]).to(work)
    columns = torch.arange(k.shape[2], device=q.device)
    outs = []
    lses = []
    for rows in torch.arange(m, device=q.device).split(max(_SCORES // (b * h * len(columns)), 1)):
        scores = (q[:, :, rows].to(work) @ k.transpose(-1, -2)) * scale
        if causal:
            scores = scores.masked_fill(columns > rows[:, None], -torch.inf)
        if mask is not None:
            scores = scores.masked_fill(~mask[rows], -torch.inf)
        lse = scores.logsumexp(-1)
        outs.append(((scores - lse[..., None]).exp() @ v).to(q.dtype))
        lses.append(lse)
    return torch.cat(outs, dim=2), torch.cat(lses, dim=2)


def merge(out: Tensor, lse: Tensor, other: Tensor, other_lse: Tensor) -> tuple[Tensor, Tensor]:
    """Merge attention of the same rows over both sets of keys: outputs `[..., n, d]`, log-sum-exps `[..., n]`.

    Source: Milakov & Gimelshein 2018 (arXiv:1805.02867).
    """
    both = torch.logaddexp(lse, other_lse)
    kept = out * (lse - both).exp()[..., None]
    return torch.addcmul(kept, other.to(out.dtype), (other_lse - both).exp()[..., None]), both
