"""Heat maps of accuracy: models by context length (the paper's figure 1 (b)), and depth of the answer by length."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from mteb_longembed.reports.figures.drawing import GREENS, GRID, INK, Drawing, ends, length_label, new_drawing
from mteb_longembed.reports.scores.base_groups import labels, shortened
from mteb_longembed.reports.scores.published_numbers import COLUMNS, LENGTHS, PUBLISHED, published_lines
from mteb_longembed.reports.scores.results import DepthPoint
from mteb_longembed.reports.scores.scoreboard import Line, share_interval
from mteb_longembed.reports.tables.paper_tables import data_key, data_words
from mteb_longembed.reports.tables.table import rounded

# Fifty queries at each length give ten for each of five bins. Smaller bins would show noise.
N_BINS = 5
# With fewer queries, the share of a cell says little: 30 queries give an interval of up to 34 points.
FEW = 30
# The marks of the paper, which has models with 512 tokens and with 4k tokens.
_SHORT, _LONG = "▲", "♦"
_MARKS = {_SHORT: "reads fewer than 4k tokens", _LONG: "4k tokens or more"}


@dataclass(frozen=True)
class Cells:
    """One heat map of accuracy in percent; a map by depth also has the queries of each cell."""

    key: str
    title: str
    rows: tuple[str, ...]  # labels from top to bottom
    lengths: tuple[int, ...]  # in tokens; a map by depth has one more column for all lengths together
    values: tuple[tuple[float | None, ...], ...]  # None was not measured
    counts: tuple[tuple[int, ...], ...] = ()


def by_model(lines: Iterable[Line], with_authors: bool = False) -> list[Cells]:
    """A heat map for each task and kind of data, the best mean first; a length that was not measured counts as 0."""
    maps = []
    for data, group in groupby(lines, key=lambda line: line.data):
        members = list(group)
        names = labels(line.model for line in members)
        for key in (column.key for column in COLUMNS if column.is_by_length):
            rows = [(_label(line, names[line.model]), line.by_length[key]) for line in members]
            if with_authors and data == PUBLISHED:
                rows += [(f"{p.model} (authors)", p.by_length.get(key, {})) for p in published_lines()]
            rows = [row for row in rows if row[1]]
            if rows:
                # in a tie, ours come first
                rows.sort(key=lambda row: -sum(row[1].get(n, 0) for n in LENGTHS))
                lengths = tuple(sorted({length for _, values in rows for length in values} | set(LENGTHS)))
                title = f"{key}: Acc@1 (%) by context length, {data_words(data, 'data')}"
                values = tuple(tuple(row.get(length) for length in lengths) for _, row in rows)
                name = f"heatmap-{key.lower()}-{data_key(data)}"
                maps.append(Cells(name, title, tuple(label for label, _ in rows), lengths, values))
    return maps


def by_depth(model: str, task: str, points: Iterable[DepthPoint]) -> Cells:
    """Bin the queries: row = depth bin from the top of the document down, column = length, at last all lengths."""
    bins: dict[tuple[int, int], list[float]] = {}
    for point in points:
        # Depth 1 belongs to the last bin.
        index = min(int(point.depth * N_BINS), N_BINS - 1)
        bins.setdefault((index, point.length), []).append(point.score)
    lengths = tuple(sorted({length for _, length in bins}))
    cells = [[bins.get((index, length), []) for length in lengths] for index in range(N_BINS)]
    for row in cells:
        row.append([score for cell in row for score in cell])
    step = 100 // N_BINS
    return Cells(
        f"depth-{task}-{shortened(model)}",
        f"{task} by depth of the answer, Acc@1 (%)\n{shortened(model)}",
        tuple(f"{step * i} to {step * (i + 1)} %" for i in range(N_BINS)),
        lengths,
        tuple(tuple(100 * sum(cell) / len(cell) if cell else None for cell in row) for row in cells),
        tuple(tuple(map(len, row)) for row in cells),
    )


def draw(data: Cells) -> Drawing:
    """Draw a heat map in the paper's green, from 0 to 100, with the numbers in the cells."""
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle

    columns = [*map(length_label, data.lengths), *(["all"] if data.counts else [])]
    size = (0.9 + 0.075 * max(map(len, data.rows)) + 0.46 * len(columns), 1.2 + 0.25 * len(data.rows))
    drawing, (axes,) = new_drawing(data.key, data.title, *((7.0, 3.8) if data.counts else size))
    greens = LinearSegmentedColormap.from_list("greens", GREENS)
    greys = LinearSegmentedColormap.from_list("greys", ("#eeeeee", "#777777"))
    for y, row in enumerate(data.values):
        for x, value in enumerate(row):
            n = data.counts[y][x] if data.counts else None
            if value is None:
                # A cell that was not measured must not look like 0.
                cell = Rectangle((x, y), 1, 1, facecolor="#eeeeee", edgecolor="#bbbbbb", hatch="///", lw=0)
            else:
                is_grey = n is not None and n < FEW
                colour = greys(value / 200) if is_grey else greens(value / 100)
                cell = Rectangle((x, y), 1, 1, facecolor=colour, edgecolor=GRID, lw=0.8)
                ink = INK[value > 60 and not is_grey]
                write = partial(axes.text, ha="center", va="center", color=ink)
                write(x + 0.5, y + (0.5 if n is None else 0.36), str(rounded(value, 0)), fontsize=8)
                if n is not None:
                    write(x + 0.5, y + 0.74, f"n={n}", fontsize=6)
            axes.add_patch(cell)
            drawing.tip(cell, _tip(data, y, x, value, n))
    axes.set(xlim=(0, len(columns)), ylim=(len(data.rows), 0), xlabel="Context length (tokens)")
    axes.set_xticks([x + 0.5 for x in range(len(columns))], columns)
    axes.set_yticks([y + 0.5 for y in range(len(data.rows))], data.rows)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    if data.counts:
        axes.axvline(len(data.lengths), color="black", lw=1.5)
        axes.set_ylabel("Depth of the answer")
    drawing.figure.supxlabel(_legend(data), fontsize=8)  # it may be as wide as the whole picture
    drawing.figure.suptitle(data.title, fontsize=10)
    return drawing


