"""What strategies make of a base: points gained, task by task, and the average over target lengths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from itertools import chain

from mteb_longembed.reports.scores.base_groups import BaseGroup
from mteb_longembed.reports.scores.columns import AVERAGE, SCORE_KEYS
from mteb_longembed.reports.scores.scoreboard import Line, gain
from mteb_longembed.reports.tables.table import rounded
from mteb_longembed.statistics.intervals import Interval

from .drawing import (
    GRID,
    Drawing,
    draw_interval,
    draw_lines,
    ends,
    length_label,
    new_drawing,
    style,
)

#: The points gained in each column, by the variant's label.
_Gains = Mapping[str, Mapping[str, Interval]]
#: The averages by variant (`+ntk`) and target length.
_Targets = Mapping[str, Mapping[int, Interval]]


def draw(group: BaseGroup) -> list[Drawing]:
    """Bars of points gained, and a line for each strategy, as far as there are whole scores."""
    drawings = []
    bars = improvement(group)
    if bars:
        drawings.append(_draw_bars(group, bars))
    curves = targets(group)
    if curves:
        drawings.append(_draw_curves(group, curves))
    return drawings


def improvement(group: BaseGroup) -> _Gains:
    """The gain by each strategy at its longest target length, in the paper's order; empty without the base."""
    if group.line is None:
        return {}
    bars = {}
    for variant, lines in group.by_variant().items():
        longest = lines[-1]
        gains = {key: gain(longest.scores[key], group.line.scores[key]) for key in SCORE_KEYS}
        known = {key: gained for key, gained in gains.items() if gained is not None}
        if known:
            bars[f"{variant}@{longest.model.tokens}"] = known
    return bars


def _draw_bars(group: BaseGroup, bars: _Gains) -> Drawing:
    """Grouped bars for the six columns and their average; columns without bars are left out."""
    measured = set(chain.from_iterable(bars.values()))
    keys = [key for key in SCORE_KEYS if key in measured]
    title = f"Points gained over {group.label}, {group.data} Passkey and Needle"
    key = f"improvement-{group.label}-{group.data}"
    drawing, (axes,) = new_drawing(key, title, max(4.5, 1.3 * len(keys)), 3.8)
    width = 0.84 / len(bars)
    for number, (label, gained) in enumerate(bars.items()):
        look = style(number)
        middles = [keys.index(column) - 0.42 + width * (number + 0.5) for column in gained]
        heights = [score.mean for score in gained.values()]
        draw_bars = partial(axes.bar, color=look.colour, hatch=look.hatch, edgecolor="white")
        drawn = draw_bars(middles, heights, width * 0.92, label=label, lw=0)
        for bar, middle, (column, score) in zip(drawn, middles, gained.items(), strict=True):
            draw_interval(axes, middle, score)
            drawing.tip(bar, f"{label}, {column}: {rounded(score.mean):+f} points{ends(score)}")
    axes.axhline(0, color="black", lw=0.8)
    if AVERAGE in keys:  # a line between the columns and their average
        axes.axvline(len(keys) - 1.5, color="#999999", lw=0.8, ls=":")
    axes.set_xticks(range(len(keys)), keys)
    axes.set(xlim=(-0.6, len(keys) - 0.4), ylabel="Difference (points)")
    axes.grid(axis="y", color=GRID, lw=0.6)
    axes.set_axisbelow(True)
    drawing.figure.suptitle(title, fontsize=10, wrap=True)
    drawing.legend(axes, note="thin bars: 95 % interval over queries, where it is known")
    return drawing


def targets(group: BaseGroup) -> _Targets:
    """The averages by variant and target length, each from the base itself on; empty with fewer than two lengths."""
    series = {}
    for variant, lines in group.by_variant().items():
        averages = _averages(lines)
        if averages:
            series[variant] = averages
    if len(set(chain.from_iterable(series.values()))) < 2:
        return {}
    if group.line is not None:
        for values in series.values():
            for length, average in _averages([group.line]).items():
                if length < min(values):
                    values[length] = average
    return series


def _averages(lines: Iterable[Line]) -> dict[int, Interval]:
    """The whole averages by target length."""
    averages = {}
    for line in lines:
        average = line.scores[AVERAGE].complete
        if average is not None and line.model.tokens is not None:
            averages[line.model.tokens] = average
    return averages


def _draw_curves(group: BaseGroup, curves: _Targets) -> Drawing:
    """A line for each strategy, as in the paper's figure for E5 and GTE."""
    title = f"{AVERAGE} (%) of {group.label} by target length, {group.data} Passkey and Needle"
    drawing, (axes,) = new_drawing(f"targets-{group.label}-{group.data}", title, 5.6, 3.8)
    lines = []
    for number, (name, values) in enumerate(curves.items()):
        tips = {n: f"{name}, {length_label(n)}: {rounded(score.mean)}" for n, score in values.items()}
        lines.append((name, values, tips, style(number)))
    draw_lines(drawing, axes, lines)
    axes.set(xlabel="Target length (tokens)", ylabel=f"{AVERAGE} (%)")
    drawing.figure.suptitle(title, fontsize=10, wrap=True)
    drawing.legend(axes, note="no intervals: the scores of single queries are not known")
    return drawing
