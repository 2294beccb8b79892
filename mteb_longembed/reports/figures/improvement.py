"""Improvement bars: points that each strategy adds to a base model, task by task."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mteb_longembed.reports.figures.drawing import Drawing, interval_key, new_drawing, styles
from mteb_longembed.reports.scores.bases import group_by_base, shortened, strategy_rank
from mteb_longembed.reports.scores.columns import COLUMNS
from mteb_longembed.reports.scores.scoreboard import AVERAGE, Line
from mteb_longembed.reports.tables.main import data_key, data_words
from mteb_longembed.statistics.intervals import Interval, difference_of_intervals

KEYS = (*(column.key for column in COLUMNS), AVERAGE)


@dataclass(frozen=True)
class ImprovementData:
    """Differences to one base, in points.

    Args:
        base: The base's hub id.
        data: The kind of data.
        bars: For each variant (`+ntk@4096`), the differences by column. Both scores must be whole.
    """

    base: str
    data: str
    bars: tuple[tuple[str, dict[str, Interval]], ...]


def improvement_data(lines: Iterable[Line]) -> list[ImprovementData]:
    """The data for each base: each strategy at its longest target length in the results."""
    found = []
    for group in group_by_base(lines):
        if group.line is None:
            continue
        longest: dict[str, Line] = {}
        for line in group.variants:  # Sorted by target length, so the last one is the longest.
            if line.model.name.target_len is not None:
                longest[line.model.name.variant] = line
        bars = []
        for line in sorted(longest.values(), key=lambda line: strategy_rank(line.model.name.strategy)):
            differences = gains(group.line, line)
            if differences:
                bars.append((line.model.name.full[len(group.base) :], differences))
        if bars:
            found.append(ImprovementData(group.base, group.data, tuple(bars)))
    return found


def gains(before: Line, after: Line) -> dict[str, Interval]:
    """The difference between two lines in points, for each column with two whole scores; unknown ends are nan."""
    found = {}
    for key in KEYS:
        first, second = before.score(key), after.score(key)
        if first.whole is None or second.whole is None:
            continue
        if first.interval is None or second.interval is None:
            found[key] = Interval(second.whole - first.whole, math.nan, math.nan)
        else:
            found[key] = difference_of_intervals(first.interval, second.interval)
    return found


def draw(data: ImprovementData) -> Drawing:
    """Draw the bars of one base."""
    title = f"Points gained over {shortened(data.base)}, {data_words(data.data)}"
    key = f"improvement-{data.base.replace('/', '__')}-{data_key(data.data)}"
    return draw_bars(key, title, data.bars)


def draw_bars(key: str, title: str, bars: Iterable[tuple[str, dict[str, Interval]]]) -> Drawing:
    """Draw grouped bars for the six columns and their average; columns without bars are left out.

    Args:
        key: A short name that is allowed in file names.
        title: The title.
        bars: Label and differences in points by column.
    """
    series = list(bars)
    keys = [key for key in KEYS if any(key in differences for _, differences in series)]
    drawing, (axes,) = new_drawing(key, title, max(4.5, 1.3 * len(keys)), 3.8)
    width = 0.84 / len(series)
    looks = styles(label for label, _ in series)
    for i, (label, differences) in enumerate(series):
        look: dict[str, Any] = {
            "color": looks[label].colour,
            "hatch": looks[label].hatch,
            "edgecolor": "white",
            "lw": 0,
        }
        for x, column in enumerate(keys):
            if column not in differences:
                continue
            value = differences[column]
            middle = x - 0.42 + width * (i + 0.5)
            (bar,) = axes.bar(middle, value.mean, width * 0.92, **look)
            ends = ""
            if value.is_known:
                axes.plot([middle, middle], [value.low, value.high], color="#333333", lw=1)
                ends = f", 95 % interval {value.low:+.1f} to {value.high:+.1f}"
            drawing.tip(bar, f"{label}, {column}: {value.mean:+.1f} points{ends}")
        axes.bar([0], [0], label=label, **look)
    axes.axhline(0, color="black", lw=0.8)
    if AVERAGE in keys:  # a line between the columns and their average
        axes.axvline(len(keys) - 1.5, color="#999999", lw=0.8, ls=":")
    axes.set_xticks(range(len(keys)), keys)
    axes.set_xlim(-0.6, len(keys) - 0.4)
    axes.set_ylabel("Difference (points)")
    axes.grid(axis="y", color="#dddddd", lw=0.6)
    axes.set_axisbelow(True)
    n_known = sum(value.is_known for _, differences in series for value in differences.values())
    n_all = sum(len(differences) for _, differences in series)
    words = interval_key(n_known > 0)
    if 0 < n_known < n_all:
        words += "; for bars without one, the scores of single queries are not known"
    drawing.figure.suptitle(title, fontsize=10)
    drawing.legend(axes, note=words)
    return drawing
