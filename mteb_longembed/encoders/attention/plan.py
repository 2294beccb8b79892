"""Plans: the relative position of each pair of tokens, in a few passes that ordinary kernels can run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from .context import current
from .kernels import repeat_heads
from .merge import attend_tiles
from .rotation import CosSin, Rotation
from .tiles import Tile, at_least_before, band


class Pass(NamedTuple):
    """Tiles in which token i sees token j at the relative position `query_at[i] - key_at[j]`.

    None stands for the token's own position. Positions are `[n]` and may be fractions.
    """

    tiles: list[Tile]
    query_at: Tensor | None = None
    key_at: Tensor | None = None


class Plan:
    """Relative positions of long documents, as passes. Their tiles cover each visible pair of tokens once."""

    def passes(self, n: int, *, causal: bool) -> list[Pass]:
        """The passes over one document of `n` tokens, on the CPU. If causal, token i sees only tokens 0..i."""
        raise NotImplementedError

    def relative(self, rows: slice, n: int, *, causal: bool = False) -> Tensor:
        """Relative positions of some rows as a full matrix `[rows, n]`. They are 0 where a row does not see a token."""
        out = torch.zeros(rows.stop - rows.start, n)
        tokens = torch.arange(n)
        for tiles, query_at, key_at in self.passes(n, causal=causal):
            i, j = (tokens if at is None else at for at in (query_at, key_at))
            for tile in tiles:
                first = max(rows.start, tile.rows.start)
                last = min(rows.stop, tile.rows.stop)
                if first >= last:
                    continue
                block = out[first - rows.start : last - rows.start, tile.cols]
                block.copy_(torch.where(
                    tile.shows(tokens[first:last, None], tokens[tile.cols]), i[first:last, None] - j[tile.cols],
                    block
                ))  # fmt: skip
        return out


@dataclass(frozen=True)
class DualChunkPlan(Plan):
    """Distances of dual chunk attention, as `strategies/dca.py` defines them.

    The keys before the chunk before are a staircase. Most of it is one triangle over the whole document, the tokens
    at least `2 * chunk` before. What is missing are small triangles, one for each chunk, in the second chunk before it.
    So no call holds a key more than once.
    """

    chunk: int
    limit: int

    def passes(self, n: int, *, causal: bool) -> list[Pass]:
        size = self.chunk
        offset = torch.arange(n) % size
        succeeding = (size + offset).clamp(max=self.limit)
        far = torch.full((n,), self.limit)
        chunks = [slice(start, min(start + size, n)) for start in range(0, n, size)]
        inside = [Tile(c, c, "lower" if causal else "full") for c in chunks]
        previous = [Tile(c, chunks[m - 1], "full") for m, c in enumerate(chunks) if m >= 1]
        earlier = at_least_before(n, 2 * size) + [tile for c in chunks[2:] for tile in _corner(c, size)]
        passes = [Pass(inside), Pass(previous, succeeding, offset), Pass(earlier, far, offset)]
        if not causal:
            # the mirror image: the distance that j has to i, with the opposite sign
            passes += [Pass(_mirrored(previous), offset, succeeding), Pass(_mirrored(earlier), offset, far)]
        return passes


def _corner(chunk: slice, size: int) -> list[Tile]:
    """Token a of a chunk over the tokens after a in the second chunk before it."""
    first = chunk.start - 2 * size
    n = chunk.stop - chunk.start
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
    near = band(n, window - 1, 0 if causal else window - 1)
    before = at_least_before(n, window)
    passes = [Pass([near]), Pass(before, later, earlier)]
    if causal:
        return passes
    return [*passes, Pass(_mirrored(before), earlier, later)]


@dataclass(frozen=True)
class SelfExtendPlan(Plan):
    """Positions as `strategies/se.py` defines them. `sizes` gives `g` and `w` of a document of n tokens."""

    sizes: Callable[[int], tuple[int, int]]

    def passes(self, n: int, *, causal: bool) -> list[Pass]:
        g, w = self.sizes(n)
        grouped = torch.arange(n) // g
        return _near_and_far(n, w, grouped, grouped + (w - w // g), causal=causal)


@dataclass(frozen=True)
class ReRoPEPlan(Plan):
    """`i - j` within the window, otherwise the width of the window."""

    window: int

    def passes(self, n: int, *, causal: bool) -> list[Pass]:
        here = torch.zeros(n, dtype=torch.long)
        return _near_and_far(n, self.window, here, here + self.window, causal=causal)


@dataclass
class RelativePositionAttention:
    """Runs a plan on rotated queries and keys.

    Args:
        plan: the passes over a document, and the positions in each.
        rotation: how the model rotates queries and keys.
    """

    plan: Plan
    rotation: Rotation

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, *, scale: float, causal: bool) -> Tensor:
        """Attention of documents of one length, without padding: `[b, h, n, d]`.

        `q` `[b, h, n, d]` and `k` `[b, hk, n, d]` are rotated to positions 0..n-1; `v` is as `k`, and `hk` divides `h`.
        """
        if q.requires_grad:
            k = repeat_heads(k, q)
            v = repeat_heads(v, q)
        n = q.shape[2]
        turn = self.rotation.turn

        def make() -> list[tuple[list[Tile], CosSin | None, CosSin | None]]:
            passes = self.plan.passes(n, causal=causal)
            return [(p.tiles, turn(p.query_at, q.device), turn(p.key_at, q.device)) for p in passes]

        documents = current()  # all layers share the turns
        if documents is None:
            turns = make()
        else:
            turns = documents.cached((id(self), n, causal), make)
        rotate = self.rotation.apply
        passes = [(rotate(q, of_q), rotate(k, of_k), tiles) for tiles, of_q, of_k in turns]
        return attend_tiles(passes, v, scale)
