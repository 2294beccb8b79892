"""Scores over lengths: by strategy and target length, rotary against absolute positions, and by tokens read."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

from mteb_longembed.reports.scores.base_groups import group_by_base
from mteb_longembed.reports.scores.published_numbers import position_kind, trained_len
from mteb_longembed.reports.scores.scoreboard import AVERAGE, Line
from mteb_longembed.reports.tables.paper_tables import data_key, data_words
from mteb_longembed.reports.tables.table import rounded
from mteb_longembed.statistics.intervals import Interval

from .drawing import Drawing, draw_lines, ends, interval_key, length_label, new_drawing, style, styles

ABSOLUTE = "absolute"
ROTARY = "rotary"
#: Where a label stands beside its point: to the right and up in points, and which of its corners is there.
_ABOVE = (-8, 5, "right", "bottom")
_BELOW = (8, -5, "left", "top")
_NAMES = {ABSOLUTE: "APE (absolute positions)", ROTARY: "RoPE (rotary positions)"}


@dataclass(frozen=True)
class Targets:
    """The scores of extended models by target length, on one kind of data.

    Args:
        data: the kind.
        score: a column's key or `Average`.
        panels: by base and variant (`+ntk`), the score by target length; each starts from the base itself.
    """

    data: str
    score: str  # a column's key or `Average`
    panels: Mapping[str, Mapping[str, Mapping[int, Interval]]]


def targets(lines: Iterable[Line], score: str = AVERAGE) -> list[Targets]:
    """The bases that were extended to at least two target lengths; partial scores are left out.

    Args:
        lines: models with their scores.
        score: a column's key or `Average`.
    """
    by_data: dict[str, dict[str, dict[str, dict[int, Interval]]]] = {}
    for group in group_by_base(lines):
        series: dict[str, dict[int, Interval]] = {}
        for line in group.variants:
            known = line.score(score).complete
            target = line.model.name.target_len
            if known is not None and target is not None:
                series.setdefault(group.name(line), {})[target] = known
        if len(set(chain.from_iterable(series.values()))) < 2:
            continue
        if group.line is not None and not group.warning:
            length = group.line.model.tokens
            known = group.line.score(score).complete
            for values in series.values():
                if length and known and length < min(values):
                    values[length] = known
        by_data.setdefault(group.data, {})[group.label] = series
    return [Targets(data, score, panels) for data, panels in sorted(by_data.items())]


def draw_targets(data: Targets) -> Drawing:
    """Draw the panels, two in a row, all with the same scale: the paper's figure for E5 and GTE."""
    n_columns = min(2, len(data.panels))
    n_rows = math.ceil(len(data.panels) / n_columns)
    title = f"{data.score} (%) by strategy and target length, {data_words(data.data)}"
    key = f"targets-{data.score.lower()}-{data_key(data.data)}"
    drawing, all_axes = new_drawing(key, title, 4.6 * n_columns, 0.9 + 2.9 * n_rows, n_rows, n_columns)
    looks = styles(dict.fromkeys(chain.from_iterable(data.panels.values())))
    used = all_axes[: len(data.panels)]
    for axes in used[1:]:
        axes.sharey(used[0])
    for axes, (base, series) in zip(used, data.panels.items(), strict=True):
        lines = []
        for name, values in series.items():
            tips = {
                n: f"{base}{name}, {length_label(n)}: {rounded(v.mean)}{ends(v)}" for n, v in values.items()
            }
            lines.append((name, values, tips, looks[name]))
        draw_lines(drawing, axes, lines)
        axes.set_title(base, fontsize=9)
        axes.set(xlabel="Target length (tokens)", ylabel=f"{data.score} (%)")
    for axes in all_axes[len(data.panels) :]:
        axes.set_visible(False)
    drawing.figure.suptitle(title, fontsize=10)
    shown: list[Interval] = []
    for series in data.panels.values():
        for values in series.values():
            shown += values.values()
    drawing.legend(*all_axes, note=interval_key(shown))
    return drawing


@dataclass(frozen=True)
class Positions:
    """The best scores on one kind of data, by kind of positions.

    Args:
        data: the kind of data.
        score: a column's key or `Average`.
        best: by kind of positions and target length, the score with the model that reached it.
    """

    data: str
    score: str
    best: dict[str, dict[int, tuple[Interval, str]]]


def positions(lines: Iterable[Line], score: str = AVERAGE) -> list[Positions]:
    """The best score over bases and strategies at each target length; partial scores are left out.

    Only the paper's models with absolute or rotary positions count, and of these the most common trained length.
    """
    groups = group_by_base(lines)
    bases = sorted({group.base for group in groups})
    papers = {base: str(position_kind(base)) for base in bases if position_kind(base) in _NAMES}
    usual = Counter(map(trained_len, papers)).most_common(1)
    kinds = {base: kind for base, kind in papers.items() if trained_len(base) == usual[0][0]}
    by_data: dict[str, dict[str, dict[int, tuple[Interval, str]]]] = {}
    for group in groups:
        if group.base not in kinds:
            continue
        for line in filter(None, (group.line, *group.variants)):
            known = line.score(score).complete
            target = line.model.tokens
            if known and target:
                best = by_data.setdefault(group.data, {}).setdefault(kinds[group.base], {})
                if target not in best or known.mean > best[target][0].mean:
                    best[target] = (known, line.model.name.full)
    both = {ABSOLUTE, ROTARY}
    return [Positions(data, score, best) for data, best in by_data.items() if both <= set(best)]


def draw_positions(data: Positions) -> Drawing:
    """Draw one line for each kind of positions."""
    title = f"Best {data.score} (%) by target length, {data_words(data.data)}"
    drawing, (axes,) = new_drawing(f"positions-{data.score.lower()}-{data_key(data.data)}", title, 5.6, 3.8)
    series = []
    for number, kind in ((1, ABSOLUTE), (5, ROTARY)):
        best = data.best[kind]
        others = data.best[ABSOLUTE]
        if kind == ABSOLUTE:
            others = data.best[ROTARY]
        values = {length: value for length, (value, _) in best.items()}
        tips = {n: f"{_NAMES[kind]}: {rounded(v.mean)}{ends(v)}, {name}" for n, (v, name) in best.items()}
        series.append((_NAMES[kind], values, tips, style(number)))
        for length, (value, name) in best.items():
            # Labels are above the upper line and below the lower line, so that no label is on a line.
            other = 0.0
            if length in others:
                other = others[length][0].mean
            is_upper = (value.mean, kind) > (other, ABSOLUTE)
            # Lines mostly rise: there is room above to the left, and below to the right.
            dx, dy, ha, va = _BELOW
            if is_upper:
                dx, dy, ha, va = _ABOVE
            strategy = name.partition("+")[2].partition("@")[0]
            label = f"+{strategy}"
            if strategy in ("", "none"):
                label = "base"
            point = (length, value.mean)
            axes.annotate(label, point, (dx, dy), textcoords="offset points", ha=ha, va=va, fontsize=8)
    draw_lines(drawing, axes, series)
    axes.margins(x=0.14, y=0.16)
    axes.set(xlabel="Target length (tokens)", ylabel=f"{data.score} (%)")
    drawing.figure.suptitle(title, fontsize=10)
    shown = chain.from_iterable(values.values() for _, values, _, _ in series)
    drawing.legend(axes, note=interval_key(shown))
    return drawing
