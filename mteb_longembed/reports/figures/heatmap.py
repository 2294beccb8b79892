"""Accuracy by model and context length: the paper's figure 1 (b)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from mteb_longembed.reports.figures.drawing import Drawing, draw_cells, length_label, new_drawing
from mteb_longembed.reports.public.published import published_lines
from mteb_longembed.reports.scores.bases import labels
from mteb_longembed.reports.scores.columns import COLUMNS, LENGTHS, PUBLISHED
from mteb_longembed.reports.scores.intervals import share_interval
from mteb_longembed.reports.scores.scoreboard import Line
from mteb_longembed.reports.tables.main import data_key, data_words

# The marks of the paper, which has models with 512 tokens and with 4k tokens.
_SHORT, _LONG = "▲", "♦"
_MARKS = {_SHORT: "reads fewer than 4k tokens", _LONG: "4k tokens or more"}


@dataclass(frozen=True)
class HeatmapData:
    """One task on one kind of data.

    Args:
        column: `Passkey` or `Needle`.
        data: The kind of data.
        rows: Label and Acc@1 in percent by context length in tokens. The best row is first, by the mean over the
            eight lengths; a length that was not measured counts as 0.
    """

    column: str
    data: str
    rows: tuple[tuple[str, dict[int, float]], ...]


def heatmap_data(lines: Iterable[Line], with_authors: bool = False) -> list[HeatmapData]:
    """Collect the data of one heat map for each task and kind of data.

    Args:
        lines: The score lines.
        with_authors: Add the authors' own results, only to the published data.
    """
    found = []
    for data, group in groupby(lines, key=lambda line: line.data):
        members = list(group)
        names = labels(line.model for line in members)
        for column in COLUMNS:
            if not column.is_by_length:
                continue
            rows = [
                (_label(line, names[line.model]), dict(line.by_length[column.key]))
                for line in members
                if line.by_length[column.key]
            ]
            if with_authors and data == PUBLISHED:
                rows += [
                    (f"{theirs.model} (authors)", dict(theirs.by_length[column.key]))
                    for theirs in published_lines()
                    if theirs.by_length
                ]
            if rows:
                rows.sort(
                    key=lambda row: -sum(row[1].get(n, 0) for n in LENGTHS)
                )  # in a tie, ours come first
                found.append(HeatmapData(column.key, data, tuple(rows)))
    return found


def draw(data: HeatmapData) -> Drawing:
    """Draw one heat map."""
    lengths = sorted({length for _, values in data.rows for length in values} | set(LENGTHS))
    title = f"{data.column}: Acc@1 (%) by context length, {data_words(data.data, 'data')}"
    width = 0.9 + 0.075 * max(len(label) for label, _ in data.rows) + 0.46 * len(lengths)
    key = f"heatmap-{data.column.lower()}-{data_key(data.data)}"
    drawing, (axes,) = new_drawing(key, title, width, 1.2 + 0.25 * len(data.rows))
    values = [[row.get(length) for length in lengths] for _, row in data.rows]
    tips = [
        [f"{label}, {length:,} tokens: {_percent(row.get(length))}" for length in lengths]
        for label, row in data.rows
    ]
    draw_cells(
        drawing,
        axes,
        [label for label, _ in data.rows],
        [length_label(length) for length in lengths],
        values,
        tips,
    )
    axes.set_xlabel("Context length (tokens)")
    drawing.figure.supxlabel(_key(data, values), fontsize=8)  # it may be as wide as the whole picture
    drawing.figure.suptitle(title, fontsize=10)
    return drawing


def _label(line: Line, name: str) -> str:
    tokens = line.model.name.target_len or line.model.max_tokens
    if tokens is None:
        return name
    return f"{name} {_LONG if tokens >= 4096 else _SHORT}"


def _key(data: HeatmapData, values: list[list[float | None]]) -> str:
    """The meaning of the marks that the picture has."""
    ends = {label[-1] for label, _ in data.rows}
    meanings = [f"{mark} {meaning}" for mark, meaning in _MARKS.items() if mark in ends]
    if any(value is None for row in values for value in row):
        meanings.append("hatched: not measured")
    if any(value is not None and share_interval(value) is not None for row in values for value in row):
        half = share_interval(50.0)
        assert half is not None
        sure = f"50 queries a cell: a 50 stands for {half.low:.0f} to {half.high:.0f} (95 %)"
        return "\n".join(filter(None, (", ".join(meanings), sure)))
    return ", ".join(meanings)


def _percent(value: float | None) -> str:
    if value is None:
        return "not measured"
    interval = share_interval(value)
    ends = "" if interval is None else f", 95 % interval {interval.low:.0f} to {interval.high:.0f}"
    return f"{value:.1f} %{ends}"
