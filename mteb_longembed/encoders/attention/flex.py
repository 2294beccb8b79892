"""Attention with a bias for each distance, by FlexAttention. No bias of size n x n is ever stored."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


@functools.cache
def compiled() -> Callable[..., Any]:
    """FlexAttention as one kernel. The first call compiles it for all lengths."""
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention, dynamic=True)


def attend_biased(q: Tensor, k: Tensor, v: Tensor, table: Tensor, place: Tensor, *, scale: float) -> Tensor:
    """Softmax attention with a bias: token i sees token j with the bias of the distance between their positions.

    Args:
        q: `[b, h, n, d]`.
        k: `[b, h, n, d]`.
        v: `[b, h, n, d]`.
        table: `[h, 2 m + 1]` biases of the distances -m to m.
        place: `[n]` integer positions. Two of them are at most m apart.
        scale: factor of the scores, before the bias is added.

    Returns:
        `[b, h, n, d]`.
    """
    middle = table.shape[1] // 2

    def biased(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return score + table[h, place[j] - place[i] + middle]

    out: Tensor = compiled()(q, k, v, score_mod=biased, scale=scale)
    return out
