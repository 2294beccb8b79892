"""The figures of a comparison: all candidates with their intervals, score against speed, and score by length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mteb_longembed.comparing.drawing import (
    GRID,
    Drawing,
    draw_interval,
    draw_lines,
    new_drawing,
    style,
)
from mteb_longembed.comparing.table import percent
from mteb_longembed.reports.results import split_length
from mteb_longembed.statistics.intervals import Interval

from .comparison import Comparison
from .page import labels, metric_name
from .ranking import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The width of a figure in inches: its letters can be read where it is as wide as a phone.
_WIDTH = 5.4
#: The colours of candidates by their standing.
_FIRST = "#1b7837"
_EQUAL = "#0072B2"
_OUT = "#999999"
#: A longer name is on two lines, in characters.
_LONGEST = 22
#: So many candidates have a line of their own.
_MOST_LINES = 7
#: Directions in which a number may stand beside its point, the usual one first.
_ANGLES = [math.pi / 4 + k * math.pi / 4 for k in range(8)]


def drawings(comparison: Comparison) -> list[Drawing]:
    """The figures that the comparison has data for."""
    shown: list[Drawing | None] = [draw_standings(comparison), draw_costs(comparison)]
    shown += [draw_by_length(comparison, task) for task in comparison.tasks]
    return [drawing for drawing in shown if drawing is not None]


def colour_of(row: Row) -> str:
    """The colour of a candidate: green for the first one, blue for its equals, grey for all others."""
    if row.standing in ("winner", "leader"):
        return _FIRST
    if row.standing == "equal":
        return _EQUAL
    return _OUT


def draw_standings(comparison: Comparison) -> Drawing:
    """All candidates with their intervals, the best on top.

    The band of the first one is shaded over the whole height, and what is surely behind is grey: whose interval lies in
    the band is easily seen. That is not the test: two intervals may overlap although their paired difference
    lies below 0.
    """
    rows = comparison.rows
    metric = metric_name(comparison)
    title = f"{metric} with 95 % intervals; shaded: that of the first one; grey: surely behind"
    drawing, (axes,) = new_drawing("standings", title, _WIDTH, 1.0 + 0.3 * len(rows))
    for place, row in enumerate(rows):
        colour = colour_of(row)
        if row.score.is_known:
            axes.plot(
                [row.score.low, row.score.high], [place, place], color=colour, lw=2, alpha=0.6, zorder=2
            )
            if row.standing in ("winner", "leader"):
                axes.axvspan(row.score.low, row.score.high, color=_FIRST, alpha=0.1, lw=0, zorder=0)
        (point,) = axes.plot([row.score.mean], [place], "o", color=colour, ms=6, zorder=3)
        drawing.tip(
            point, f"{row.label}: {row.score.mean:.1f}, first in {percent(row.first_share)} of resamples"
        )
    axes.set_yticks(range(len(rows)), [_on_lines(row.label) for row in rows])
    for text, row in zip(axes.get_yticklabels(), rows, strict=True):
        if row.standing in ("out", "apart"):
            text.set_color(_OUT)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlabel(f"{metric} (%)")
    axes.grid(axis="x", color=GRID, lw=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    return drawing


def _on_lines(label: str) -> str:
    """A long name on two lines, so that it leaves room for the picture."""
    if len(label) <= _LONGEST:
        return label
    return label.replace(":", ":\n", 1)


def draw_costs(comparison: Comparison) -> Drawing | None:
    """Score against speed, None with fewer than two speeds.

    The numbers at the points are those of the table's rows. BM25, which encodes nothing, is a line over all speeds.
    """
    if sum(row.cost.tokens_per_second is not None for row in comparison.rows) < 2:
        return None
    metric = metric_name(comparison)
    title = f"{metric} against speed: up and to the right is better; numbers are the table's rows"
    drawing, (axes,) = new_drawing("cost", title, _WIDTH, 3.6)
    points = []
    for number, row in enumerate(comparison.rows, start=1):
        tip = f"{row.label}: {row.score.mean:.1f}"
        y = row.score.mean
        if row.is_bm25:
            line = axes.axhline(y, color=style(3).colour, lw=1.2, ls="--", zorder=1)
            drawing.tip(line, f"{tip}, encodes nothing")
            axes.annotate(
                f"{number} BM25, encodes nothing", (1, y), (-4, 3), xycoords=("axes fraction", "data"),
                textcoords="offset points", ha="right", va="bottom", fontsize=7,
            )  # fmt: skip
        elif row.cost.tokens_per_second is not None:
            x = row.cost.tokens_per_second
            draw_interval(axes, x, row.score, "#bbbbbb")
            axes.plot([min(row.cost.speeds), max(row.cost.speeds)], [y, y], color="#bbbbbb", lw=1, zorder=1)
            (point,) = axes.plot([x], [y], "o", color=colour_of(row), ms=5, zorder=3)
            drawing.tip(point, f"{tip}, {x:,.0f} tokens a second")
            points.append((str(number), x, y))
    axes.margins(0.1)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.xaxis.set_major_locator(_few_ticks())
    axes.set_xlabel("tokens a second (bar: slowest to fastest round)")
    axes.set_ylabel(f"{metric} (%)")
    _number(drawing, axes, points)
    return drawing


def _few_ticks() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(5)


def draw_by_length(comparison: Comparison, task: str) -> Drawing | None:
    """The scores by the length of documents, None if the splits do not say at least two lengths.

    Args:
        comparison: what is drawn: its first `_MOST_LINES` candidates.
        task: the name of one of its tasks.
    """
    lengths = {}
    for key in comparison.rows[0].by_split:
        length = split_length(key[1])
        if key[0] == task and length is not None:
            lengths[length] = key
    if len(lengths) < 2:
        return None
    metric = metric_name(comparison)
    title = f"{task}: {metric} by length of the documents, with 95 % intervals"
    drawing, (axes,) = new_drawing(f"by-length-{task}", title, _WIDTH, 3.8)
    short = labels(comparison)
    series = []
    for number, row in enumerate(comparison.rows[:_MOST_LINES]):
        look = style(number)
        parts = {length: row.by_split[lengths[length]] for length in sorted(lengths)}
        lows = [part.low for part in parts.values()]
        highs = [part.high for part in parts.values()]
        axes.fill_between(list(parts), lows, highs, color=look.colour, alpha=0.12, lw=0)
        tips = {length: f"{row.label}, {length} tokens: {part.mean:.1f}" for length, part in parts.items()}
        # without ends, because the band is the interval
        means = {length: Interval(part.mean, math.nan, math.nan) for length, part in parts.items()}
        series.append((short[row.name], means, tips, look))
    draw_lines(drawing, axes, series)
    axes.set(xlabel="tokens of a document", ylabel=f"{metric} (%)", ylim=(0, 102))
    drawing.legend(axes)
    return drawing


def _number(drawing: Drawing, axes: Axes, points: Sequence[tuple[str, float, float]]) -> None:
    """Write a number beside each point, at the nearest place where no other number or point is.

    Args:
        drawing: the figure, whose layout is made final here.
        axes: where the points are.
        points: number, and place in the units of the axes.
    """
    drawing.figure.draw_without_rendering()  # now the places on paper are known
    unit = drawing.figure.dpi / 72
    places = [axes.transData.transform((x, y)) / unit for _, x, y in points]
    taken = list(places)
    for (text, x, y), place in zip(points, places, strict=True):
        tried = []
        for radius in range(9, 60, 6):
            tried += [place + (radius * math.cos(angle), radius * math.sin(angle)) for angle in _ANGLES]
        chosen = next((spot for spot in tried if _is_free(spot, taken)), tried[0])
        taken.append(chosen)
        where: Any = {"textcoords": "offset points", "xytext": chosen - place, "ha": "center", "va": "center"}
        axes.annotate(text, (x, y), fontsize=7, **where)


def _is_free(spot: Any, taken: Sequence[Any]) -> bool:
    """Whether nothing is within 11 points to the side and 8 points above or below."""
    return all((abs(spot - other) >= (11, 8)).any() for other in taken)
