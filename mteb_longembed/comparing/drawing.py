"""The parts of every figure: a canvas, colours that colour-blind readers can see, and lines by length."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mteb_longembed.files import make_folder, printable, slug, write_file
from mteb_longembed.statistics.intervals import Interval

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Black and the grey of `GRID` become the page's own colours.
# Okabe & Ito 2008, without yellow, because yellow lines are too pale on white.
_COLOURS = ("#000000", "#0072B2", "#56B4E9", "#E69F00", "#009E73", "#D55E00", "#CC79A7")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_LINES = ("-", "--", ":", "-.")
GRID = "#dddddd"

_RC: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    # Text stays text in SVG files, and every run writes the same file.
    "svg.fonttype": "none",
    "svg.hashsalt": "mteb-longembed",
}


class Style(NamedTuple):
    """The look of one series: its colour, its marker and the pattern of its line."""

    colour: str
    marker: str
    line: str


def style(number: int) -> Style:
    """The look of the series with this number; after the last colour the first one follows, with another pattern."""
    pattern = number // len(_COLOURS) % len(_LINES)
    number %= len(_COLOURS)
    return Style(_COLOURS[number], _MARKERS[number], _LINES[pattern])


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

    def legend(self, axes: Axes) -> None:
        """Draw a legend below the figure."""
        handles, labels = axes.get_legend_handles_labels()
        # At 8 points, a letter is about 0.07 inches wide. The sample line and the gap are half an inch wide.
        column = 0.5 + 0.07 * max(map(len, labels))
        n_columns = max(1, min(len(labels), int(self.figure.get_figwidth() / column)))
        self.figure.legend(
            handles,
            labels,
            loc="outside lower center",
            ncols=n_columns,
            frameon=False,
            fontsize=8,
        )

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


def new_drawing(key: str, title: str, width: float, height: float) -> tuple[Drawing, list[Axes]]:
    """An empty figure and its axes; sizes are in inches."""
    import matplotlib  # takes a second, and most commands draw nothing
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_RC):
        figure = Figure(figsize=(width, height), layout="constrained")
        figure.subplots()
    return Drawing(slug(key), printable(title), figure), figure.axes


def draw_lines(
    drawing: Drawing,
    axes: Axes,
    series: Iterable[tuple[str, Mapping[int, Interval], Mapping[int, str], Style]],
) -> None:
    """Draw lines over lengths in tokens, with the intervals that are known.

    Args:
        drawing: the figure.
        axes: where.
        series: label, scores, what is shown under the mouse, and look of each line.
    """
    lines = list(series)
    all_scores = chain.from_iterable(scores.values() for _, scores, _, _ in lines)
    has_bars = any(score.is_known for score in all_scores)
    for number, (label, scores, tips, look) in enumerate(lines):
        # Each series is moved a little, so that the points and bars of one length are side by side.
        moved = 1.0
        if has_bars:
            moved = 2 ** (0.03 * (number - (len(lines) - 1) / 2))
        for length, score in scores.items():
            draw_interval(axes, length * moved, score, look.colour)
        points = sorted((length * moved, score.mean) for length, score in scores.items())
        draw = partial(axes.plot, color=look.colour, marker=look.marker)
        # Every point is drawn on its own, so that it can have its own text under the mouse.
        axes.plot(*zip(*points, strict=True), color=look.colour, ls=look.line, lw=1.5, zorder=2)
        for length, score in scores.items():
            (point,) = draw([length * moved], [score.mean], ls="", ms=6, zorder=3)
            drawing.tip(point, tips[length])
        draw([], [], ls=look.line, lw=1.5, label=label)
    # a logarithmic axis with one tick for each length
    ticks = sorted(set(chain.from_iterable(scores for _, scores, _, _ in lines)))
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [length_label(length) for length in ticks])
    axes.minorticks_off()
    axes.grid(axis="y", color=GRID, lw=0.6)
    axes.set_axisbelow(True)


def draw_interval(axes: Axes, x: float, interval: Interval, colour: str = "#000000") -> None:
    """A thin bar from the lower to the upper end; nothing if they are not known."""
    if interval.is_known:
        axes.plot([x, x], [interval.low, interval.high], color=colour, lw=1, alpha=0.7, zorder=1)


def length_label(length: int) -> str:
    """A length in tokens, short: 512, 4k, 128k.

    >>> length_label(512), length_label(4096)
    ('512', '4k')
    """
    if length >= 1024 and length % 1024 == 0:
        return f"{length // 1024}k"
    return str(length)
