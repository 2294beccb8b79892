"""A comparison as tables, figures, JSON and one page, and the folder that they are written to."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mteb_longembed.comparing.comparison import Comparison
from mteb_longembed.comparing.passages import COVERED, DEPTH
from mteb_longembed.comparing.ranking import Row
from mteb_longembed.errors import DataError
from mteb_longembed.reports import html_page
from mteb_longembed.reports.figures.drawing import Drawing, draw_interval, draw_lines, new_drawing, style
from mteb_longembed.reports.safe_files import make_folder, read_json, slug
from mteb_longembed.reports.scores.published_numbers import split_length
from mteb_longembed.reports.tables.table import (
    MISSING,
    Cell,
    Table,
    interval_cell,
    number_cell,
    sensitivity_table,
    text_cell,
)
from mteb_longembed.statistics.intervals import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Directions in which a number may stand beside its point, the usual one first.
_ANGLES = [math.pi / 4 + k * math.pi / 4 for k in range(8)]
_SHOWN = ("mteb-longembed", "mteb", "sentence-transformers", "transformers", "torch")


def ranking_table(comparison: Comparison) -> Table:
    """The candidates, the best first."""
    labels = _labels(comparison)
    columns = [
        {
            "#": text_cell(number),
            "candidate": text_cell(labels[row.name]),
            _metric(comparison): interval_cell(row.score),
            "to base": _difference(row.gain),
            "p adj.": _p_value(row.p_value),
            "to best": _difference(row.loss),
            **{name: interval_cell(score) for name, score in row.others.items()},
            "tokens/s": _speed(row),
            "vectors": number_cell(row.cost.vectors, 2),
            "KB/doc": number_cell(None if row.cost.bytes is None else row.cost.bytes / 1024, 2),
            "read": Cell(f"{row.cost.share_read:.0%}", 100 * row.cost.share_read),
        }
        for number, row in enumerate(comparison.rows, start=1)
    ]
    title = f"Candidates of {_base(comparison) or 'all bases'} on {', '.join(comparison.tasks)}"
    rows = tuple(tuple(row.values()) for row in columns)
    table = Table("compare", title, tuple(columns[0]), rows).without_empty_columns()
    notes = [
        f"{_metric(comparison)}: percent, the mean over splits, then over tasks, of {comparison.n_queries:,} "
        "queries; the brackets show the 95 % interval."
        if comparison.n_queries > 1
        else f"{_metric(comparison)}: percent, of 1 query, so there are no intervals."
    ]
    legend = _LEGEND | {"tokens/s": _speed_note(comparison.rows)}
    notes += [text for column, text in legend.items() if column in table.header]
    optional = tuple(title for title in _OPTIONAL if title in table.header)
    return replace(table, notes=(*notes, *comparison.counted), optional=optional)


#: What a narrow terminal leaves out, the first one first.
_OPTIONAL = ("p adj.", "KB/doc", "vectors", "read")
#: What a column is, for the columns that not everybody can guess.
_LEGEND = {
    "to best": "To base, to best: paired differences in points, with their intervals.",
    "p adj.": "P adj.: paired randomisation test against the base, adjusted (Benjamini-Hochberg).",
    "tokens/s": "",  # `_speed_note`
    "vectors": "Vectors and KB/doc: the mean of all documents.",
    "read": "Read: the share of the documents' tokens that is read.",
}


def _speed_note(rows: Sequence[Row]) -> str:
    n_rounds = max(len(row.cost.speeds) for row in rows)
    rounds = f"median, slowest and fastest of {n_rounds} rounds" if n_rounds > 1 else "one round"
    return f"Tokens/s: {rounds} on the same documents; ranges that overlap do not differ."


def _base(comparison: Comparison) -> str:
    """The one base, empty if there are several."""
    bases = {row.candidate.base for row in comparison.rows if row.candidate.base}
    return bases.pop() if len(bases) == 1 else ""


def _labels(comparison: Comparison) -> dict[str, str]:
    """What tables and figures call the candidates: with one base only what follows it, as `+gp@1024`."""
    base = _base(comparison)
    return {row.name: row.candidate.label.removeprefix(base) or row.name for row in comparison.rows}


def _speed(row: Row) -> Cell:
    if row.cost.tokens_per_second is None:
        return Cell(MISSING)
    rate, unit = row.cost.tokens_per_second, 1000 if row.cost.tokens_per_second >= 1000 else 1
    digits = int(unit == 1000 and rate < 100_000)  # 812, 15.8k or 158k
    low, high = (f"{end / unit:.{digits}f}" for end in (min(row.cost.speeds), max(row.cost.speeds)))
    return Cell(f"{rate / unit:.{digits}f}{'k' * (unit > 1)} [{low},{high}]", rate)


def _metric(comparison: Comparison) -> str:
    """What ranks: the metric, or `main score` if the tasks have different ones."""
    n_ranking = len(comparison.metrics) - len(comparison.rows[0].others)
    return comparison.metrics[0] if n_ranking == 1 else "main score"


def split_table(comparison: Comparison) -> Table | None:
    """The scores by split, None if there is only one split."""
    keys = list(comparison.rows[0].by_split)
    if len(keys) < 2:
        return None
    labels = _labels(comparison)
    rows = tuple(
        (text_cell(labels[row.name]), *(interval_cell(row.by_split[key]) for key in keys))
        for row in comparison.rows
    )
    titles = (f"{task.removeprefix('LongEmbed')} {split.removeprefix('test_')}" for task, split in keys)
    title = f"{_metric(comparison)} by task and split, in percent"
    return Table("splits", title, ("candidate", *titles), rows)


def passage_table(comparison: Comparison) -> Table | None:
    """How well the passages answer, None if no task knows which ones do."""
    if not comparison.passages:
        return None
    labels, scores = _labels(comparison), comparison.passages
    rows = []
    for name in (row.name for row in comparison.rows):
        tokens = scores[name].tokens
        read = Cell(f"{tokens.mean:,.0f} [{tokens.low:,.0f},{tokens.high:,.0f}]", tokens.mean)
        rows.append((text_cell(labels[name]), *map(interval_cell, scores[name].at.values()), read))
    notes = (
        f"Passage@k: percent of {next(iter(scores.values())).n_queries:,} judged queries for which, among the best "
        f"passage of each of the first k documents, one covers at least {COVERED:.0%} of a passage that answers.",
        "Tokens read: the median of the tokens of all passages down to that one, with its interval; 0.75 "
        f"words are one token; inf: in none of the documents, of which at most {DEPTH} are looked at.",
    )
    header = ("candidate", "passage@1", "passage@5", "tokens read")
    return Table("passages", "Passages that answer", header, tuple(rows), notes)


def query_tables(comparison: Comparison) -> list[Table]:
    """The queries on which the best differs most from its base, and from BM25; folded in the page."""
    best = comparison.recommendation.best
    names = ("rank", "relevant", "first", "passage")
    header = ("query", "points", *names, *(f"{name} there" for name in names))
    notes = (
        f"Rank: that of the best relevant document for {best}; relevant: its id; first: the document at rank 1, and "
        f"its passage, where passages are judged. There: the same for the other one. {MISSING}: not in the ranking "
        "that is kept.",
    )
    shown = []
    for other, queries in comparison.queries.items():
        rows = []
        for query in queries:
            row = [text_cell(query.text), number_cell(query.points)]
            for side in (query.best, query.other):
                row += map(text_cell, (side.rank, side.relevant, side.first))
                row.append(Cell(side.passage or MISSING, marked=side.answer))
            rows.append(tuple(row))
        if rows:
            title = f"Query by query: {best} against {other}"
            table = Table(f"queries-{other}", title, header, tuple(rows), notes, is_folded=True)
            shown.append(table.without_empty_columns())
    return shown


def tables(comparison: Comparison) -> list[Table]:
    """The tables for the terminal and the page: the ranking, then splits and places of answers where there are any."""
    shown = [ranking_table(comparison), split_table(comparison), passage_table(comparison)]
    if comparison.sensitivities:
        labels = _labels(comparison)
        rows = ((labels[name], task, n, index) for name, task, n, index in comparison.sensitivities)
        shown.append(sensitivity_table(rows))
    return [table for table in shown if table is not None]


_SAME = (
    "written", "identity", "tasks", "metrics", "counted", "proxy", "tokens_encoded", "tokens_shared",
    "tokens_windows", "left_out", "skipped", "n_documents",
)  # fmt: skip


def as_json(comparison: Comparison) -> str:
    """Everything that was found, as JSON."""
    plain = {
        "version": version("mteb-longembed"),
        **{key: getattr(comparison, key) for key in _SAME},
        "queries": comparison.n_queries,
        "recommendation": asdict(comparison.recommendation),
        "candidates": [_plain_row(row, comparison.seconds.get(row.name)) for row in comparison.rows],
        "by_query": {other: list(map(asdict, queries)) for other, queries in comparison.queries.items()},
        "passages": {
            name: {
                "queries": scores.n_queries,
                **{f"passage@{k}": _ends(share) for k, share in scores.at.items()},
                "tokens": [
                    n if math.isfinite(n) else None for n in _ends(scores.tokens) or () if n is not None
                ],
            }
            for name, scores in comparison.passages.items()
        },
        "places": [
            {
                "candidate": name,
                "task": task,
                "queries": n,
                "thirds": [100 * third for third in sensitivity.thirds],
                "sensitivity": _ends(sensitivity.index.scaled(100)),
                "noise": 100 * sensitivity.noise,
            }
            for name, task, n, sensitivity in comparison.sensitivities
        ],
    }
    return json.dumps(plain, indent=1) + "\n"


def drawings(comparison: Comparison) -> list[Drawing]:
    """The figures: score by length for each task, and score against speed."""
    shown = [*(_by_length(comparison, task) for task in comparison.tasks), _cost(comparison)]
    return [drawing for drawing in shown if drawing is not None]


def page(
    comparison: Comparison,
    pictures: list[Drawing],
    links: Sequence[tuple[str, str]] = (),
    command: str = "",
    problems: Sequence[str] = (),
) -> str:
    """One self-contained HTML page; `command` is the line that made it."""
    facts = (
        ("Written", comparison.written),
        ("Data", f"{', '.join(comparison.tasks)}, {comparison.n_queries:,} queries"),
        ("Documents", _documents(comparison)),
        ("Candidates", f"{len(comparison.rows)}"),
        *([("Command", command)] if command else []),
        ("Versions", ", ".join(f"{name} {version(name)}" for name in _SHOWN)),
    )
    shown = [*tables(comparison), *query_tables(comparison)]
    left_out = [*comparison.left_out, *comparison.skipped, *problems]
    sentences = comparison.recommendation.sentences
    return html_page.write(shown, pictures, left_out, facts, sentences, "Comparison", links)


def _documents(comparison: Comparison) -> str:
    """How many documents there are, and how long they are."""
    row = next((row for row in comparison.rows if row.cost.length_quartiles), None)
    if row is None:
        return f"{comparison.n_documents:,}"
    low, median, high = row.cost.length_quartiles
    return (
        f"{comparison.n_documents:,}; half of them have {low:,.0f} to {high:,.0f} tokens of {row.candidate.base}, the "
        f"median is {median:,.0f}"
    )


def _p_value(value: float | None) -> Cell:
    return Cell(MISSING) if value is None else Cell("<0.001" if value < 0.001 else f"{value:.3f}", value)


def _difference(interval: Interval | None) -> Cell:
    if interval is None:
        return Cell(MISSING)
    ends = f" [{interval.low:+.0f},{interval.high:+.0f}]" if interval.is_known else ""
    return Cell(f"{interval.mean:+.1f}{ends}", interval.mean)


def _plain_row(row: Row, seconds: float | None) -> dict[str, Any]:
    return {
        "name": row.name,
        "base": row.candidate.base,
        "score": _ends(row.score),
        "difference_to_base": _ends(row.gain),
        "p_adjusted": row.p_value,
        "difference_to_best": _ends(row.loss),
        "other_metrics": {name: _ends(interval) for name, interval in row.others.items()},
        "tokens_per_second": row.cost.tokens_per_second,
        **asdict(row.cost),
        "seconds": seconds,
        "by_split": {f"{task}/{split}": _ends(interval) for (task, split), interval in row.by_split.items()},
    }


def _ends(interval: Interval | None) -> list[float | None] | None:
    if interval is None:
        return None
    low, high = (interval.low, interval.high) if interval.is_known else (None, None)
    return [interval.mean, low, high]


def _by_length(comparison: Comparison, task: str) -> Drawing | None:
    splits = [key for key in comparison.rows[0].by_split if key[0] == task]
    lengths = {length: key for key in splits if (length := split_length(key[1])) is not None}
    if len(lengths) < 2:
        return None
    title = f"{task}: {_metric(comparison)} by length of the documents, with 95 % intervals"
    drawing, (axes,) = new_drawing(f"by-length-{task}", title, 7, 4)
    labels, series = _labels(comparison), []
    for number, row in enumerate(comparison.rows[:7]):
        look = style(number)
        parts = {length: row.by_split[lengths[length]] for length in sorted(lengths)}
        lows, highs = ([getattr(part, end) for part in parts.values()] for end in ("low", "high"))
        axes.fill_between(list(parts), lows, highs, color=look.colour, alpha=0.12, lw=0)
        tips = {length: f"{row.name}, {length} tokens: {part.mean:.1f}" for length, part in parts.items()}
        # without ends, because the band is the interval
        means = {length: Interval(part.mean, math.nan, math.nan) for length, part in parts.items()}
        series.append((labels[row.name], means, tips, look))
    draw_lines(drawing, axes, series)
    axes.set(xlabel="tokens of a document", ylabel=f"{_metric(comparison)} (%)", ylim=(0, 102))
    drawing.legend(axes)
    return drawing


def _cost(comparison: Comparison) -> Drawing | None:
    """Score against speed. The numbers at the points are those of the table's rows; BM25 is a line."""
    if sum(row.cost.tokens_per_second is not None for row in comparison.rows) < 2:
        return None
    title = f"{_metric(comparison)} against speed: up and to the right is better"
    drawing, (axes,) = new_drawing("cost", title, 7, 4.6)
    labels, points = _labels(comparison), []
    for number, row in enumerate(comparison.rows, start=1):
        tip = f"{row.name}: {row.score.mean:.1f}"
        if row.is_bm25:
            line = axes.axhline(row.score.mean, color=style(3).colour, lw=1.2, ls="--", zorder=1)
            drawing.tip(line, f"{tip}, encodes nothing")
            axes.plot([], [], color=style(3).colour, ls="--", label=f"{number} {row.name} (encodes nothing)")
        elif row.cost.tokens_per_second is not None:
            x, y = row.cost.tokens_per_second, row.score.mean
            draw_interval(axes, x, row.score, "#bbbbbb")
            axes.plot([min(row.cost.speeds), max(row.cost.speeds)], [y, y], color="#bbbbbb", lw=1, zorder=1)
            (point,) = axes.plot([x], [y], "o", color=style(1).colour, ms=5, zorder=3)
            drawing.tip(point, f"{tip}, {x:,.0f} tokens a second")
            axes.plot([], [], " ", label=f"{number} {labels[row.name]}")
            points.append((str(number), x, y))
    axes.margins(0.1)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("tokens/s (bar: slowest to fastest round)")
    axes.set_ylabel(f"{_metric(comparison)} (%), bar: 95 % interval")
    drawing.legend(axes)
    _number(drawing, axes, points)
    return drawing


