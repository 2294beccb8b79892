"""The figure of a comparison: all candidates with their intervals, and with their differences to the best."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from mteb_longembed.evaluation.resampling import Interval
from mteb_longembed.figures import GRID, panels

from .summary import BEHIND, BEST, MARGIN, NOT_SEPARATED, is_number

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
_COLOURS = {BEST: "#1b7837", NOT_SEPARATED: "#0072B2", BEHIND: "#999999"}


def draw_figure(comparison: Comparison) -> Figure:
    """All candidates, the best on top: left their scores, right their differences to the best, with intervals.

    Two intervals on the left may overlap although the difference on the same queries is sure: that is on the right.
    What is within the margin of the best is shaded there.
    """
    rows = comparison.rows
    labels = [_BREAKS.sub(r"\1\n", row.label) for row in rows]
    lines = np.array([label.count("\n") + 2 for label in labels])  # one more parts two labels
    places = np.cumsum(lines) - lines / 2
    figure, (scores, differences) = panels(_WIDTH, 0.8 + _LINE * lines.sum(), 2)
    for place, row in zip(places, rows, strict=True):
        colour = _COLOURS[row.standing]
        _mark(scores, place, row.score, colour)
        if is_number(row.to_best.mean):
            _mark(differences, place, row.to_best, colour)
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


def _mark(axes: Axes, place: float, interval: Interval, colour: str) -> None:
    """Draw a mean as a point, and its interval as a line, if there is one."""
    if is_number(interval.low):
        ends = [interval.low, interval.high]
        axes.plot(ends, [place, place], color=colour, lw=2, alpha=0.6, zorder=2)
    axes.plot([interval.mean], [place], "o", color=colour, ms=6, zorder=3)
