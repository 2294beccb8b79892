"""A comparison as tables, JSON and one page, and the folder that they are written to."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mteb_longembed.comparing import html_page
from mteb_longembed.comparing.drawing import Drawing
from mteb_longembed.comparing.table import (
    MISSING,
    Cell,
    Table,
    interval_cell,
    number_cell,
    percent,
    text_cell,
)
from mteb_longembed.errors import DataError
from mteb_longembed.files import make_folder, read_json, slug, write_file
from mteb_longembed.statistics.intervals import Interval

from .comparison import Comparison
from .costs import CLEARLY
from .passages import COVERED, DEPTH
from .ranking import Row

#: The packages whose versions a page names.
_SHOWN = ("mteb-longembed", "mteb", "sentence-transformers", "transformers", "torch")
#: The mark of each standing in the table.
_MARKS = {"winner": "first", "leader": "leads", "equal": "equal", "out": "out", "apart": MISSING}
#: What a narrow terminal leaves out, the first one first.
_OPTIONAL = ("p adj.", "KB/doc", "vectors", "read", "to base")
#: What a column is, for the columns that not everybody can guess.
_LEGEND = {
    "stands": "Stands. First: it is surely first. Leads: first, but not surely. Equal: these queries cannot tell it "
    "from the first. Out: it is surely behind, its paired difference lies below 0 and a randomisation test agrees.",
    "first in": "First in: the share of resamples of the queries in which a candidate has the highest score.",
    "to best": "To base, to best: paired differences in points, with their intervals.",
    "p adj.": "P adj.: paired randomisation test against the base, adjusted (Benjamini-Hochberg).",
    "tokens/s": "Tokens/s: the median, the slowest and the fastest of all rounds on the same documents. One counts as "
    f"faster if its slowest round is {CLEARLY:g} times as fast as the fastest round of the other.",
    "vectors": "Vectors and KB/doc: the mean of all documents.",
    "read": "Read: the share of the documents' tokens that is read; tokens that the tokenizer does not know "
    "count as not read.",
}


def labels(comparison: Comparison) -> dict[str, str]:
    """The short names of the candidates, by their full names."""
    return {row.name: row.label for row in comparison.rows}


def metric_name(comparison: Comparison) -> str:
    """What ranks: the metric, or `main score` if the tasks have different ones."""
    n_ranking = len(comparison.metrics) - len(comparison.rows[0].others)
    if n_ranking == 1:
        return comparison.metrics[0]
    return "main score"


def ranking_table(comparison: Comparison) -> Table:
    """The candidates, the best first.

    Each row has its standing as its class, so that a page may colour it. A narrow terminal leaves out `_OPTIONAL`.
    """
    metric = metric_name(comparison)
    columns = []
    for number, row in enumerate(comparison.rows, start=1):
        columns.append(
            {
                "#": text_cell(number),
                "candidate": text_cell(row.label),
                metric: interval_cell(row.score),
                "stands": text_cell(_MARKS[row.standing]),
                "first in": Cell(percent(row.first_share), 100 * row.first_share),
                "to best": _difference(row.diff_to_best),
                "to base": _difference(row.diff_to_base),
                "p adj.": _p_value(row.p_value),
                **{name: interval_cell(score) for name, score in row.others.items()},
                "tokens/s": speed_cell(row),
                "vectors": number_cell(row.cost.vectors, 2),
                "KB/doc": number_cell(None if row.cost.bytes is None else row.cost.bytes / 1024, 2),
                "read": Cell(percent(row.cost.share_read), 100 * row.cost.share_read),
            }
        )
    rows = [list(row.values()) for row in columns]
    table = Table.of("compare", "Candidates", list(columns[0]), rows).without_empty_columns()
    if comparison.n_queries > 1:
        first_note = (
            f"{metric}: percent, the mean over splits, then over tasks, of {comparison.n_queries:,} queries; the "
            "brackets show the 95 % interval."
        )
    else:
        first_note = f"{metric}: percent, of 1 query, so there are no intervals."
    legend = [text for column, text in _LEGEND.items() if column in table.header]
    return replace(
        table,
        notes=(first_note, *legend, *comparison.counted),
        optional=tuple(title for title in _OPTIONAL if title in table.header),
        classes=tuple(row.standing for row in comparison.rows),
    )


def speed_cell(row: Row) -> Cell:
    """The median speed with its slowest and fastest round.

    Such as `812 [790,830]`, `15.8k [13.4,16.6]` or `158k [150,160]`: tokens a second, from a thousand on in thousands.
    """
    rate = row.cost.tokens_per_second
    if rate is None:
        return Cell(MISSING)
    unit = 1
    suffix = ""
    digits = 0
    if rate >= 1000:
        unit = 1000
        suffix = "k"
    if 1000 <= rate < 100_000:
        digits = 1
    low = f"{min(row.cost.speeds) / unit:.{digits}f}"
    high = f"{max(row.cost.speeds) / unit:.{digits}f}"
    return Cell(f"{rate / unit:.{digits}f}{suffix} [{low},{high}]", rate)


def split_table(comparison: Comparison) -> Table | None:
    """The scores by split, None if there is only one split."""
    keys = list(comparison.rows[0].by_split)
    if len(keys) < 2:
        return None
    rows = []
    for row in comparison.rows:
        rows.append([text_cell(row.label), *(interval_cell(row.by_split[key]) for key in keys)])
    titles = [f"{task.removeprefix('LongEmbed')} {split.removeprefix('test_')}" for task, split in keys]
    caption = f"{metric_name(comparison)} by task and split, in percent"
    return Table.of("splits", caption, ["candidate", *titles], rows)


def passage_table(comparison: Comparison) -> Table | None:
    """How well the passages answer, None if no task knows which ones do.

    The median of tokens is infinite if more than half of the queries have no answer among what is looked at.
    """
    if not comparison.passages:
        return None
    n_queries = next(iter(comparison.passages.values())).n_queries
    rows = []
    for row in comparison.rows:
        scores = comparison.passages[row.name]
        tokens = scores.tokens
        read = Cell(f"{tokens.mean:,.0f} [{tokens.low:,.0f},{tokens.high:,.0f}]", tokens.mean)
        rows.append([text_cell(row.label), *map(interval_cell, scores.at.values()), read])
    notes = (
        f"Passage@k: percent of {n_queries:,} judged queries for which, among the best passage of each of the first k "
        f"documents, one covers at least {COVERED:.0%} of a passage that answers.",
        "Tokens read: the median of the tokens of all passages down to that one, with its interval; 0.75 "
        f"words are one token; inf: in none of the documents, of which at most {DEPTH} are looked at.",
    )
    header = ["candidate", "passage@1", "passage@5", "tokens read"]
    return Table.of("passages", "Passages that answer", header, rows, notes=notes)


def query_tables(comparison: Comparison) -> list[Table]:
    """The queries on which the best differs most from its base, and from BM25; folded in the page.

    Columns that are empty for all queries, such as passages where none are judged, are left out.
    """
    short = labels(comparison)
    best = short[comparison.recommendation.best]
    names = ("rank", "relevant", "first", "passage")
    header = ["query", "points", *names, *(f"{name} there" for name in names)]
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
                row += [text_cell(side.rank), text_cell(side.relevant), text_cell(side.first)]
                row.append(Cell(side.passage or MISSING, marked=side.answer))
            rows.append(row)
        if rows:
            caption = f"Query by query: {best} against {short[other]}"
            table = Table.of(f"queries-{short[other]}", caption, header, rows, notes=notes, is_folded=True)
            shown.append(table.without_empty_columns())
    return shown


def tables(comparison: Comparison) -> list[Table]:
    """The tables of the page, in its order.

    The ranking; then by split, by passage, and query by query, where the data have what is needed.
    """
    shown = [ranking_table(comparison), split_table(comparison), passage_table(comparison)]
    made = [table for table in shown if table is not None]
    return [*made, *query_tables(comparison)]


def page(
    comparison: Comparison,
    pictures: Sequence[Drawing],
    links: Sequence[tuple[str, str]] = (),
    command: str = "",
) -> str:
    """One self-contained HTML page.

    Args:
        comparison: what is shown.
        pictures: the figures, which stand between the answer and the tables.
        links: addresses and titles of other comparisons in the same folder.
        command: the line that made it.
    """
    advice = comparison.recommendation
    facts = [
        ("Written", comparison.written),
        ("Data", f"{', '.join(comparison.tasks)}, {comparison.n_queries:,} queries"),
        ("Documents", _documents(comparison)),
    ]
    if command:
        facts.append(("Command", command))
    facts.append(("Versions", ", ".join(f"{name} {version(name)}" for name in _SHOWN)))
    return html_page.write(
        html_page.Page(
            title="Comparison",
            tables=tables(comparison),
            drawings=pictures,
            answer=html_page.Answer(advice.use, advice.typed, (advice.certainty, advice.price)),
            cautions=comparison.cautions,
            conclusions=advice.notes,
            problems=[*comparison.left_out, *comparison.skipped],
            facts=facts,
            links=links,
        )
    )


def _documents(comparison: Comparison) -> str:
    """How many documents there are, and how long they are."""
    row = next((row for row in comparison.rows if row.cost.length_quartiles), None)
    if row is None:
        return f"{comparison.n_documents:,}"
    low, median, high = row.cost.length_quartiles
    return (
        f"{comparison.n_documents:,}; half have {low:,.0f} to {high:,.0f} tokens, the median is {median:,.0f}"
    )


def _p_value(value: float | None) -> Cell:
    """A p-value with three decimals."""
    if value is None:
        return Cell(MISSING)
    if value < 0.001:
        return Cell("<0.001", value)
    return Cell(f"{value:.3f}", value)


def _difference(interval: Interval | None) -> Cell:
    """A difference with its sign, and its interval in whole points."""
    if interval is None:
        return Cell(MISSING)
    text = f"{interval.mean:+.1f}"
    if interval.is_known:
        text += f" [{interval.low:+.0f},{interval.high:+.0f}]"
    return Cell(text, interval.mean)


#: What JSON has of a comparison as it is.
_AS_IT_IS = (
    "written", "identity", "tasks", "metrics", "counted", "cautions", "synthetic_queries", "left_out", "skipped",
    "n_queries", "n_documents",
)  # fmt: skip


def as_json(comparison: Comparison) -> str:
    """Everything that was found, as JSON.

    Scores and differences are lists of the mean and both ends of its interval, which are null where there is none. What
    is infinite is null.
    """
    advice = comparison.recommendation
    costs = json.loads(comparison.costs.set_index("candidate").to_json(orient="index"))
    plain = {
        "version": version("mteb-longembed"),
        **{key: getattr(comparison, key) for key in _AS_IT_IS},
        "recommendation": {**asdict(advice), "answer": list(advice.answer)},
        "candidates": [{**_plain_row(row), **costs[row.name]} for row in comparison.rows],
        "by_query": {other: list(map(asdict, queries)) for other, queries in comparison.queries.items()},
        "passages": {name: _plain_passages(comparison, name) for name in comparison.passages},
    }
    return json.dumps(plain, indent=1) + "\n"


def _plain_row(row: Row) -> dict[str, Any]:
    """A row for JSON, without its cost."""
    more_queries = None
    if math.isfinite(row.more_queries):
        more_queries = row.more_queries
    return {
        "name": row.name,
        "label": row.label,
        "base": row.candidate.base,
        "score": _ends(row.score),
        "standing": row.standing,
        "first_share": row.first_share,
        "diff_to_base": _ends(row.diff_to_base),
        "p_adjusted": row.p_value,
        "diff_to_best": _ends(row.diff_to_best),
        "is_equivalent": row.is_equivalent,
        "more_queries": more_queries,
        "other_metrics": {name: _ends(interval) for name, interval in row.others.items()},
        "by_split": {f"{task}/{split}": _ends(interval) for (task, split), interval in row.by_split.items()},
    }


def _plain_passages(comparison: Comparison, name: str) -> dict[str, Any]:
    """The scores of a candidate's passages for JSON: shares in percent, the median of tokens read."""
    scores = comparison.passages[name]
    tokens = [
        n if math.isfinite(n) else None for n in (scores.tokens.mean, scores.tokens.low, scores.tokens.high)
    ]
    shares = {f"passage@{k}": _ends(share) for k, share in scores.at.items()}
    return {"queries": scores.n_queries, **shares, "tokens": tokens}


