"""Dual chunk attention: exact positions inside a token's chunk, bounded positions in all other chunks."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .plan import Pass, Plan
from .tiles import Tile


@dataclass(frozen=True)
class DualChunkPlan(Plan):
    """Distances of dual chunk attention, for the tokens i and j of one document.

    Let `i > j`, and let `a` and `b` be the places of i and j in their chunks. The distance is `a - b` in the same
    chunk, `min(chunk + a, limit) - b` if j is in the chunk before, and `limit - b` if j is further back.

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
        long_before = [Tile(c, slice(0, chunks[m - 1].start), "full") for m, c in enumerate(chunks) if m >= 2]
        passes = [Pass(inside), Pass(before, succeeding, place), Pass(long_before, far, place)]
        if not causal:
            # the mirror image: the distance that j has to i, with the opposite sign
            after = [Tile(chunks[m - 1], c, "full") for m, c in enumerate(chunks) if m >= 1]
            long_after = [
                Tile(slice(0, chunks[m - 1].start), c, "full") for m, c in enumerate(chunks) if m >= 2
            ]
            passes += [Pass(after, place, succeeding), Pass(long_after, place, far)]
        return passes
