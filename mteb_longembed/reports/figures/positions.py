"""The best score at each target length: rotary against absolute positions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mteb_longembed.reports.figures.drawing import Drawing, draw_lines, interval_key, new_drawing, style
from mteb_longembed.reports.public.published import position_kind, trained_len
from mteb_longembed.reports.scores.bases import group_by_base
from mteb_longembed.reports.scores.scoreboard import AVERAGE, Line
from mteb_longembed.reports.tables.main import data_key, data_words
from mteb_longembed.statistics.intervals import Interval

ABSOLUTE = "absolute"
ROTARY = "rotary"
_NAMES = {ABSOLUTE: "APE", ROTARY: "RoPE"}


@dataclass(frozen=True)
class PositionsData:
    """The best scores of each kind of positions.

    Args:
        data: The kind of Passkey and Needle data.
        score: A column's key or `Average`.
        best: By kind of positions and target length: the score in percent and the model that reached it.
        intervals: The 95 % intervals that are known, in percent.
    """

    data: str
    score: str
    best: dict[str, dict[int, tuple[float, str]]]
    intervals: dict[str, dict[int, Interval]] = field(default_factory=dict)


def positions_data(
    lines: Iterable[Line], score: str = AVERAGE, kinds: Mapping[str, str] | None = None
) -> list[PositionsData]:
    """Gather the best score over bases and strategies at each target length.

    Args:
        lines: The score lines.
        score: A column's key or `Average`; partial scores are left out.
        kinds: `absolute` or `rotary` by base. By default the models of the paper, but only those with the most common
            trained length.
    """
    groups = group_by_base(lines)
    if kinds is None:
        kinds = _known_kinds({group.base for group in groups})
    by_data: dict[str, dict[str, dict[int, tuple[float, str]]]] = {}
    intervals: dict[str, dict[str, dict[int, Interval]]] = {}
    for group in groups:
        kind = kinds.get(group.base)
        if kind is None:
            continue
        for line in (group.line, *group.variants):
            value = None if line is None else line.whole(score)
            if line is None or value is None:
                continue
            target = line.model.name.target_len or line.model.max_tokens
            best = by_data.setdefault(group.data, {}).setdefault(kind, {})
            if target is not None and value > best.get(target, (-1.0, ""))[0]:
                best[target] = (value, line.model.name.full)
                known = intervals.setdefault(group.data, {}).setdefault(kind, {})
                known.pop(target, None)
                interval = line.score(score).interval
                if interval is not None:
                    known[target] = interval
    return [
        PositionsData(data, score, best, intervals.get(data, {}))
        for data, best in by_data.items()
        if {ABSOLUTE, ROTARY} <= set(best)
    ]


def _known_kinds(bases: set[str]) -> dict[str, str]:
    kinds = {
        base: kind for base in sorted(bases) if (kind := position_kind(base)) in _NAMES and kind is not None
    }
    lengths = Counter(trained_len(base) for base in kinds)
    if not lengths:
        return {}
    usual = lengths.most_common(1)[0][0]
    return {base: kind for base, kind in kinds.items() if trained_len(base) == usual}


def draw(data: PositionsData) -> Drawing:
    """Draw one line for each kind of positions."""
    title = f"Best {data.score} (%) by target length, {data_words(data.data)}"
    key = f"positions-{data.score.lower()}-{data_key(data.data)}"
    drawing, (axes,) = new_drawing(key, title, 5.6, 3.8)
    series = []
    for number, kind in ((1, ABSOLUTE), (5, ROTARY)):
        best = data.best[kind]
        values = {length: value for length, (value, _) in best.items()}
        tips = {length: f"{_NAMES[kind]}: {value:.1f}, {name}" for length, (value, name) in best.items()}
        series.append((f"{_NAMES[kind]} ({kind} positions)", values, tips, style(number)))
        for length, (value, name) in best.items():
            # Labels are above the upper line and below the lower line, so that no label is on a line.
            other = data.best[ROTARY if kind == ABSOLUTE else ABSOLUTE].get(length, (0.0, ""))[0]
            is_upper = value > other or (value == other and kind == ROTARY)
            # Lines mostly rise: there is room above to the left, and below to the right.
            dx, dy, ha, va = (-8, 5, "right", "bottom") if is_upper else (8, -5, "left", "top")
            label = (
                "base"
                if "+" not in name or "+none" in name
                else "+" + name.partition("+")[2].partition("@")[0]
            )
            axes.annotate(
                label,
                (length, value),
                (dx, dy),
                textcoords="offset points",
                ha=ha,
                va=va,
                fontsize=8,
            )
    names = {kind: f"{_NAMES[kind]} ({kind} positions)" for kind in _NAMES}
    known = {names[kind]: found for kind, found in data.intervals.items() if found}
    draw_lines(drawing, axes, series, known)
    axes.margins(x=0.14, y=0.16)
    axes.set_xlabel("Target length (tokens)")
    axes.set_ylabel(f"{data.score} (%)")
    drawing.figure.suptitle(title, fontsize=10)
    drawing.legend(axes, note=interval_key(bool(known)))
    return drawing
