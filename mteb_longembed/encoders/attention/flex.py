"""Attention with a bias for each distance, in FlexAttention: no bias of size n x n is ever made."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


@functools.cache
def compiled() -> Callable[..., Any]:
    """FlexAttention as one kernel, compiled for any length at its first call."""
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention, dynamic=True)


def attend_biased(q: Tensor, k: Tensor, v: Tensor, table: Tensor, place: Tensor, *, scale: float) -> Tensor:
    """Softmax attention in which token i sees token j with a bias for the distance of their places.

    Args:
        q: `[b, h, n, d]`.
        k: `[b, h, n, d]`.
        v: `[b, h, n, d]`.
        table: `[h, 2 m + 1]` biases of the distances -m to m.
        place: `[n]` whole places, at most m apart from one another.
        scale: what the scores are multiplied by before the bias is added.

    Returns:
        `[b, h, n, d]`.
    """
    middle = table.shape[1] // 2

    def biased(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return score + table[h, place[j] - place[i] + middle]

    out: Tensor = compiled()(q, k, v, score_mod=biased, scale=scale)
    return out
