"""Accuracy by context length and by the depth of the answer in the document."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mteb_longembed.reports.figures.drawing import FEW, Drawing, draw_cells, length_label, new_drawing
from mteb_longembed.reports.scores.bases import shortened
from mteb_longembed.reports.scores.intervals import share_interval

# Fifty queries at each length give ten for each of five bins. Smaller bins would show noise.
N_BINS = 5


@dataclass(frozen=True)
class DepthPoint:
    """One query's outcome.

    Args:
        length: Context length in tokens.
        depth: The place of its answer, from 0 (first sentence) to 1 (last sentence).
        score: 1 if the right document came first, otherwise 0.
    """

    length: int
    depth: float
    score: float


@dataclass(frozen=True)
class DepthData:
    """One model on one task: accuracy in percent and number of queries, by length and depth bin.

    The last column of both is for all lengths together, because single cells have few queries.
    """

    model: str
    task: str
    lengths: tuple[int, ...]
    accuracy: tuple[tuple[float | None, ...], ...]
    n_queries: tuple[tuple[int, ...], ...]


def depth_data(model: str, task: str, points: Iterable[DepthPoint]) -> DepthData:
    """Bin the queries: row = depth bin from the top of the document down, column = length."""
    all_points = list(points)
    lengths = tuple(sorted({point.length for point in all_points}))
    bins: dict[tuple[int, int], list[float]] = {}
    for point in all_points:
        # Depth 1 belongs to the last bin.
        index = min(int(point.depth * N_BINS), N_BINS - 1)
        bins.setdefault((index, point.length), []).append(point.score)
    cells = [[bins.get((index, length), []) for length in lengths] for index in range(N_BINS)]
    for row in cells:
        row.append([score for cell in row for score in cell])
    return DepthData(
        model,
        task,
        lengths,
        tuple(tuple(100 * sum(cell) / len(cell) if cell else None for cell in row) for row in cells),
        tuple(tuple(len(cell) for cell in row) for row in cells),
    )


def draw(data: DepthData) -> Drawing:
    """Draw one heat map of length by depth."""
    slug = "".join(c if c.isalnum() or c in "+-." else "_" for c in shortened(data.model))
    drawing, (axes,) = new_drawing(
        f"depth-{data.task}-{slug}", f"{data.task} by depth of the answer, {shortened(data.model)}", 7.0, 3.8
    )
    heads = [*(f"{length:,} tokens" for length in data.lengths), "all lengths"]
    step = 100 // N_BINS
    rows = [f"{step * i} to {step * (i + 1)} %" for i in range(N_BINS)]
    tips = [
        [
            f"depth {rows[y]}, {length}: "
            + ("no queries" if (value := data.accuracy[y][x]) is None else _share(value, n))
            for x, (length, n) in enumerate(zip(heads, data.n_queries[y], strict=True))
        ]
        for y in range(N_BINS)
    ]
    columns = [*(length_label(length) for length in data.lengths), "all"]
    counts = [list(row) for row in data.n_queries]
    draw_cells(drawing, axes, rows, columns, [list(row) for row in data.accuracy], tips, counts)
    axes.axvline(len(data.lengths), color="black", lw=1.5)
    axes.set_xlabel("Context length (tokens)")
    axes.set_ylabel("Depth of the answer")
    if any(0 < n < FEW for row in counts for n in row):
        drawing.figure.supxlabel(
            f"n: queries; grey: fewer than {FEW} queries, too few to compare cells", fontsize=8
        )
    drawing.figure.suptitle(f"{data.task}, Acc@1 (%)\n{shortened(data.model)}", fontsize=10)
    return drawing


def _share(value: float, n: int) -> str:
    interval = share_interval(value, n)
    ends = "" if interval is None else f", 95 % interval {interval.low:.0f} to {interval.high:.0f}"
    return f"{value:.1f} % of {n} queries{ends}"