def _tip(data: Cells, y: int, x: int, value: float | None, n: int | None) -> str:
    length = f"{data.lengths[x]:,} tokens" if x < len(data.lengths) else "all lengths"
    where = f"{'depth ' if data.counts else ''}{data.rows[y]}, {length}: "
    if value is None:
        return where + ("no queries" if data.counts else "not measured")
    of = "" if n is None else f" of {n} queries"
    return f"{where}{rounded(value)} %{of}{ends(share_interval(value) if n is None else share_interval(value, n))}"


def _label(line: Line, name: str) -> str:
    tokens = line.model.tokens
    return name if tokens is None else f"{name} {_LONG if tokens >= 4096 else _SHORT}"


def _legend(data: Cells) -> str:
    """The meaning of what the picture has: marks, hatched and grey cells, and how sure a number is."""
    if data.counts:
        is_grey = any(0 < n < FEW for row in data.counts for n in row)
        return f"n: queries; grey: fewer than {FEW} queries, too few to compare cells" if is_grey else ""
    last = {label[-1] for label in data.rows}
    meanings = [f"{mark} {meaning}" for mark, meaning in _MARKS.items() if mark in last]
    values: Sequence[float | None] = [value for row in data.values for value in row]
    if None in values:
        meanings.append("hatched: not measured")
    interval = share_interval(50.0)
    sure = ""
    if interval and any(value is not None and share_interval(value) for value in values):
        sure = f"50 queries a cell: a 50 stands for {rounded(interval.low, 0)} to {rounded(interval.high, 0)} (95 %)"
    return "\n".join(filter(None, (", ".join(meanings), sure)))
