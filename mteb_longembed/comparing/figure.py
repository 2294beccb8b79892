"""The figure of a comparison: all candidates with their intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mteb_longembed.figures import GRID, RC

from .candidates import on_lines
from .summary import is_number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .compare import Comparison

#: The width in inches: the letters can be read where the figure is as wide as a phone.
_WIDTH = 5.4
#: The height of a line of a label in inches.
_LINE = 0.15
#: The colours of candidates by their standing: green for the first one, blue for what is tied with it.
_FIRST = "#1b7837"
_EQUAL = "#0072B2"
_OUT = "#999999"
_COLOURS = {"winner": _FIRST, "leader": _FIRST, "equal": _EQUAL, "unknown": _EQUAL}


def draw(comparison: Comparison) -> Figure:
    """All candidates with their intervals, the best on top.

    The band of the first one is shaded over the whole height, and what is surely behind is grey: whose interval lies in
    the band is easily seen. That is not the test: two intervals may overlap although their paired difference
    lies below 0.
    """
    import matplotlib  # takes a second
    from matplotlib.figure import Figure

    rows = list(comparison.summary.itertuples())
    labels = [on_lines(row.label) for row in rows]
    lines = np.array([label.count("\n") + 2 for label in labels])  # one more parts two labels
    places = np.cumsum(lines) - lines / 2
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(_WIDTH, 1.0 + _LINE * lines.sum()), layout="constrained")
        axes = figure.subplots()
    for place, row in zip(places, rows, strict=True):
        colour = _COLOURS.get(row.standing, _OUT)
        if is_number(row.low):
            axes.plot([row.low, row.high], [place, place], color=colour, lw=2, alpha=0.6, zorder=2)
            if row.standing in ("winner", "leader"):
                axes.axvspan(row.low, row.high, color=_FIRST, alpha=0.1, lw=0, zorder=0)
        axes.plot([row.score], [place], "o", color=colour, ms=6, zorder=3)
    axes.set_yticks(places, labels, fontsize=8)
    for text, row in zip(axes.get_yticklabels(), rows, strict=True):
        if row.standing in ("behind", "excluded"):
            text.set_color(_OUT)
    axes.set_ylim(lines.sum(), 0)
    axes.set_xlabel(f"{comparison.metric} (%)")
    axes.grid(axis="x", color=GRID, lw=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    return figure
