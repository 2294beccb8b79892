"""The plans of dual chunk attention, SelfExtend and ReRoPE: exact positions near a token, limited ones far from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from .plan import Pass, Plan
from .tiles import Tile, at_least_after, at_least_before, band


@dataclass(frozen=True)
class DualChunkPlan(Plan):
    """Distances of dual chunk attention, for the tokens i and j of one document.

    Let `i > j`, and let `a` and `b` be the places of i and j in their chunks. The distance is `a - b` in the same
    chunk, `min(chunk + a, limit) - b` if j is in the chunk before, and `limit - b` if j is further back.

    The keys further back are a staircase: a token sees the chunks up to the second before its own. Most of it is one
    triangle over the whole document, the tokens at least `2 * chunk` before. What is missing are small triangles, one
    for each chunk, in the second chunk before it. So no call holds a key more than once.

    Args:
        chunk: tokens of a chunk.
        limit: the largest relative position, below the trained length.
    """

    chunk: int
    limit: int

    def passes(self, n: int, *, causal: bool) -> list[Pass]:
        size = self.chunk
        place = torch.arange(n) % size
        succeeding = (size + place).clamp(max=self.limit)
        far = torch.full((n,), self.limit)
        chunks = [slice(start, min(start + size, n)) for start in range(0, n, size)]
        inside = [Tile(c, c, "lower" if causal else "full") for c in chunks]
        before = [Tile(c, chunks[m - 1], "full") for m, c in enumerate(chunks) if m >= 1]
        long_before = at_least_before(n, 2 * size) + [tile for c in chunks[2:] for tile in _corner(c, size)]
        passes = [Pass(inside), Pass(before, succeeding, place), Pass(long_before, far, place)]
        if not causal:
            # the mirror image: the distance that j has to i, with the opposite sign
            passes += [Pass(_mirrored(before), place, succeeding), Pass(_mirrored(long_before), place, far)]
        return passes


def _corner(chunk: slice, size: int) -> list[Tile]:
    """Token a of a chunk over the tokens after a in the second chunk before it."""
    first, n = chunk.start - 2 * size, chunk.stop - chunk.start
    side = min(n, size - 1)
    tiles = [Tile(slice(chunk.start, chunk.start + side), slice(first + 1, first + 1 + side), "upper")]
    if side + 1 < size:  # the last chunk is not full
        tiles.append(Tile(chunk, slice(first + 1 + side, first + size), "full"))
    return [tile for tile in tiles if side]


def _mirrored(tiles: list[Tile]) -> list[Tile]:
    shapes: dict[str, Literal["full", "lower", "upper"]]
    shapes = {"full": "full", "lower": "upper", "upper": "lower"}
    return [Tile(tile.cols, tile.rows, shapes[tile.shape]) for tile in tiles]


def _near_and_far(n: int, window: int, earlier: Tensor, later: Tensor, *, causal: bool) -> list[Pass]:
    """Exact positions within the window. Outside it, the later token of a pair is at `later`, the other `earlier`."""
    near = Pass([band(n, window - 1, 0 if causal else window - 1)])
    passes = [near, Pass(at_least_before(n, window), later, earlier)]
    return passes if causal else [*passes, Pass(at_least_after(n, window), earlier, later)]


@dataclass(frozen=True)
class SelfExtendPlan(Plan):
    """`i - j` within the window `w`, otherwise `i//g - j//g` (groups of g), moved away from 0 by `c = w - w//g`."""

    group: int
    window: int

    def passes(self, n: int, *, causal: bool) -> list[Pass]:
        g, w = self.group, self.window
        grouped = torch.arange(n) // g
        return _near_and_far(n, w, grouped, grouped + (w - w // g), causal=causal)


@dataclass(frozen=True)
class DocumentSelfExtendPlan(Plan):
    """`SelfExtendPlan` with `g` and `w` that depend on the length of each document."""

    sizes: Callable[[int], tuple[int, int]]

    def passes(self, n: int, *, causal: bool) -> list[Pass]:
        return SelfExtendPlan(*self.sizes(n)).passes(n, causal=causal)


@dataclass(frozen=True)
class ReRoPEPlan(Plan):
    """`i - j` within the window, otherwise the width of the window."""

    window: int

    def passes(self, n: int, *, causal: bool) -> list[Pass]:
        here = torch.zeros(n, dtype=torch.long)
        return _near_and_far(n, self.window, here, here + self.window, causal=causal)
