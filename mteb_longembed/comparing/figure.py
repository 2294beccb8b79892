"""The figure of a comparison: all candidates with their intervals, and with their differences to the best."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from mteb_longembed.figures import GRID, panels

from .summary import BEHIND, GOOD_ENOUGH, MARGIN, MAY_BE_BEST, is_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .compare import Comparison

#: The width in inches, and the height of a line of a label.
_WIDTH = 10.0
_LINE = 0.16
#: Where a long label goes on in another line.
_BREAKS = re.compile(r"(.{15,30}[,:/])(?=.)")
#: The colours of candidates by their standing.
_COLOURS = {GOOD_ENOUGH: "#1b7837", MAY_BE_BEST: "#0072B2", BEHIND: "#999999"}


def draw_figure(comparison: Comparison) -> Figure:
    """All candidates, the best on top: left their scores, right their differences to the best, with intervals.

    Two intervals on the left may overlap although the difference on the same queries is sure: that is on the right.
    What is within the margin of the best is shaded there.
    """
    summary = comparison.summary
    labels = [_BREAKS.sub(r"\1\n", label) for label in summary["label"]]
    lines = np.array([label.count("\n") + 2 for label in labels])  # one more parts two labels
    places = np.cumsum(lines) - lines / 2
    figure, (scores, differences) = panels(_WIDTH, 0.8 + _LINE * lines.sum(), 2)
    for place, row in zip(places, summary.itertuples(), strict=True):
        colour = _COLOURS[row.standing]
        _mark(scores, place, (row.score, row.low, row.high), colour)
        if is_number(row.to_best):
            _mark(differences, place, (row.to_best, row.to_best_low, row.to_best_high), colour)
    differences.axvspan(-MARGIN, MARGIN, color="#1b7837", alpha=0.12, lw=0, zorder=0)
    differences.axvline(0, color="#1b7837", lw=1, zorder=1)
    scores.set_yticks(places, labels)
    scores.set_ylim(lines.sum(), 0)
    scores.set_xlabel(f"{comparison.metric} (%)")
    differences.set_xlabel("difference to the best (points)")
    for axes in (scores, differences):
        axes.grid(axis="x", color=GRID, lw=0.6)
        axes.set_axisbelow(True)
        axes.tick_params(axis="y", length=0)
    return figure


def _mark(axes: Axes, place: float, numbers: tuple[float, float, float], colour: str) -> None:
    """A mean as a point, and its interval as a line, if there is one."""
    mean, low, high = numbers
    if is_number(low):
        axes.plot([low, high], [place, place], color=colour, lw=2, alpha=0.6, zorder=2)
    axes.plot([mean], [place], "o", color=colour, ms=6, zorder=3)
