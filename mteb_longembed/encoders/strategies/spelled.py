"""The names of strategies and the types of their parameters, for editors and type checkers. A test compares them."""

from __future__ import annotations

from typing import Literal, TypedDict

StrategyName = Literal[
    "none", "pcw", "gp", "rp", "pi", "ntk", "se", "rerope", "dca", "yarn", "dynamic", "resonance"
]


class StrategyParameters(TypedDict, total=False):
    """The parameters of all strategies. `docs/strategies.md` says which strategy has which."""

    logn: bool
    """Attention scaling by the document's length."""
    short: Literal["keep", "scale", "cut"]
    """What happens to documents up to the trained length (`pi`, `ntk`, `yarn`, `resonance`, `pcw`)."""
    size: int
    """Tokens of a window (`pcw`)."""
    overlap: int
    """Content tokens shared with the window before (`pcw`)."""
    agg: Literal["mean", "mean-normalized"]
    """How windows are averaged (`pcw`)."""
    g: int | Literal["document"]
    """Size of a group of positions (`se`)."""
    w: int
    """Neighbour window in tokens (`se`, `rerope`)."""
    chunk: int
    """Tokens of a chunk (`dca`)."""
    limit: int
    """The largest relative position (`dca`)."""
    factor: float | Literal["document", "target"]
    """Multiplier of the rope base (`ntk`, `dynamic`), of positions (`yarn`), or the length that sets it (`gp`)."""
    sigma: float
    """Smoothing width in rows of a learned table (`ntk`)."""
    beta_fast: float
    """Frequencies with more turns are kept (`yarn`, `resonance`)."""
    beta_slow: float
    """Frequencies with fewer turns are stretched (`yarn`, `resonance`)."""
