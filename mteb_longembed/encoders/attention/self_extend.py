"""SelfExtend and ReRoPE: exact positions nearby, shared or capped positions far away, in three passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from .plan import Pass, Plan
from .tiles import at_least_after, at_least_before, band


@dataclass(frozen=True)
class SelfExtendPlan(Plan):
    """`i - j` within the window, else `i//g - j//g` shifted outwards by `c = w - w//g`.

    Args:
        group: g, tokens that share a far position.
        window: w, relative positions below it stay exact.
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
    """`SelfExtendPlan` with sizes that each document's length decides.

    Args:
        sizes: tokens of a document -> `g` and `w`.
    """

    sizes: Callable[[int], tuple[int, int]]

    def passes(self, n: int, *, causal: bool) -> list[Pass]:
        return SelfExtendPlan(*self.sizes(n)).passes(n, causal=causal)


@dataclass(frozen=True)
class ReRoPEPlan(Plan):
    """`i - j` within the window, else the window's width itself.

    Args:
        window: w, relative positions below it stay exact, all others become w.
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
