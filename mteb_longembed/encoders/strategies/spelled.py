"""The names of strategies and the types of their parameters, for editors and type checkers. A test compares them."""

from __future__ import annotations

from typing import Literal, TypedDict

StrategyName = Literal[
    "none", "pcw", "gp", "rp", "pi", "ntk", "se", "rerope", "dca", "yarn", "dynamic", "resonance"
]


class StrategyParameters(TypedDict, total=False):
    """The parameters of all strategies. `docs/strategies.md` says which strategy has which."""

    logn: bool
    short: Literal["keep", "scale", "cut"]
    size: int
    overlap: int
    agg: Literal["mean", "mean-normalized", "max", "norm-topk", "norm-softmax"]
    g: int | Literal["document"]
    w: int
    chunk: int
    limit: int
    factor: float | Literal["document", "target"]
    sigma: float
    beta_fast: float
    beta_slow: float