def _ends(interval: Interval | None) -> list[float | None] | None:
    """The mean and both ends of an interval, None if there is none."""
    if interval is None:
        return None
    if not interval.is_known:
        return [interval.mean, None, None]
    return [interval.mean, interval.low, interval.high]


#: The folder of all comparisons inside the output folder.
COMPARISONS = "comparisons"
PAGE = "compare.html"
MACHINE = "compare.json"
SCORES = "scores.parquet"


def write_all(comparison: Comparison, output: Path, pictures: Sequence[Drawing], command: str) -> Path:
    """Write the page, the JSON and the scores of each query into the comparison's folder.

    Args:
        comparison: what is written.
        output: the folder of all results.
        pictures: the page's figures.
        command: the line that made it, for the page's foot.

    Returns:
        The folder, for its page.
    """
    folder = folder_of(comparison, output)
    write_file(folder / MACHINE, as_json(comparison))
    out = io.BytesIO()
    comparison.scores.to_parquet(out)
    write_file(folder / SCORES, out.getvalue())
    write_file(folder / PAGE, page(comparison, pictures, siblings(folder), command))
    return folder


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
            written = str(saved["written"])
            best = saved["recommendation"]["best"]
            text = f"{', '.join(saved['tasks'])}: {best}, {written}"
        except (DataError, OSError, LookupError, TypeError):
            continue  # another program wrote it
        pages.append((written, f"../{path.parent.name}/{PAGE}", text))
    return [(address, text) for _, address, text in sorted(pages, reverse=True)]
