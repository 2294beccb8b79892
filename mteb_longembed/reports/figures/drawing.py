"""The common parts of all figures: a canvas, colours that colour-blind readers can see, and writing files."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mteb_longembed.errors import InputError
from mteb_longembed.reports.scores.bases import strategy_rank
from mteb_longembed.statistics.intervals import Interval

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe & Ito 2008, without yellow, because yellow lines are too pale on white.
COLOURS = ("#000000", "#0072B2", "#56B4E9", "#E69F00", "#009E73", "#D55E00", "#CC79A7")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", ":", "-.")
HATCHES = ("", "///", "...", "xxx")
# As in the paper's heat map, a darker green means a higher accuracy. It can be read without colours too.
GREENS = ("#ffffff", "#d9f0d3", "#a6dba0", "#5aae61", "#1b7837", "#00441b")

# With fewer queries, the share of a cell says little: 30 queries give an interval of up to 34 points.
FEW = 30

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
    """The look of one series: its colour, marker, line and hatching."""

    colour: str
    marker: str
    line: str
    hatch: str


def style(number: int, variant: int = 0) -> Style:
    """The look of the series with this number. All variants of a series have the same colour and marker."""
    return Style(
        COLOURS[number % len(COLOURS)],
        MARKERS[number % len(MARKERS)],
        LINES[variant % len(LINES)],
        HATCHES[variant % len(HATCHES)],
    )


def styles(variants: Iterable[str]) -> dict[str, Style]:
    """One look for each variant such as `+ntk` or `+ntk:logn=off`. A strategy has the same look in all figures."""
    found: dict[str, Style] = {}
    seen: Counter[str] = Counter()
    others: list[str] = []
    for variant in variants:
        strategy = variant.lstrip("+").partition(":")[0].partition("@")[0].partition(" ")[0]
        number, _ = strategy_rank(strategy)
        if number == len(COLOURS) and strategy not in others:
            others.append(strategy)
        found[variant] = style(number + (others.index(strategy) if strategy in others else 0), seen[strategy])
        seen[strategy] += 1
    return found


@dataclass
class Drawing:
    """A drawn figure.

    Args:
        key: A short name that is allowed in file names.
        title: The title, for captions.
        figure: The matplotlib figure.
        tips: For each artist's id in the SVG, the text that is shown under the mouse.
    """

    key: str
    title: str
    figure: Figure
    tips: dict[str, str] = field(default_factory=dict)

    def tip(self, artist: Artist, text: str) -> None:
        """Give an artist a text that is shown under the mouse."""
        name = f"{self.key}-{len(self.tips)}"
        artist.set_gid(name)
        self.tips[name] = text

    def legend(self, *all_axes: Axes, note: str = "") -> None:
        """Draw one legend for all axes below the figure. Each label comes once, and a note is above them."""
        found: dict[str, Any] = {}
        for axes in all_axes:
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                found.setdefault(label, handle)
        # At 8 points, a letter is about 0.07 inches wide. The sample line and the gap are half an inch wide.
        column = 0.5 + 0.07 * max(map(len, found))
        n_columns = max(1, min(len(found), int(self.figure.get_figwidth() / column)))
        self.figure.legend(
            list(found.values()),
            list(found),
            loc="outside lower center",
            ncols=n_columns,
            frameon=False,
            fontsize=8,
            title=note or None,
            title_fontsize=8,
        )

    def svg(self) -> str:
        """The figure as SVG text."""
        out = io.BytesIO()
        self._save(out, "svg", metadata={"Date": None, "Creator": None})
        return out.getvalue().decode("utf-8")

    def save(self, folder: Path) -> list[Path]:
        """Write `KEY.png` and `KEY.svg` into a folder, and return their paths."""
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"{self.key}.png", folder / f"{self.key}.svg"]
        self._save(paths[0], "png", dpi=160)
        paths[1].write_text(self.svg(), encoding="utf-8")
        return paths

    def _save(self, target: Path | io.BytesIO, kind: str, **kwargs: Any) -> None:
        import matplotlib

        with matplotlib.rc_context(_STYLE):
            self.figure.savefig(target, format=kind, **kwargs)


def new_drawing(
    key: str, title: str, width: float, height: float, n_rows: int = 1, n_columns: int = 1
) -> tuple[Drawing, list[Axes]]:
    """An empty figure with a grid of axes.

    Args:
        key: A short name that is allowed in file names.
        title: The title.
        width: Width in inches.
        height: Height in inches.
        n_rows: Rows of axes.
        n_columns: Columns of axes.

    Raises:
        InputError: If matplotlib is not installed.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError(
            "figures need matplotlib, which is not installed: pip install 'mteb-longembed[figures]'."
        ) from None
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(n_rows, n_columns, squeeze=False)
    return Drawing(key, title, figure), list(axes.flat)


