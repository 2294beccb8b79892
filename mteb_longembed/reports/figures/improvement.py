"""Improvement bars: points that each strategy adds to a base model, task by task."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mteb_longembed.reports.bases import group_by_base, strategy_rank
from mteb_longembed.reports.columns import COLUMNS
from mteb_longembed.reports.figures.drawing import Drawing, new_drawing, styles
from mteb_longembed.reports.scoreboard import AVERAGE, Line
from mteb_longembed.reports.tables.main import data_key, data_words

KEYS = (*(column.key for column in COLUMNS), AVERAGE)


@dataclass(frozen=True)
class ImprovementData:
    """Differences to one base, in points.

    Args:
        base: The base's hub id.
        data: The kind of data.
        bars: For each variant (`+ntk@4096`) the differences by column, only those whose two sides are whole.
    """

    base: str
    data: str
    bars: tuple[tuple[str, dict[str, float]], ...]


def improvement_data(lines: Iterable[Line]) -> list[ImprovementData]:
    """For each base, each strategy at the longest target length that it was run at."""
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


def gains(before: Line, after: Line) -> dict[str, float]:
    """Points from one line to another by column, where both are whole."""
    found = {}
    for key in KEYS:
        low, high = before.whole(key), after.whole(key)
        if low is not None and high is not None:
            found[key] = high - low
    return found


def draw(data: ImprovementData) -> Drawing:
    """Draw the bars of one base."""
    title = f"Points gained over {data.base}, {data_words(data.data)}"
    key = f"improvement-{data.base.replace('/', '__')}-{data_key(data.data)}"
    return draw_bars(key, title, data.bars)


def draw_bars(key: str, title: str, bars: Iterable[tuple[str, dict[str, float]]]) -> Drawing:
    """Grouped bars over those of the six columns and their average for which there are bars.

    Args:
        key: A short name, legal in file names.
        title: What it shows.
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
            (bar,) = axes.bar(x - 0.42 + width * (i + 0.5), value, width * 0.92, **look)
            drawing.tip(bar, f"{label}, {column}: {value:+.1f} points")
        axes.bar([0], [0], label=label, **look)
    axes.axhline(0, color="black", lw=0.8)
    if AVERAGE in keys:  # stands apart from what it is the average of
        axes.axvline(len(keys) - 1.5, color="#999999", lw=0.8, ls=":")
    axes.set_xticks(range(len(keys)), keys)
    axes.set_xlim(-0.6, len(keys) - 0.4)
    axes.set_ylabel("Difference (points)")
    axes.grid(axis="y", color="#dddddd", lw=0.6)
    axes.set_axisbelow(True)
    drawing.figure.suptitle(title, fontsize=10)
    drawing.legend(axes)
    return drawing
