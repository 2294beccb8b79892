"""How far two methods of computing the same numbers may differ: only by rounding, in whichever order sums are taken.

A sum of `terms` numbers is rounded once for each term. In another order (vector instructions, threads, kernels, packed
or padded) other numbers are rounded. The roundings go up and down, so the difference grows with the square root of
their number (Higham & Mary 2019, doi:10.1137/18M1226312), and not as in the worst case with the number itself.
"""

import math

import numpy as np
import torch
from torch import Tensor

#: How many times the expected difference is allowed. The largest of many numbers is further off than the average one.
ROOM = 4


def limit(terms: int, size: float = 1.0, *, sums: float = 1, dtype: torch.dtype = torch.float32) -> float:
    """The largest difference that rounding explains.

    Args:
        terms: how many numbers each sum has.
        size: the largest of the results, without sign.
        sums: how many sums follow one another on the way to a result.
        dtype: number type of the less exact side.
    """
    return ROOM * sums * math.sqrt(terms) * size * torch.finfo(dtype).eps / 2


def _numbers(x: np.ndarray | Tensor) -> np.ndarray:
    return x.detach().numpy() if isinstance(x, Tensor) else x


def same_vectors(got: np.ndarray | Tensor, want: np.ndarray | Tensor, layers: int = 2) -> None:
    """Two methods of computing the vectors of a small transformer agree."""
    got, want = _numbers(got), _numbers(want)
    gap = float(np.abs(got - want).max())
    # six matrix products follow one another in each layer
    allowed = limit(np.shape(want)[-1], float(np.abs(want).max()), sums=6 * layers)
    assert got.shape == want.shape and gap < allowed, f"{gap:.1e} apart, rounding explains {allowed:.1e}"


def same_attention(got: Tensor, want: Tensor, q: Tensor, k: Tensor, v: Tensor, scale: float, gradients=1):
    """Two methods of computing attention agree. `gradients`: how often a sum goes into another."""
    gap = float((got.double() - want.double()).abs().max())
    largest = scale * float(q.detach().norm(dim=-1).max() * k.detach().norm(dim=-1).max())
    size = float(v.detach().abs().max())
    # sums over the keys, and scores, whose error the exponential passes on
    allowed = gradients * (limit(k.shape[-2], size) + limit(q.shape[-1], size * largest))
    assert gap < allowed, f"{gap:.1e} apart, rounding explains {allowed:.1e}"