def draw_cells(
    drawing: Drawing,
    axes: Axes,
    rows: list[str],
    columns: list[str],
    values: list[list[float | None]],
    tips: list[list[str]],
    counts: list[list[int]] | None = None,
) -> None:
    """Draw a heat map in the paper's green, from 0 to 100, with the numbers in the cells.

    Args:
        drawing: The drawing, for the tips.
        axes: Where to draw.
        rows: Labels from top to bottom.
        columns: Labels from left to right.
        values: In percent, row by row; None leaves a hatched cell.
        tips: The texts under the mouse, row by row.
        counts: Number of queries of each cell, shown below its value; a cell with fewer than 30 queries is grey.
    """
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle

    greens = LinearSegmentedColormap.from_list("greens", GREENS)
    greys = LinearSegmentedColormap.from_list("greys", ("#eeeeee", "#777777"))
    for y, row in enumerate(values):
        for x, value in enumerate(row):
            if value is None:
                # A cell that was not measured must not look like 0.
                cell = Rectangle((x, y), 1, 1, facecolor="#eeeeee", edgecolor="#bbbbbb", hatch="///", lw=0)
            else:
                n = None if counts is None else counts[y][x]
                is_grey = n is not None and n < FEW
                colour = greys(value / 200) if is_grey else greens(value / 100)
                cell = Rectangle((x, y), 1, 1, facecolor=colour, edgecolor="#dddddd", lw=0.8)
                ink = "white" if value > 60 and not is_grey else "black"
                middle = 0.5 if n is None else 0.36
                text: dict[str, Any] = {"ha": "center", "va": "center", "color": ink}
                axes.text(x + 0.5, y + middle, f"{value:.0f}", fontsize=8, **text)
                if n is not None:
                    axes.text(x + 0.5, y + 0.74, f"n={n}", fontsize=6, **text)
            axes.add_patch(cell)
            drawing.tip(cell, tips[y][x])
    axes.set_xlim(0, len(columns))
    axes.set_ylim(len(rows), 0)
    axes.set_xticks([x + 0.5 for x in range(len(columns))], columns)
    axes.set_yticks([y + 0.5 for y in range(len(rows))], rows)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def draw_lines(
    drawing: Drawing,
    axes: Axes,
    series: Iterable[tuple[str, dict[int, float], dict[int, str], Style]],
    intervals: Mapping[str, Mapping[int, Interval]] | None = None,
) -> None:
    """Draw lines over lengths in tokens, on a logarithmic axis with one tick for each length.

    Args:
        drawing: The drawing, for the tips.
        axes: Where to draw.
        series: For each line: label, values by length, tips by length, and look.
        intervals: The known 95 % intervals by label and length, drawn as thin bars.
    """
    lengths: set[int] = set()
    for number, (label, values, tips, style) in enumerate(series):
        for length, interval in (intervals or {}).get(label, {}).items():
            # Each series is moved a little, so that the bars of one length are side by side.
            x = length * 2 ** (0.03 * (number - 2))
            axes.plot([x, x], [interval.low, interval.high], color=style.colour, lw=1, alpha=0.6, zorder=1)
        points = sorted(values.items())
        look: dict[str, Any] = {"color": style.colour, "marker": style.marker}
        # Every point is drawn on its own, so that it can have its own text under the mouse.
        axes.plot(*zip(*points, strict=True), color=style.colour, ls=style.line, lw=1.5, zorder=2)
        for length, value in points:
            (point,) = axes.plot([length], [value], **look, ls="", ms=6, zorder=3)
            drawing.tip(point, tips[length])
        axes.plot([], [], **look, ls=style.line, lw=1.5, label=label)
        lengths |= set(values)
    ticks = sorted(lengths)
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [length_label(length) for length in ticks])
    axes.minorticks_off()
    axes.grid(axis="y", color="#dddddd", lw=0.6)
    axes.set_axisbelow(True)


INTERVALS = "thin bars: 95 % interval over queries"
NO_INTERVALS = "no intervals: the scores of single queries are not known"


def interval_key(has_intervals: bool) -> str:
    """The sentence below a figure about its intervals."""
    return INTERVALS if has_intervals else NO_INTERVALS


def length_label(length: int) -> str:
    """A length in tokens, short: 512, 4k, 128k.

    >>> length_label(512), length_label(4096)
    ('512', '4k')
    """
    return f"{length // 1024}k" if length >= 1024 and length % 1024 == 0 else str(length)
