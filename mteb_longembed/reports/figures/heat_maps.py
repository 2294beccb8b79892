"""Heat maps of accuracy: models by context length, the paper's figure 1 (b)."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from mteb_longembed.reports.scores.scoreboard import Line, accuracies, by_data
from mteb_longembed.reports.tables.table import rounded
from mteb_longembed.statistics.intervals import Interval

from .drawing import GRID, Drawing, ends, length_label, new_drawing

#: Numbers on coloured cells keep their colour on a dark page: dark on pale cells, white from this accuracy on.
_INKS = ("#111111", "#ffffff")
_DARK = 60


def draw(lines: Iterable[Line]) -> list[Drawing]:
    """A heat map for each of Passkey and Needle and each kind of data."""
    drawings = []
    for data, members in by_data(lines).items():
        for column in members[0].by_length:
            scores = accuracies(members, column)
            if not scores.empty:
                title = f"{column}: Acc@1 (%) by context length, {data} data"
                drawings.append(_draw(f"heatmap-{column.lower()}-{data}", title, scores))
    return drawings


def _draw(key: str, title: str, cells: pd.DataFrame) -> Drawing:
    """A heat map in the paper's green, from 0 to 100, with the numbers in the cells."""
    from matplotlib import colormaps
    from matplotlib.patches import Rectangle

    n_rows, n_columns = cells.shape
    width = 0.9 + 0.075 * max(map(len, cells.index)) + 0.46 * n_columns
    drawing, (axes,) = new_drawing(key, title, width, 0.9 + 0.25 * n_rows)
    axes.set_facecolor("#eeeeee")  # a cell that was not measured must not look like 0
    greens = colormaps["Greens"]
    for y, (label, row) in enumerate(cells.iterrows()):
        for x, (length, score) in enumerate(row.items()):
            if isinstance(score, Interval):
                cell = Rectangle((x, y), 1, 1, facecolor=greens(score.mean / 100), edgecolor=GRID, lw=0.8)
                axes.add_patch(cell)
                drawing.tip(cell, f"{label}, {length:,} tokens: {rounded(score.mean)} %{ends(score)}")
                ink = _INKS[score.mean > _DARK]
                number = str(rounded(score.mean, 0))
                axes.text(x + 0.5, y + 0.5, number, fontsize=8, ha="center", va="center", color=ink)
    axes.set(xlim=(0, n_columns), ylim=(n_rows, 0), xlabel="Context length (tokens)")
    axes.set_xticks([x + 0.5 for x in range(n_columns)], map(length_label, cells.columns))
    axes.set_yticks([y + 0.5 for y in range(n_rows)], cells.index)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    drawing.figure.suptitle(title, fontsize=10, wrap=True)
    return drawing
