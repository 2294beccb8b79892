"""The figures of a comparison: all candidates with their intervals, and score against speed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mteb_longembed.figures import GRID, RC, drawn
from mteb_longembed.files import make_folder, printable, write_file

from .candidates import on_lines
from .summary import is_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .compare import Comparison

#: The width of a figure in inches: its letters can be read where it is as wide as a phone.
_WIDTH = 5.4
#: The colours of candidates by their standing: green for the first one, blue for what is tied with it.
_FIRST = "#1b7837"
_EQUAL = "#0072B2"
_OUT = "#999999"
_BARS = "#bbbbbb"
_WORDS = "#E69F00"
_COLOURS = {"winner": _FIRST, "leader": _FIRST, "equal": _EQUAL, "unknown": _EQUAL}
#: The height of a line of a label in inches.
_LINE = 0.15


class Drawing(NamedTuple):
    """A drawn figure; its key is allowed in file names."""

    key: str
    title: str
    figure: Figure

    def svg(self, *, is_transparent: bool = False) -> str:
        """The figure as SVG text."""
        return drawn(self.figure, "svg", transparent=is_transparent).decode("utf-8")

    def save(self, folder: Path) -> None:
        """Write `KEY.png` and `KEY.svg` into a folder."""
        make_folder("the folder of figures", folder)
        write_file(folder / f"{self.key}.png", drawn(self.figure, "png", dpi=160))
        write_file(folder / f"{self.key}.svg", self.svg())


def _new(height: float) -> tuple[Figure, Axes]:
    """An empty figure and its axes; the height is in inches."""
    import matplotlib  # takes a second, and most commands draw nothing
    from matplotlib.figure import Figure

    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        return figure, figure.subplots()


def drawings(comparison: Comparison) -> list[Drawing]:
    """The figures that the comparison has data for."""
    drawn = [draw_standings(comparison)]
    if comparison.summary["tokens_per_second"].count() > 1:
        drawn.append(draw_costs(comparison))
    return drawn


def draw_standings(comparison: Comparison) -> Drawing:
    """All candidates with their intervals, the best on top.

    The band of the first one is shaded over the whole height, and what is surely behind is grey: whose interval lies in
    the band is easily seen. That is not the test: two intervals may overlap although their paired difference
    lies below 0.
    """
    rows = list(comparison.summary.itertuples())
    labels = [on_lines(row.label) for row in rows]
    lines = np.array([label.count("\n") + 2 for label in labels])  # one more parts two labels
    places = np.cumsum(lines) - lines / 2
    figure, axes = _new(1.0 + _LINE * lines.sum())
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
    title = f"{comparison.metric} with 95 % intervals; shaded: that of the first one; grey: surely worse"
    return Drawing("standings", printable(title), figure)


def draw_costs(comparison: Comparison) -> Drawing:
    """Score against speed.

    The numbers at the points are those of the table's rows. The best BM25, which encodes nothing, is a line over all
    speeds.
    """
    summary = comparison.summary
    figure, axes = _new(3.6)
    words = next(iter(summary.index[summary["kind"] == "words"]), None)
    for number, row in enumerate(summary.itertuples(), start=1):
        y = row.score
        if row.Index == words:
            axes.axhline(y, color=_WORDS, lw=1.2, ls="--", zorder=1)
            where: Any = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
            text = f"{number} {row.label}, encodes nothing"
            axes.annotate(text, (1, y), (-4, 3), ha="right", va="bottom", fontsize=7, **where)
        elif is_number(row.tokens_per_second):
            x = row.tokens_per_second
            if is_number(row.low):
                axes.plot([x, x], [row.low, row.high], color=_BARS, lw=1, alpha=0.7, zorder=1)
            axes.plot([row.slowest, row.fastest], [y, y], color=_BARS, lw=1, zorder=1)
            axes.plot([x], [y], "o", color=_COLOURS.get(row.standing, _OUT), ms=5, zorder=3)
            axes.annotate(str(number), (x, y), (5, 0), textcoords="offset points", va="center", fontsize=7)
    axes.margins(0.1)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.locator_params(axis="x", nbins=5)
    axes.set_xlabel("tokens a second (bar: slowest to fastest round)")
    axes.set_ylabel(f"{comparison.metric} (%)")
    title = f"{comparison.metric} against speed: up and to the right is better; numbers are the table's rows"
    return Drawing("cost", printable(title), figure)
