"""Heat maps of accuracy: models by context length, the paper's figure 1 (b)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby

from mteb_longembed.reports.figures.drawing import GREENS, GRID, INK, Drawing, ends, length_label, new_drawing
from mteb_longembed.reports.scores.base_groups import labels
from mteb_longembed.reports.scores.published_numbers import COLUMNS, LENGTHS, PUBLISHED, published_lines
from mteb_longembed.reports.scores.scoreboard import Line, share_interval
from mteb_longembed.reports.tables.paper_tables import data_key, data_words
from mteb_longembed.reports.tables.table import rounded

# The marks of the paper, which has models with 512 tokens and with 4k tokens.
_SHORT = "▲"
_LONG = "♦"
_MARKS = {_SHORT: "reads fewer than 4k tokens", _LONG: "4k tokens or more"}


@dataclass(frozen=True)
class Cells:
    """One heat map of accuracy in percent.

    Args:
        key: of the figure.
        title: of the figure.
        rows: labels from top to bottom.
        lengths: of the context, in tokens.
        values: a row for each label; None was not measured.
    """

    key: str
    title: str
    rows: tuple[str, ...]  # labels from top to bottom
    lengths: tuple[int, ...]  # in tokens
    values: tuple[tuple[float | None, ...], ...]  # None was not measured


def by_model(lines: Iterable[Line], with_authors: bool = False) -> list[Cells]:
    """A heat map for each task and kind of data, the best mean first.

    Args:
        lines: models with their scores. A length that was not measured counts as 0.
        with_authors: whether the authors' rows stand in it too, on published data.
    """
    maps = []
    for data, group in groupby(lines, key=lambda line: line.data):
        members = list(group)
        names = labels(line.model for line in members)
        for key in [column.key for column in COLUMNS if column.is_by_length]:
            rows = [(_label(line, names[line.model]), line.by_length[key]) for line in members]
            if with_authors and data == PUBLISHED:
                rows += [(f"{p.model} (authors)", p.by_length.get(key, {})) for p in published_lines()]
            rows = [row for row in rows if row[1]]
            if rows:
                # in a tie, ours come first
                rows.sort(key=lambda row: -sum(row[1].get(n, 0) for n in LENGTHS))
                lengths = tuple(sorted(set(LENGTHS).union(*(values for _, values in rows))))
                title = f"{key}: Acc@1 (%) by context length, {data_words(data, 'data')}"
                values = tuple(_row(by_length, lengths) for _, by_length in rows)
                name = f"heatmap-{key.lower()}-{data_key(data)}"
                maps.append(Cells(name, title, tuple(label for label, _ in rows), lengths, values))
    return maps


def _row(by_length: Mapping[int, float], lengths: Sequence[int]) -> tuple[float | None, ...]:
    return tuple(by_length.get(length) for length in lengths)


def draw(data: Cells) -> Drawing:
    """Draw a heat map in the paper's green, from 0 to 100, with the numbers in the cells."""
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle

    columns = [length_label(length) for length in data.lengths]
    width = 0.9 + 0.075 * max(map(len, data.rows)) + 0.46 * len(columns)
    drawing, (axes,) = new_drawing(data.key, data.title, width, 1.2 + 0.25 * len(data.rows))
    greens = LinearSegmentedColormap.from_list("greens", GREENS)
    for y, row in enumerate(data.values):
        for x, value in enumerate(row):
            if value is None:
                # A cell that was not measured must not look like 0.
                cell = Rectangle((x, y), 1, 1, facecolor="#eeeeee", edgecolor="#bbbbbb", hatch="///", lw=0)
            else:
                cell = Rectangle((x, y), 1, 1, facecolor=greens(value / 100), edgecolor=GRID, lw=0.8)
                number = str(rounded(value, 0))
                axes.text(
                    x + 0.5, y + 0.5, number, fontsize=8, ha="center", va="center", color=INK[value > 60]
                )
            axes.add_patch(cell)
            drawing.tip(cell, _tip(data, y, x, value))
    axes.set(xlim=(0, len(columns)), ylim=(len(data.rows), 0), xlabel="Context length (tokens)")
    axes.set_xticks([x + 0.5 for x in range(len(columns))], columns)
    axes.set_yticks([y + 0.5 for y in range(len(data.rows))], data.rows)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    drawing.figure.supxlabel(_legend(data), fontsize=8)  # it may be as wide as the whole picture
    drawing.figure.suptitle(data.title, fontsize=10)
    return drawing


def _tip(data: Cells, y: int, x: int, value: float | None) -> str:
    """What is shown under the mouse."""
    where = f"{data.rows[y]}, {data.lengths[x]:,} tokens: "
    if value is None:
        return f"{where}not measured"
    return f"{where}{rounded(value)} %{ends(share_interval(value))}"


def _label(line: Line, name: str) -> str:
    """A model's name with the mark of how many tokens it reads."""
    tokens = line.model.tokens
    if tokens is None:
        return name
    if tokens >= 4096:
        return f"{name} {_LONG}"
    return f"{name} {_SHORT}"


def _legend(data: Cells) -> str:
    """The meaning of what the picture has: marks, hatched cells, and how sure a number is."""
    last = {label[-1] for label in data.rows}
    meanings = [f"{mark} {meaning}" for mark, meaning in _MARKS.items() if mark in last]
    values = list(chain.from_iterable(data.values))
    if None in values:
        meanings.append("hatched: not measured")
    lines = [", ".join(meanings)]
    interval = share_interval(50.0)
    if interval and any(value is not None and share_interval(value) for value in values):
        low = rounded(interval.low, 0)
        high = rounded(interval.high, 0)
        lines.append(f"50 queries a cell: a 50 stands for {low} to {high} (95 %)")
    return "\n".join(filter(None, lines))
