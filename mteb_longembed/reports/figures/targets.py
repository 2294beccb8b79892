"""Scores by strategy and target length, one panel for each base: the paper's figure for E5 and GTE."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mteb_longembed.reports.figures.drawing import (
    Drawing,
    draw_lines,
    interval_key,
    length_label,
    new_drawing,
    styles,
)
from mteb_longembed.reports.scores.bases import group_by_base, shortened
from mteb_longembed.reports.scores.scoreboard import AVERAGE, Line
from mteb_longembed.reports.tables.main import data_key, data_words
from mteb_longembed.statistics.intervals import Interval


@dataclass(frozen=True)
class TargetsPanel:
    """One base.

    Args:
        base: Its hub id.
        base_score: The base's own length in tokens and its score, None if there is no whole score.
        series: For each variant (`+ntk`), the score in percent by target length in tokens.
        intervals: The 95 % intervals that are known, in percent.
    """

    base: str
    base_score: tuple[int, float] | None
    series: dict[str, dict[int, float]]
    intervals: dict[str, dict[int, Interval]] = field(default_factory=dict)


@dataclass(frozen=True)
class TargetsData:
    """All panels of one kind of data."""

    data: str
    score: str
    panels: tuple[TargetsPanel, ...]


def targets_data(
    lines: Iterable[Line], score: str = AVERAGE, bases: Sequence[str] | None = None
) -> list[TargetsData]:
    """Collect the bases that were extended to at least two target lengths.

    Args:
        lines: The score lines.
        score: A column's key or `Average`; partial scores are left out.
        bases: Only these bases, in this order; by default all.
    """
    by_data: dict[str, list[TargetsPanel]] = {}
    for group in group_by_base(lines):
        if bases is not None and group.base not in bases:
            continue
        series: dict[str, dict[int, float]] = {}
        intervals: dict[str, dict[int, Interval]] = {}
        for line in group.variants:
            value, target = line.whole(score), line.model.name.target_len
            if value is not None and target is not None:
                series.setdefault(line.model.name.variant, {})[target] = value
                interval = line.score(score).interval
                if interval is not None:
                    intervals.setdefault(line.model.name.variant, {})[target] = interval
        if len({target for values in series.values() for target in values}) < 2:
            continue
        own = None
        if group.line is not None:
            value, length = (
                group.line.whole(score),
                group.line.model.name.target_len or group.line.model.max_tokens,
            )
            own = None if value is None or length is None else (length, value)
            interval = group.line.score(score).interval
            if length is not None and interval is not None:
                for variant, values in series.items():
                    if length < min(values):  # every strategy starts from the base itself
                        intervals.setdefault(variant, {})[length] = interval
        by_data.setdefault(group.data, []).append(TargetsPanel(group.base, own, series, intervals))
    if bases is not None:
        for panels in by_data.values():
            panels.sort(key=lambda panel: bases.index(panel.base))
    return [TargetsData(data, score, tuple(panels)) for data, panels in by_data.items()]


def draw(data: TargetsData) -> Drawing:
    """Draw the panels, two in a row, all with the same scale."""
    n_columns = min(2, len(data.panels))
    n_rows = math.ceil(len(data.panels) / n_columns)
    title = f"{data.score} (%) by strategy and target length, {data_words(data.data)}"
    key = f"targets-{data.score.lower()}-{data_key(data.data)}"
    drawing, all_axes = new_drawing(key, title, 4.6 * n_columns, 0.9 + 2.9 * n_rows, n_rows, n_columns)
    looks = styles(dict.fromkeys(name for panel in data.panels for name in panel.series))
    for axes, panel in zip(all_axes, data.panels, strict=False):
        lines = []
        for name, values in panel.series.items():
            points = dict(values)
            if panel.base_score is not None and panel.base_score[0] < min(points):
                # Every strategy starts from the base itself.
                points[panel.base_score[0]] = panel.base_score[1]
            tips = {n: f"{panel.base}{name}, {length_label(n)}: {value:.1f}" for n, value in points.items()}
            lines.append((name, points, tips, looks[name]))
        draw_lines(drawing, axes, lines, panel.intervals)
        axes.set_title(shortened(panel.base), fontsize=9)
        axes.set_xlabel("Target length (tokens)")
        axes.set_ylabel(f"{data.score} (%)")
    for axes in all_axes[len(data.panels) :]:
        axes.set_visible(False)
    low = min(axes.get_ylim()[0] for axes in all_axes[: len(data.panels)])
    high = max(axes.get_ylim()[1] for axes in all_axes[: len(data.panels)])
    for axes in all_axes:
        axes.set_ylim(low, high)
    drawing.figure.suptitle(title, fontsize=10)
    note = interval_key(any(panel.intervals for panel in data.panels))
    drawing.legend(*all_axes, note=note)
    return drawing
