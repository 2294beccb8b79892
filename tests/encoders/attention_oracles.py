"""Slow attention in float64: every pair of tokens, relative positions from their definitions."""

from collections.abc import Callable

import torch
from torch import Tensor

#: (i, j) -> the relative position at which token i sees token j
Relative = Callable[[int, int], float]


def self_extend(g: int, w: int) -> Relative:
    def relative(i: int, j: int) -> int:
        if abs(i - j) < w:
            return i - j
        shift = w - w // g
        return i // g - j // g + (shift if i > j else -shift)

    return relative


def matrix(relative: Relative, n: int) -> Tensor:
    return torch.tensor([[float(relative(i, j)) for j in range(n)] for i in range(n)], dtype=torch.float64)


def rotated(x: Tensor, by: Tensor, inv_freq: Tensor) -> Tensor:
    """x `[..., d]` rotated by positions `by` `[...]`, in pairs of dimensions `i` and `i + d/2`."""
    angle = by[..., None] * inv_freq
    a, b = x.chunk(2, -1)
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


def attention(
    q: Tensor, k: Tensor, v: Tensor, relative: Relative, inv_freq: Tensor, scale: float, causal: bool
) -> Tensor:
    """Unrotated q `[b, h, n, d]`, k and v `[b, hk, n, d]`, all float64."""
    n, groups = q.shape[2], q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    moved = rotated(q[:, :, :, None], matrix(relative, n), inv_freq.double())
    scores = (moved * k[:, :, None]).sum(-1) * scale
    if causal:
        scores = scores.masked_fill(~torch.ones(n, n).tril().bool(), -torch.inf)
    return scores.softmax(-1) @ v
