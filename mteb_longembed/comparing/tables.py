"""A comparison as tables, figures, JSON and one page."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from mteb_longembed.comparing.comparison import Comparison
from mteb_longembed.comparing.ranking import Row
from mteb_longembed.reports.tables.table import Cell, Table, number_cell, text_cell
from mteb_longembed.statistics.intervals import Interval

if TYPE_CHECKING:
    from mteb_longembed.reports.figures.drawing import Drawing

_LENGTH = "test_"
_SHOWN = ("mteb-longembed", "mteb", "sentence-transformers", "transformers", "torch")


def ranking_table(found: Comparison) -> Table:
    """The candidates, the best first."""
    others = list(found.rows[0].others)
    header = (
        "candidate",
        _metric(found),
        "to base",
        "p adj.",
        *others,
        "tokens/s",
        "vectors",
        "KB/doc",
        "read",
    )
    rows = tuple(
        (
            text_cell(row.name),
            number_cell(row.score.mean, interval=row.score),
            _difference(row.gain),
            _p_value(row.p_value),
            *(number_cell(row.others[name].mean, interval=row.others[name]) for name in others),
            number_cell(row.tokens_per_second, 0),
            number_cell(row.cost.vectors, 1),
            number_cell(None if row.cost.bytes is None else row.cost.bytes / 1024, 1),
            Cell(f"{row.cost.share_read:.0%}", 100 * row.cost.share_read),
        )
        for row in found.rows
    )
    notes = [
        f"{_metric(found)}: percent, the mean over splits, then over tasks, of {found.n_queries:,} queries; the "
        "brackets show the 95 % interval. To base: paired difference to the base in points, with its "
        "interval. p adj.: paired randomisation test, adjusted (Benjamini-Hochberg). Read: the share of the "
        "documents' text.",
    ]
    notes += found.counted
    if found.proxy:
        notes.append(
            "The queries are sentences drawn from the documents. They are only a proxy for real queries, and they "
            "help methods that match words, so we recommend nothing about BM25."
        )
    return Table("compare", f"Candidates on {', '.join(found.tasks)}", header, rows, tuple(notes))


def _metric(found: Comparison) -> str:
    """What ranks: the metric, or `main score` if the tasks have different ones."""
    n_ranking = len(found.metrics) - len(found.rows[0].others)
    return found.metrics[0] if n_ranking == 1 else "main score"


def split_table(found: Comparison) -> Table | None:
    """The scores by split, None if there is only one split."""
    keys = list(found.rows[0].by_split)
    if len(keys) < 2:
        return None
    rows = tuple(
        (
            text_cell(row.name),
            *(number_cell(row.by_split[key].mean, interval=row.by_split[key]) for key in keys),
        )
        for row in found.rows
    )
    header = (
        "candidate",
        *(f"{task.removeprefix('LongEmbed')} {split.removeprefix(_LENGTH)}" for task, split in keys),
    )
    return Table("splits", f"{_metric(found)} by task and split, in percent", header, rows)


def as_json(found: Comparison) -> str:
    """Everything that was found, as JSON."""
    return json.dumps(_plain(found), indent=1) + "\n"


def drawings(found: Comparison) -> list[Drawing]:
    """The figures: score by length, score against cost, and the share of the text that is read.

    Raises:
        InputError: if matplotlib is not installed.
    """
    return [drawing for drawing in (_by_length(found), _cost(found), _read(found)) if drawing is not None]


def page(found: Comparison, pictures: list[Drawing]) -> str:
    """One self-contained HTML page."""
    from mteb_longembed.reports import html_page
    from mteb_longembed.reports.overview import Overview

    tables = [table for table in (ranking_table(found), split_table(found)) if table is not None]
    versions = ", ".join(f"{name} {version(name)}" for name in _SHOWN)
    facts = (
        ("Written", f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"),
        ("Data", f"{', '.join(found.tasks)}, {found.n_queries:,} queries"),
        ("Candidates", f"{len(found.rows)}"),
        ("Versions", versions),
    )
    head = Overview(facts, found.recommendation.sentences)
    return html_page.write(tables, pictures, found.left_out + found.skipped, head, "Comparison")


def _p_value(value: float | None) -> Cell:
    if value is None:
        return Cell("-")
    return Cell("<0.001" if value < 0.001 else f"{value:.3f}", value)


def _difference(interval: Interval | None) -> Cell:
    if interval is None:
        return Cell("-")
    shown = f"{interval.mean:+.1f}"
    if interval.is_known:
        shown += f" [{interval.low:+.0f},{interval.high:+.0f}]"
    return Cell(shown, interval.mean)


def _plain(found: Comparison) -> dict[str, Any]:
    return {
        "version": version("mteb-longembed"),
        "tasks": found.tasks,
        "queries": found.n_queries,
        "metrics": found.metrics,
        "counted": found.counted,
        "proxy": found.proxy,
        "tokens_encoded": found.tokens_encoded,
        "tokens_shared": found.tokens_shared,
        "recommendation": asdict(found.recommendation),
        "candidates": [_plain_row(row, found.seconds.get(row.name)) for row in found.rows],
        "left_out": found.left_out,
        "skipped": found.skipped,
    }


def _plain_row(row: Row, seconds: float | None) -> dict[str, Any]:
    return {
        "name": row.name,
        "base": row.candidate.base,
        "score": _ends(row.score),
        "difference_to_base": _ends(row.gain),
        "p_adjusted": row.p_value,
        "difference_to_best": _ends(row.loss),
        "other_metrics": {name: _ends(interval) for name, interval in row.others.items()},
        **asdict(row.cost),
        "seconds": seconds,
        "by_split": {f"{task}/{split}": _ends(interval) for (task, split), interval in row.by_split.items()},
    }


def _ends(interval: Interval | None) -> list[float | None] | None:
    if interval is None:
        return None
    low, high = (interval.low, interval.high) if interval.is_known else (None, None)
    return [interval.mean, low, high]


def _by_length(found: Comparison) -> Drawing | None:
    from mteb_longembed.reports.figures.drawing import draw_lines, new_drawing, style

    lengths: dict[int, list[tuple[str, str]]] = {}
    for task, split in found.rows[0].by_split:
        if split.removeprefix(_LENGTH).isdigit():
            lengths.setdefault(int(split.removeprefix(_LENGTH)), []).append((task, split))
    if len(lengths) < 2:
        return None
    drawing, (axes,) = new_drawing("by-length", "Score by length of the documents, with 95 % intervals", 7, 4)
    series = []
    for number, row in enumerate(found.rows[:7]):
        look = style(number)
        means, lows, highs = {}, [], []
        for length in sorted(lengths):
            parts = [row.by_split[key] for key in lengths[length]]
            means[length] = sum(part.mean for part in parts) / len(parts)
            lows.append(sum(part.low for part in parts) / len(parts))
            highs.append(sum(part.high for part in parts) / len(parts))
        axes.fill_between(sorted(lengths), lows, highs, color=look.colour, alpha=0.12, lw=0)
        tips = {length: f"{row.name}, {length} tokens: {value:.1f}" for length, value in means.items()}
        series.append((short(row.name), means, tips, look))
    draw_lines(drawing, axes, series)
    axes.set_xlabel("tokens of a document")
    axes.set_ylabel("score (%)")
    axes.set_ylim(0, 102)
    drawing.legend(axes)
    return drawing


def _cost(found: Comparison) -> Drawing | None:
    from mteb_longembed.reports.figures.drawing import COLOURS, new_drawing

    rows = [row for row in found.rows if row.seconds_per_million is not None and not row.is_bm25]
    if len(rows) < 2:
        return None
    front: list[Row] = []
    for row in sorted(rows, key=lambda row: (row.seconds_per_million, -row.score.mean)):
        if not front or row.score.mean > front[-1].score.mean:
            front.append(row)
    drawing, (axes,) = new_drawing(
        "cost", "Score against cost: no candidate is both cheaper and better than one on the line", 7, 4.2
    )
    costs = [float(row.seconds_per_million or 0) for row in front]
    axes.plot(costs, [row.score.mean for row in front], color=COLOURS[1], lw=1.2, zorder=1)
    for number, row in enumerate(rows, start=1):
        x = float(row.seconds_per_million or 0)
        if row.score.is_known:
            axes.plot([x, x], [row.score.low, row.score.high], color="#bbbbbb", lw=1, zorder=1)
        (point,) = axes.plot(
            [x], [row.score.mean], "o", color=COLOURS[1 if row in front else 0], ms=5, zorder=3
        )
        drawing.tip(point, f"{row.name}: {row.score.mean:.1f}, {x:.0f} s per million tokens")
        axes.annotate(str(number), (x, row.score.mean), textcoords="offset points", xytext=(4, 4), fontsize=7)
        axes.plot([], [], " ", label=f"{number} {short(row.name)}")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("seconds per million tokens of documents")
    axes.set_ylabel("score (%)")
    drawing.legend(axes)
    return drawing


def _read(found: Comparison) -> Drawing:
    from mteb_longembed.reports.figures.drawing import COLOURS, new_drawing

    rows = found.rows[::-1]
    drawing, (axes,) = new_drawing(
        "read", "Share of the documents' text that is read", 7, 0.6 + 0.25 * len(rows)
    )
    for y, row in enumerate(rows):
        (bar,) = axes.barh([y], [100 * row.cost.share_read], color=COLOURS[1], height=0.6)
        drawing.tip(bar, f"{row.name} reads {row.cost.share_read:.0%}")
        axes.text(100 * row.cost.share_read + 1, y, f"{row.cost.share_read:.0%}", va="center", fontsize=8)
    axes.set_yticks(range(len(rows)), [short(row.name) for row in rows])
    axes.set_xlim(0, 112)
    axes.set_xlabel("% of the text")
    return drawing


def short(name: str) -> str:
    """A candidate's name without its organisation, for figures.

    >>> short("intfloat/e5-base-v2+ntk@4096")
    'e5-base-v2+ntk@4096'
    """
    base, plus, rest = name.partition("+")
    return base.rsplit("/", 1)[-1] + plus + rest
