"""The figures of a comparison: candidates with scores and differences to the best, and their scores against costs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.isotonic import isotonic_regression

from mteb_longembed.evaluation.resampling import Interval
from mteb_longembed.figures import GRID, panels, panels_below

from .summary import BEHIND, BEST, MARGIN, NOT_SEPARATED, Row, is_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .comparison import Comparison

#: The width in inches, and the height of a line of a label.
_WIDTH = 10.0
_LINE = 0.16
#: Where a long label breaks.
_BREAKS = re.compile(r"(.{15,30}[,:/])(?=.)")
#: The colours of candidates by their standing.
COLOURS = {BEST: "#1b7837", NOT_SEPARATED: "#0072B2", BEHIND: "#999999"}
#: The candidates of the page's first picture, beside the bases and BM25.
SHOWN = 8
#: The second figure in points: the width of a panel; the distance of candidates of one cost, whose numbers are side by
#: side; the distance of different costs, which have a tick each; and the indent of names in the legend.
_PANEL = 380.0
_BESIDE = 12.0
_APART = 32.0
_INDENT = 16.0
#: Costs that differ by less than this factor count as one.
_SAME_COST = 1.05


def first_rows(rows: Sequence[Row]) -> list[Row]:
    """Return the best `SHOWN` candidates, the bases, and the best BM25 without a model, in their order."""
    lexical = [row.id for row in rows if row.kind == "bm25" and not row.expand][:1]
    return [row for rank, row in enumerate(rows) if rank < SHOWN or row.is_base or row.id in lexical]


def draw_figure(comparison: Comparison, shown: Sequence[Row] | None = None) -> Figure:
    """Draw candidates, the best on top: their scores on the left, differences to the best on the right.

    By default these are all candidates.

    Intervals on the left may overlap although the interval of the paired difference, on the right, excludes 0. The
    margin around the best is shaded there.
    """
    rows = comparison.rows if shown is None else shown
    labels = [_BREAKS.sub(r"\1\n", row.label) for row in rows]
    lines = np.array([label.count("\n") + 2 for label in labels])  # a blank line separates two labels
    positions = np.cumsum(lines) - lines / 2
    figure, (scores, differences) = panels(_WIDTH, 0.8 + _LINE * lines.sum(), 2)
    for position, row in zip(positions, rows, strict=True):
        colour = COLOURS[row.standing]
        _mark(scores, position, row.score, colour)
        if is_number(row.to_best.mean):
            _mark(differences, position, row.to_best, colour)
    differences.axvspan(-MARGIN, MARGIN, color="#1b7837", alpha=0.12, lw=0, zorder=0)
    differences.axvline(0, color="#1b7837", lw=1, zorder=1)
    scores.set_yticks(positions, labels)
    scores.set_ylim(lines.sum(), 0)
    scores.set_xlabel(f"{comparison.metric} (%)")
    differences.set_xlabel("difference to the best (points)")
    for axes in (scores, differences):
        axes.grid(axis="x", color=GRID, lw=0.6)
        axes.set_axisbelow(True)
        axes.tick_params(axis="y", length=0)
    return figure


def _mark(axes: Axes, y: float, interval: Interval, colour: str) -> None:
    """Draw a mean as a point, and its interval, if any, as a line."""
    if is_number(interval.low):
        ends = [interval.low, interval.high]
        axes.plot(ends, [y, y], color=colour, lw=2, alpha=0.6, zorder=2)
    axes.plot([interval.mean], [y], "o", color=colour, ms=6, zorder=3)


# ---- scores against costs


def draw_costs(comparison: Comparison) -> Figure | None:
    """Draw scores with intervals against the size of the vectors and against operations; None if no cost is known.

    Candidates have the numbers of their ranks, which a legend on the right explains. Numbers do not collide, because
    candidates of one cost stand side by side. The recommended candidate has a ring.
    """
    costs = {title: values for title, values in _costs(comparison.rows).items() if any(values)}
    if not costs:
        return None
    labels = [_BREAKS.sub(r"\1\n", row.label) for row in comparison.rows]
    # half a blank line separates two labels
    lines = np.array([0.0, *(label.count("\n") + 1.5 for label in labels)]).cumsum()
    height = max(3.0 * len(costs), 0.5 + _LINE * lines[-1])
    figure, panes, legend = panels_below(_WIDTH, height, len(costs))
    for axes, (title, values) in zip(panes, costs.items(), strict=True):
        _draw_cost(axes, comparison, values)
        axes.set_xlabel(title)
        axes.set_ylabel(f"{comparison.metric} (%)")
    for rank, (line, label, row) in enumerate(zip(lines[:-1], labels, comparison.rows, strict=True), 1):
        weight = "bold" if row is comparison.recommended else "normal"
        for x, side, text in ((_INDENT - 5, "right", str(rank)), (_INDENT, "left", label)):
            position = {"xytext": (x, -72 * _LINE * line), "ha": side, "va": "top"}
            _write(legend, text, (0, 1), xycoords="axes fraction", weight=weight, **position)
    return figure


def _write(axes: Axes, text: str, anchor: tuple[float, float], **options: Any) -> None:
    """Write a text at an offset in points from an anchor."""
    axes.annotate(text, anchor, textcoords="offset points", **options)


def _costs(rows: Sequence[Row]) -> dict[str, list[float | None]]:
    """Return the costs of each candidate by the title of the cost; None if not known, 0 for BM25."""
    sizes = [row.cost.bytes and row.cost.bytes / 1024 for row in rows]
    operations = [row.cost.flops and row.cost.flops / 1e9 for row in rows]
    titled = {"KB of vectors per document": sizes, "billion operations per document": operations}
    return {
        title: [0.0 if row.kind == "bm25" else value for row, value in zip(rows, values, strict=True)]
        for title, values in titled.items()
    }


def _draw_cost(axes: Axes, comparison: Comparison, costs: Sequence[float | None]) -> None:
    """Draw the candidates whose cost is known, the cheapest first, with their ranks and a tick for each cost."""
    known = sorted((cost, rank) for rank, cost in enumerate(costs) if cost is not None)
    groups = _groups([cost for cost, _ in known])
    positions = _positions([cost for cost, _ in known], groups)
    width = max(positions[-1], _PANEL)
    for (_, rank), x in zip(known, positions, strict=True):
        row = comparison.rows[rank]
        ring: Any = {"mec": "#000000", "mew": 1.5} if row is comparison.recommended else {}
        top = row.score.mean
        if is_number(row.score.low):
            top = row.score.high
            axes.plot([x, x], [row.score.low, top], color=COLOURS[row.standing], lw=2, alpha=0.6)
        axes.plot([x], [row.score.mean], "o", color=COLOURS[row.standing], ms=6, zorder=3, **ring)
        _write(axes, str(rank + 1), (x, top), xytext=(0, 3), ha="center", size=7 * _PANEL / width)
    starts = [groups.index(group) for group in dict.fromkeys(groups)]
    middles = [float(np.mean(part)) for part in np.split(positions, starts[1:])]
    axes.set_xticks(middles, [f"{float(f'{known[start][0]:.3g}'):,.10g}" for start in starts])
    axes.set_xlim(-_BESIDE, width + _BESIDE)
    axes.margins(y=0.1)
    axes.grid(axis="y", color=GRID, lw=0.6)
    axes.set_axisbelow(True)


def _groups(costs: Sequence[float]) -> list[float]:
    """Replace each of the sorted costs by the smallest one that is about equal.

    >>> _groups([0.0, 3.0, 3.01, 64.0])
    [0.0, 3.0, 3.0, 64.0]
    """
    groups: list[float] = []
    for cost in costs:
        is_near = bool(groups) and cost <= groups[-1] * _SAME_COST
        groups.append(groups[-1] if is_near else cost)
    return groups


def _positions(costs: Sequence[float], groups: Sequence[float]) -> np.ndarray:
    """Return x positions of sorted costs in points: logarithmic, with room for their numbers, from 0."""
    logarithms = np.log10([cost or min(filter(None, costs)) / 2 for cost in costs])
    wanted = (logarithms - logarithms[0]) / max(float(np.ptp(logarithms)), 0.1) * _PANEL
    gaps = [_BESIDE if left == right else _APART for left, right in pairwise(groups)]
    steps = np.array([0.0, *gaps]).cumsum()
    end = max(_PANEL - steps[-1], 0.0)
    # the least-squares fit to the wanted positions with at least these gaps
    return np.asarray(isotonic_regression(wanted - steps, y_min=0.0, y_max=end) + steps)
