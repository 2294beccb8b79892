"""Bars of points gained, task by task: by each strategy over its base, and by tuning the new positions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, product

from mteb_longembed.reports.scores.base_groups import group_by_base, labels, shortened, strategy_rank
from mteb_longembed.reports.scores.scoreboard import AVERAGE, Line
from mteb_longembed.reports.tables.paper_tables import data_key, data_words
from mteb_longembed.reports.tables.table import SCORE_HEADER, rounded
from mteb_longembed.statistics.intervals import Interval, difference_of_intervals

from .drawing import GRID, Drawing, draw_interval, ends, interval_key, new_drawing, styles


@dataclass(frozen=True)
class Bars:
    """Differences in points.

    Args:
        key: of the figure.
        title: of the figure.
        bars: label, and the differences by column. Both scores of a difference are whole.
    """

    key: str
    title: str
    bars: tuple[tuple[str, dict[str, Interval]], ...]


def improvement(lines: Iterable[Line]) -> list[Bars]:
    """For each base, the gain by each strategy at its longest target length in the results.

    Args:
        lines: models with their scores. Bases that were not measured have no chart.
    """
    charts = []
    for group in group_by_base(lines):
        if group.line is None:
            continue
        # Sorted by target length, so the last one of a name is the longest.
        longest = {group.name(line): line for line in group.variants if line.model.name.target_len}
        ranked = sorted(longest.items(), key=lambda item: strategy_rank(item[1].model.name.strategy))
        bars = [(f"{name}@{line.model.name.target_len}", gains(group.line, line)) for name, line in ranked]
        title = f"Points gained over {group.label}, {data_words(group.data)}"
        if group.warning:
            title += "\n(the base's scores are of another revision)"
        charts.append(Bars(f"improvement-{group.key}-{data_key(group.data)}", title, _kept(bars)))
    return [data for data in charts if data.bars]


def tuning(lines: Sequence[Line], pairs: Sequence[Sequence[str]]) -> list[Bars]:
    """Each tuned model against the extended model before tuning.

    Args:
        lines: models with their scores.
        pairs: the names before and after, as tables print them. Every revision of a model has bars of its own.
    """
    charts = []
    for data in dict.fromkeys(line.data for line in lines):
        members = [line for line in lines if line.data == data]
        names = labels(line.model for line in members)
        bars = []
        for pair in pairs:
            # Every revision of a model has bars of its own.
            before, after = (_named(members, name) for name in pair)
            for a, b in product(before, after):
                label = f"{names[a.model]} to {names[b.model]},"
                if len(before) == len(after) == 1:
                    label = a.model.name.variant
                bars.append((f"{label} tuned", gains(a, b)))
        title = f"Points gained by tuning the new positions, {data_words(data)}"
        charts.append(Bars(f"tuning-{data_key(data)}", title, _kept(bars)))
    return [data for data in charts if data.bars]


def _named(lines: Iterable[Line], name: str) -> list[Line]:
    return [line for line in lines if shortened(line.model.name.full) == name]


def _kept(bars: Iterable[tuple[str, dict[str, Interval]]]) -> tuple[tuple[str, dict[str, Interval]], ...]:
    return tuple((shortened(label), differences) for label, differences in bars if differences)


def gains(before: Line, after: Line) -> dict[str, Interval]:
    """The difference between two lines in points, for each column with two whole scores; unknown ends are nan."""
    pairs = {key: (before.score(key).complete, after.score(key).complete) for key in SCORE_HEADER}
    return {key: difference_of_intervals(a, b) for key, (a, b) in pairs.items() if a and b}


def draw(data: Bars) -> Drawing:
    """Draw grouped bars for the six columns and their average; columns without bars are left out."""
    measured: dict[str, Interval] = {}
    for _, differences in data.bars:
        measured |= differences
    keys = [key for key in SCORE_HEADER if key in measured]
    drawing, (axes,) = new_drawing(data.key, data.title, max(4.5, 1.3 * len(keys)), 3.8)
    width = 0.84 / len(data.bars)
    looks = styles(label for label, _ in data.bars)
    for i, (label, differences) in enumerate(data.bars):
        look = looks[label]
        draw_bar = partial(axes.bar, color=look.colour, hatch=look.hatch, edgecolor="white", lw=0)
        for column, value in differences.items():
            middle = keys.index(column) - 0.42 + width * (i + 0.5)
            (bar,) = draw_bar(middle, value.mean, width * 0.92)
            draw_interval(axes, middle, value)
            drawing.tip(bar, f"{label}, {column}: {rounded(value.mean):+f} points{ends(value, '+')}")
        draw_bar([0], [0], label=label)
    axes.axhline(0, color="black", lw=0.8)
    if AVERAGE in keys:  # a line between the columns and their average
        axes.axvline(len(keys) - 1.5, color="#999999", lw=0.8, ls=":")
    axes.set_xticks(range(len(keys)), keys)
    axes.set(xlim=(-0.6, len(keys) - 0.4), ylabel="Difference (points)")
    axes.grid(axis="y", color=GRID, lw=0.6)
    axes.set_axisbelow(True)
    drawing.figure.suptitle(data.title, fontsize=10)
    shown = chain.from_iterable(differences.values() for _, differences in data.bars)
    drawing.legend(axes, note=interval_key(shown))
    return drawing
