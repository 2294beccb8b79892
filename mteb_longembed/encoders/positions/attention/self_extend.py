"""SelfExtend inside attention: three ordinary attentions, merged by log-sum-exp, in O(n*d) memory.

Near tokens are a band with exact positions. All tokens at least a window before are a triangle in which queries and
keys are rotated to their grouped positions, and all tokens at least a window after are its mirror image.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from .band import attend_band
from .kernels import attend, merge
from .lengths import current
from .rotation import CosSin, Rotation


@dataclass(eq=False)
class SelfExtendAttention:
    """Attention with the relative positions that `strategies/se.py` defines.

    Args:
        sizes: gives the group size `g` and the window `w` of a document of n tokens.
        rotation: how the model rotates queries and keys.
    """

    sizes: Callable[[int], tuple[int, int]]
    rotation: Rotation

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, *, scale: float, causal: bool) -> Tensor:
        """Attention of documents of one length, without padding: `[b, h, n, d]`.

        `q` `[b, h, n, d]` and `k` `[b, hk, n, d]` are rotated to positions 0..n-1; `v` is as `k`, and `hk` divides `h`.
        """
        n = q.shape[2]
        _, w = self.sizes(n)
        after = 0 if causal else w - 1
        out, lse = attend_band(q, k, v, scale=scale, left=w - 1, right=after)
        if w >= n:
            return out
        # kernels give half precision, which must not be rounded once more for each merge
        out = out.to(lse.dtype)
        earlier, later = self._angles(n, q.device)
        rotate = self.rotation.rotate
        # token i, moved to its later position, over the tokens up to i - w at their earlier one
        far = attend(
            rotate(q, later)[:, :, w:], rotate(k, earlier)[:, :, :-w], v[:, :, :-w], scale=scale, causal=True
        )
        merged, merged_lse = merge(out[:, :, w:], lse[:, :, w:], far[0].to(out.dtype), far[1])
        out = torch.cat([out[:, :, :w], merged], dim=2)
        lse = torch.cat([lse[:, :, :w], merged_lse], dim=2)
        if not causal:
            # the mirror image: read backwards it is causal too
            queries = rotate(q, earlier)[:, :, :-w].flip(2)
            keys = rotate(k, later)[:, :, w:].flip(2)
            far = attend(queries, keys, v[:, :, w:].flip(2), scale=scale, causal=True)
            merged, _ = merge(out[:, :, :-w], lse[:, :, :-w], far[0].flip(2).to(out.dtype), far[1].flip(2))
            out = torch.cat([merged, out[:, :, -w:]], dim=2)
        return out.to(v.dtype)

    def _angles(self, n: int, device: torch.device) -> tuple[CosSin, CosSin]:
        """The angles to a token's position where it is the earlier one of a pair, and where it is the later one."""

        def make() -> tuple[CosSin, CosSin]:
            g, w = self.sizes(n)
            grouped = torch.arange(n) // g
            moved = grouped + (w - w // g)
            return self.rotation.angles(grouped, device), self.rotation.angles(moved, device)

        lengths = current()
        if lengths is None:
            return make()
        return lengths.cached((id(self), n), make)  # all layers share them
