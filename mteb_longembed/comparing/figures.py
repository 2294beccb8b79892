"""The figures of a comparison: all candidates with their intervals, and score against speed."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mteb_longembed.files import make_folder, printable, slug, write_file

from .advice import percent
from .candidates import on_lines
from .summary import is_number

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .compare import Comparison

#: The width of a figure in inches: its letters can be read where it is as wide as a phone.
_WIDTH = 5.4
# Black and the grey of `GRID` become the page's own colours.
GRID = "#dddddd"
#: The colours of candidates by their standing: green for the first one, blue for what is tied with it.
_FIRST = "#1b7837"
_EQUAL = "#0072B2"
_OUT = "#999999"
_BARS = "#bbbbbb"
_WORDS = "#E69F00"
_COLOURS = {"winner": _FIRST, "leader": _FIRST, "equal": _EQUAL, "unknown": _EQUAL}
#: A longer name is on several lines, in characters.
_LONGEST = 30
#: The height of a line of a label in inches.
_LINE = 0.15
_RC: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    # Text stays text in SVG files, and every run writes the same file.
    "svg.fonttype": "none",
    "svg.hashsalt": "mteb-longembed",
}


@dataclass
class Drawing:
    """A drawn figure."""

    key: str  # a short name that is allowed in file names
    title: str
    figure: Figure
    tips: dict[str, str] = field(default_factory=dict)  # shown under the mouse, by an artist's id in the SVG

    def tip(self, artist: Artist, text: str) -> None:
        """Give an artist a text that is shown under the mouse."""
        name = f"{self.key}-{len(self.tips)}"
        artist.set_gid(name)
        self.tips[name] = text

    def svg(self, is_transparent: bool = False) -> str:
        """The figure as SVG text."""
        metadata = {"Date": None, "Creator": None}
        return self._saved("svg", transparent=is_transparent, metadata=metadata).decode("utf-8")

    def save(self, folder: Path) -> None:
        """Write `KEY.png` and `KEY.svg` into a folder."""
        make_folder("the folder of figures", folder)
        write_file(folder / f"{self.key}.png", self._saved("png", dpi=160))
        write_file(folder / f"{self.key}.svg", self.svg())

    def _saved(self, kind: str, **options: Any) -> bytes:
        import matplotlib
        from matplotlib.text import Text

        out = io.BytesIO()
        for text in self.figure.findobj(Text):
            text.set_parse_math(False)  # a dollar sign in a model's name is no mathematics
        with matplotlib.rc_context(_RC):
            self.figure.savefig(out, format=kind, **options)
        return out.getvalue()


def new_drawing(key: str, title: str, height: float) -> tuple[Drawing, Axes]:
    """An empty figure and its axes; the height is in inches."""
    import matplotlib  # takes a second, and most commands draw nothing
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_RC):
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        axes = figure.subplots()
    return Drawing(slug(key), printable(title), figure), axes


def drawings(comparison: Comparison) -> list[Drawing]:
    """The figures that the comparison has data for."""
    drawn = [draw_standings(comparison)]
    costs = draw_costs(comparison)
    if costs is not None:
        drawn.append(costs)
    return drawn


def draw_standings(comparison: Comparison) -> Drawing:
    """All candidates with their intervals, the best on top.

    The band of the first one is shaded over the whole height, and what is surely behind is grey: whose interval lies in
    the band is easily seen. That is not the test: two intervals may overlap although their paired difference
    lies below 0.
    """
    rows = list(comparison.summary.itertuples())
    title = f"{comparison.metric} with 95 % intervals; shaded: that of the first one; grey: surely worse"
    labels = [on_lines(row.label, _LONGEST) for row in rows]
    lines = np.array([label.count("\n") + 2 for label in labels])  # one more parts two labels
    places = np.cumsum(lines) - lines / 2
    drawing, axes = new_drawing("standings", title, 1.0 + _LINE * lines.sum())
    for place, row in zip(places, rows, strict=True):
        colour = _COLOURS.get(row.standing, _OUT)
        if is_number(row.low):
            axes.plot([row.low, row.high], [place, place], color=colour, lw=2, alpha=0.6, zorder=2)
            if row.standing in ("winner", "leader"):
                axes.axvspan(row.low, row.high, color=_FIRST, alpha=0.1, lw=0, zorder=0)
        (point,) = axes.plot([row.score], [place], "o", color=colour, ms=6, zorder=3)
        drawing.tip(point, f"{row.label}: {row.score:.1f}, first in {percent(row.first_share)} of resamples")
    axes.set_yticks(places, labels, fontsize=8)
    for text, row in zip(axes.get_yticklabels(), rows, strict=True):
        if row.standing in ("behind", "excluded"):
            text.set_color(_OUT)
    axes.set_ylim(lines.sum(), 0)
    axes.set_xlabel(f"{comparison.metric} (%)")
    axes.grid(axis="x", color=GRID, lw=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    return drawing


def draw_costs(comparison: Comparison) -> Drawing | None:
    """Score against speed, None with fewer than two speeds.

    The numbers at the points are those of the table's rows. The best BM25, which encodes nothing, is a line over all
    speeds.
    """
    summary = comparison.summary
    if summary["tokens_per_second"].notna().sum() < 2:
        return None
    title = f"{comparison.metric} against speed: up and to the right is better; numbers are the table's rows"
    drawing, axes = new_drawing("cost", title, 3.6)
    words = next(iter(summary.index[summary["kind"] == "words"]), None)
    for number, row in enumerate(summary.itertuples(), start=1):
        tip = f"{row.label}: {row.score:.1f}"
        y = row.score
        if row.Index == words:
            line = axes.axhline(y, color=_WORDS, lw=1.2, ls="--", zorder=1)
            drawing.tip(line, f"{tip}, encodes nothing")
            where: Any = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
            text = f"{number} {row.label}, encodes nothing"
            axes.annotate(text, (1, y), (-4, 3), ha="right", va="bottom", fontsize=7, **where)
        elif is_number(row.tokens_per_second):
            x = row.tokens_per_second
            if is_number(row.low):
                axes.plot([x, x], [row.low, row.high], color=_BARS, lw=1, alpha=0.7, zorder=1)
            axes.plot([row.slowest, row.fastest], [y, y], color=_BARS, lw=1, zorder=1)
            (point,) = axes.plot([x], [y], "o", color=_COLOURS.get(row.standing, _OUT), ms=5, zorder=3)
            drawing.tip(point, f"{tip}, {x:,.0f} tokens a second")
            axes.annotate(str(number), (x, y), (5, 0), textcoords="offset points", va="center", fontsize=7)
    axes.margins(0.1)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.locator_params(axis="x", nbins=5)
    axes.set_xlabel("tokens a second (bar: slowest to fastest round)")
    axes.set_ylabel(f"{comparison.metric} (%)")
    return drawing