def _number(drawing: Drawing, axes: Axes, points: Sequence[tuple[str, float, float]]) -> None:
    """Write a number beside each point, at the nearest place where no other number or point is."""
    drawing.figure.draw_without_rendering()  # now the places on paper are known
    unit = drawing.figure.dpi / 72
    taken = [axes.transData.transform((x, y)) / unit for _, x, y in points]
    for (text, x, y), at in zip(points, list(taken), strict=True):
        tried = [at + (r * math.cos(a), r * math.sin(a)) for r in range(9, 60, 6) for a in _ANGLES]
        free = (to for to in tried if all((abs(to - other) >= (11, 8)).any() for other in taken))
        taken.append(next(free, tried[0]))
        where: Any = {"textcoords": "offset points", "xytext": taken[-1] - at, "ha": "center", "va": "center"}
        axes.annotate(text, (x, y), fontsize=7, **where)


#: The folder of all comparisons inside the output folder.
COMPARISONS = "comparisons"
PAGE, MACHINE = "compare.html", "compare.json"


def folder_of(comparison: Comparison, output: Path) -> Path:
    """The folder of a comparison, made if need be. Its name has a hash of data, candidates and metrics.

    So the same command writes to the same place, and another one never overwrites it.
    """
    folder = output / COMPARISONS / slug(f"{'+'.join(comparison.tasks)[:60]}-{comparison.identity[:8]}")
    make_folder("the comparison's folder", folder)
    return folder


def siblings(folder: Path) -> list[tuple[str, str]]:
    """Links to the other comparisons, the newest first: the page's address, and data, best candidate and date."""
    pages = []
    for path in folder.parent.glob(f"*/{MACHINE}"):
        if path.parent == folder or not path.with_name(PAGE).is_file():
            continue
        try:
            saved: Mapping[str, Any] = read_json(path)
            written, best = saved["written"], saved["recommendation"]["best"]
            text = f"{', '.join(saved['tasks'])}: {best}, {written}"
        except (DataError, OSError, LookupError, TypeError):
            continue  # another program wrote it
        pages.append((str(written), f"../{path.parent.name}/{PAGE}", text))
    return [(address, text) for _, address, text in sorted(pages, reverse=True)]
