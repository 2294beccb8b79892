"""Accuracy by model and context length: the paper's figure 1 (b)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from mteb_longembed.reports.bases import labels
from mteb_longembed.reports.columns import COLUMNS, LENGTHS, PUBLISHED
from mteb_longembed.reports.figures.drawing import Drawing, draw_cells, length_label, new_drawing
from mteb_longembed.reports.published import published_lines
from mteb_longembed.reports.scoreboard import Line
from mteb_longembed.reports.tables.main import data_key


@dataclass(frozen=True)
class HeatmapData:
    """One task on one kind of data.

    Args:
        column: `Passkey` or `Needle`.
        data: The kind of data.
        rows: Label and Acc@1 in percent by context length in tokens, best mean first.
    """

    column: str
    data: str
    rows: tuple[tuple[str, dict[int, float]], ...]


def heatmap_data(lines: Iterable[Line], with_authors: bool = False) -> list[HeatmapData]:
    """Gather by task and kind of data; the authors' rows join the published data only.

    Args:
        lines: The score lines.
        with_authors: Add the authors' own results.
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
                rows.sort(key=lambda row: (-sum(row[1].get(n, 0) for n in LENGTHS), row[0]))
                found.append(HeatmapData(column.key, data, tuple(rows)))
    return found


def draw(data: HeatmapData) -> Drawing:
    """Draw one heat map."""
    lengths = sorted({length for _, values in data.rows for length in values} | set(LENGTHS))
    title = f"{data.column}: Acc@1 (%) by context length, {data.data} data"
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
    drawing.figure.suptitle(title, fontsize=10)
    return drawing


def _label(line: Line, name: str) -> str:
    # The paper's marks: a triangle for 512 tokens of context, a diamond for 4k and more.
    tokens = line.model.name.target_len or line.model.max_tokens
    if tokens is None:
        return name
    return f"{name} {'♦' if tokens >= 4096 else '▲'}"


def _percent(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.1f} %"
