"""A plan: the relative position of each pair of tokens, in a few passes that ordinary kernels can run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from .kernels import repeat_heads
from .merge import attend_tiles
from .rotation import Rotation
from .tiles import Tile


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
        own = torch.arange(n)
        for tiles, query_at, key_at in self.passes(n, causal=causal):
            i, j = (own if at is None else at for at in (query_at, key_at))
            for tile in tiles:
                first, last = max(rows.start, tile.rows.start), min(rows.stop, tile.rows.stop)
                if first >= last:
                    continue
                block = out[first - rows.start : last - rows.start, tile.cols]
                block.copy_(torch.where(
                    tile.shows(own[first:last, None], own[tile.cols]), i[first:last, None] - j[tile.cols],
                    block
                ))  # fmt: skip
        return out


@dataclass
class PlannedAttention:
    """Runs a plan on rotated queries and keys. All layers share the tables, which are kept for the last few lengths."""

    plan: Plan
    rotation: Rotation
    _tables: dict[tuple[int, bool, str], list[_Turned]] = field(default_factory=dict, repr=False)

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, *, scale: float, causal: bool) -> Tensor:
        """Attention of documents of one length, without padding: `[b, h, n, d]`.

        `q` `[b, h, n, d]` and `k` `[b, hk, n, d]` are rotated to positions 0..n-1; `v` is as `k`, and `hk` divides `h`.
        """
        if q.requires_grad:
            k, v = repeat_heads(k, q), repeat_heads(v, q)
        work = []
        for tiles, query_turn, key_turn in self._turns(q.shape[2], causal, q.device):
            turned_q = q if query_turn is None else self.rotation.apply(q, query_turn)
            turned_k = k if key_turn is None else self.rotation.apply(k, key_turn)
            work.append((turned_q, turned_k, tiles))
        return attend_tiles(work, v, scale)

    def _turns(self, n: int, causal: bool, device: torch.device) -> list[_Turned]:
        key = (n, causal, str(device))
        if key not in self._tables:
            while len(self._tables) >= 4:
                self._tables.pop(next(iter(self._tables)), None)
            # `encode` must make ordinary tensors too, because a later training needs them for its gradients
            with torch.inference_mode(False):
                self._tables[key] = [
                    (p.tiles, self._turn(p.query_at, device), self._turn(p.key_at, device))
                    for p in self.plan.passes(n, causal=causal)
                ]
        return self._tables[key]

    def _turn(self, at: Tensor | None, device: torch.device) -> _Turn:
        return None if at is None else self.rotation.turn(at, device)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_tables": {}}


_Turn = tuple[Tensor, Tensor] | None
_Turned = tuple[list[Tile], _Turn, _Turn]
