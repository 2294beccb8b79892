"""The common parts of all figures: a canvas, colours that colour-blind readers can see, and writing files."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mteb_longembed.reports.safe_files import make_folder, printable, slug, write_file
from mteb_longembed.reports.scores.base_groups import strategy_rank
from mteb_longembed.reports.tables.table import rounded
from mteb_longembed.statistics.intervals import Interval

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Black and the grey of `GRID` become the page's own colours.
# Okabe & Ito 2008, without yellow, because yellow lines are too pale on white.
COLOURS = ("#000000", "#0072B2", "#56B4E9", "#E69F00", "#009E73", "#D55E00", "#CC79A7")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", ":", "-.")
HATCHES = ("", "///", "...", "xxx")
GRID = "#dddddd"
INK = ("#111111", "#ffffff")  # of numbers on coloured cells, which keep it on a dark page
# As in the paper's heat map, a darker green means a higher accuracy. It can be read without colours too.
GREENS = ("#ffffff", "#d9f0d3", "#a6dba0", "#5aae61", "#1b7837", "#00441b")

_STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    # Text stays text in SVG files, and every run writes the same file.
    "svg.fonttype": "none",
    "svg.hashsalt": "mteb-longembed",
}


@dataclass(frozen=True)
class Style:
    """The look of one series.

    Args:
        colour: which colour-blind readers can see.
        marker: of its points.
        line: the pattern of its line.
        hatch: of its bars.
    """

    colour: str
    marker: str
    line: str
    hatch: str


def style(number: int, variant: int = 0) -> Style:
    """The look of the series with this number. All variants of a series have the same colour and marker.

    Args:
        number: of the series; after the last colour the first one follows.
        variant: of the series: another pattern of its line and its bars.
    """
    number %= len(COLOURS)
    variant %= len(LINES)
    return Style(COLOURS[number], MARKERS[number], LINES[variant], HATCHES[variant])


def styles(variants: Iterable[str]) -> dict[str, Style]:
    """One look for each variant such as `+ntk` or `+ntk:logn=off`. A strategy has the same look in all figures."""
    looks: dict[str, Style] = {}
    seen: Counter[str] = Counter()
    others: list[str] = []
    for variant in variants:
        strategy = variant.lstrip("+").partition(":")[0].partition("@")[0].partition(" ")[0]
        number, _ = strategy_rank(strategy)
        if number == len(COLOURS) and strategy not in others:
            others.append(strategy)
        if strategy in others:
            number += others.index(strategy)
        looks[variant] = style(number, seen[strategy])
        seen[strategy] += 1
    return looks


@dataclass
class Drawing:
    """A drawn figure.

    Args:
        key: a short name that is allowed in file names.
        title: of the figure.
        figure: matplotlib's object.
        tips: what is shown under the mouse, by an artist's id in the SVG.
    """

    key: str  # a short name that is allowed in file names
    title: str
    figure: Figure
    tips: dict[str, str] = field(default_factory=dict)  # shown under the mouse, by an artist's id in the SVG

    def tip(self, artist: Artist, text: str) -> None:
        """Give an artist a text that is shown under the mouse."""
        name = f"{self.key}-{len(self.tips)}"
        artist.set_gid(name)
        self.tips[name] = text

    def legend(self, *all_axes: Axes, note: str = "") -> None:
        """Draw one legend for all axes below the figure. Each label comes once, and a note is above them."""
        handles: dict[str, Artist] = {}
        for axes in all_axes:
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                handles.setdefault(label, handle)
        # At 8 points, a letter is about 0.07 inches wide. The sample line and the gap are half an inch wide.
        column = 0.5 + 0.07 * max(map(len, handles))
        n_columns = max(1, min(len(handles), int(self.figure.get_figwidth() / column)))
        self.figure.legend(
            list(handles.values()),
            list(handles),
            title=note or None,
            loc="outside lower center",
            ncols=n_columns,
            frameon=False,
            fontsize=8,
            title_fontsize=8,
        )

    def svg(self, is_transparent: bool = False) -> str:
        """The figure as SVG text."""
        return self._saved("svg", is_transparent).decode("utf-8")

    def save(self, folder: Path) -> list[Path]:
        """Write `KEY.png` and `KEY.svg` into a folder, and return their paths."""
        make_folder("the folder of figures", folder)
        paths = [folder / f"{self.key}.png", folder / f"{self.key}.svg"]
        write_file(paths[0], self._saved("png"))
        write_file(paths[1], self.svg())
        return paths

    def _saved(self, kind: str, is_transparent: bool = False) -> bytes:
        import matplotlib
        from matplotlib.text import Text

        out = io.BytesIO()
        for text in self.figure.findobj(Text):
            text.set_parse_math(False)  # a dollar sign in a model's name is no mathematics
        metadata = None
        if kind == "svg":
            metadata = {"Date": None, "Creator": None}
        with matplotlib.rc_context({**_STYLE, "savefig.dpi": 160}):
            self.figure.savefig(out, format=kind, transparent=is_transparent, metadata=metadata)
        return out.getvalue()


def new_drawing(
    key: str, title: str, width: float, height: float, n_rows: int = 1, n_columns: int = 1
) -> tuple[Drawing, list[Axes]]:
    """An empty figure with a grid of axes; sizes are in inches."""
    import matplotlib  # takes a second, and most commands draw nothing
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(n_rows, n_columns, squeeze=False)
    return Drawing(slug(key), printable(title.replace("\n", ", ")), figure), list(axes.flat)


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
    lengths: set[int] = set()
    lines = list(series)
    has_bars = any(_has_bars(scores.values()) for _, scores, _, _ in lines)
    for number, (label, scores, tips, style) in enumerate(lines):
        # Each series is moved a little, so that the points and bars of one length are side by side.
        moved = 1.0
        if has_bars:
            moved = 2 ** (0.03 * (number - (len(lines) - 1) / 2))
        for length, score in scores.items():
            draw_interval(axes, length * moved, score, style.colour)
        points = sorted((length * moved, score.mean) for length, score in scores.items())
        draw = partial(axes.plot, color=style.colour, marker=style.marker)
        # Every point is drawn on its own, so that it can have its own text under the mouse.
        axes.plot(*zip(*points, strict=True), color=style.colour, ls=style.line, lw=1.5, zorder=2)
        for length, score in scores.items():
            (point,) = draw([length * moved], [score.mean], ls="", ms=6, zorder=3)
            drawing.tip(point, tips[length])
        draw([], [], ls=style.line, lw=1.5, label=label)
        lengths |= set(scores)
    length_axis(axes, lengths)
    axes.grid(axis="y", color=GRID, lw=0.6)
    axes.set_axisbelow(True)


def _has_bars(scores: Iterable[Interval]) -> bool:
    return any(score.is_known for score in scores)


def length_axis(axes: Axes, lengths: Iterable[int]) -> None:
    """A logarithmic axis with one tick for each length in tokens."""
    ticks = sorted(lengths)
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [length_label(length) for length in ticks])
    axes.minorticks_off()


def draw_interval(axes: Axes, x: float, interval: Interval, colour: str = "#000000") -> None:
    """A thin bar from the lower to the upper end; nothing if they are not known."""
    if interval.is_known:
        axes.plot([x, x], [interval.low, interval.high], color=colour, lw=1, alpha=0.7, zorder=1)


def ends(interval: Interval | None, sign: str = "") -> str:
    """The words of a tip about an interval; empty if it is not known."""
    if interval is None or not interval.is_known:
        return ""
    digits = 0
    if sign:
        digits = 1
    low = rounded(interval.low, digits)
    high = rounded(interval.high, digits)
    return f", 95 % interval {low:{sign}f} to {high:{sign}f}"


def interval_key(intervals: Iterable[Interval]) -> str:
    """The sentence below a figure about its intervals."""
    known = [interval.is_known for interval in intervals]
    if not any(known):
        return "no intervals: the scores of single queries are not known"
    note = "thin bars: 95 % interval over queries"
    if not all(known):
        note += "; where there is none, the scores of single queries are not known"
    return note


def length_label(length: int) -> str:
    """A length in tokens, short: 512, 4k, 128k.

    >>> length_label(512), length_label(4096)
    ('512', '4k')
    """
    if length >= 1024 and length % 1024 == 0:
        return f"{length // 1024}k"
    return str(length)
