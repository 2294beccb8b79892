"""SelfExtend and ReRoPE: exact positions for near tokens, shared or capped ones for far tokens, in three passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from .plan import Pass, Plan
from .tiles import at_least_after, at_least_before, band


@dataclass(frozen=True)
class SelfExtendPlan(Plan):
    """`i - j` within the window, otherwise `i//g - j//g`, moved away from 0 by `c = w - w//g`.

    Args:
        group: g, number of tokens that share a far position.
        window: w. Relative positions below it stay exact.
    """

    group: int
    window: int

    def passes(self, n: int, *, causal: bool) -> list[Pass]:
        g, w = self.group, self.window
        near = Pass([band(n, w - 1, 0 if causal else w - 1)])
        grouped = torch.arange(n) // g
        shifted = grouped + (w - w // g)
        passes = [near, Pass(at_least_before(n, w), shifted, grouped)]
        if not causal:
            passes.append(Pass(at_least_after(n, w), grouped, shifted))
        return passes


@dataclass(frozen=True)
class DocumentSelfExtendPlan(Plan):
    """`SelfExtendPlan` with `g` and `w` that depend on the length of each document.

    Args:
        sizes: tokens of a document -> `g` and `w`.
    """

    sizes: Callable[[int], tuple[int, int]]

    def passes(self, n: int, *, causal: bool) -> list[Pass]:
        return SelfExtendPlan(*self.sizes(n)).passes(n, causal=causal)


@dataclass(frozen=True)
class ReRoPEPlan(Plan):
    """`i - j` within the window, otherwise the width of the window.

    Args:
        window: w. Relative positions below it stay exact, all others become w.
    """

    window: int

    def passes(self, n: int, *, causal: bool) -> list[Pass]:
        w = self.window
        near = Pass([band(n, w - 1, 0 if causal else w - 1)])
        here = torch.zeros(n, dtype=torch.long)
        passes = [near, Pass(at_least_before(n, w), here + w, here)]
        if not causal:
            passes.append(Pass(at_least_after(n, w), here, here + w))
        return passes
