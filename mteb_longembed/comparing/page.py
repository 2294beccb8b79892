"""A comparison as tables in a terminal, as one HTML page that loads nothing, as JSON, and the folder of all three."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from markupsafe import Markup
from tabulate import tabulate  # type: ignore[import-untyped]

from mteb_longembed.evaluation.resampling import Interval
from mteb_longembed.figures import GRID, drawn
from mteb_longembed.files import Json, counted, make_folder, printable, slug, write_file

from .failures import N_FAILURES, base_row, failures
from .figure import COLOURS, draw_costs, draw_figure, first_rows
from .kinds import differing
from .summary import MARGIN, Row, is_number
from .template import render
from .verdict import percent, times_base

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .comparison import Comparison

MISSING = "-"
#: Version of the JSON; docs/compare.md describes it.
SCHEMA = 1
#: The packages whose versions a page names.
_SHOWN = ("mteb-longembed", "mteb", "sentence-transformers", "transformers", "torch")
NEAR = f"within {MARGIN:g}"
#: Explanations of the columns that are not self-explanatory.
_LEGEND = {
    "to best": "To best: the mean difference to the highest score on the same queries, in points, with its 95 % "
    "interval, widened at its upper end for the number of candidates; same: no query differs.",
    NEAR: f"Within {MARGIN:g}: the share of resamples in which it is less than {MARGIN:g} points behind all others. "
    "In one resample several can be so near, so these shares may add up to more than 100 %.",
    "standing": "Standing: behind, if the interval of the difference excludes 0; else not separated.",
    "not judged": "Not judged: how many of its ten best documents nobody judged, which count as not relevant.",
    "operations": "Operations: floating-point operations to encode a document, as a multiple of the base's.",
    "read": "Read: the share of the documents' tokens that is read; unknown tokens count as not read.",
}
#: Text columns: aligned left, numbers right.
_TEXT_COLUMNS = (
    "candidate", "standing", "query", "id", "split", "relevant documents", "it shows", "right passage", "best other is",
)  # fmt: skip
#: Columns of long texts.
_TEXTS = ("query", "it shows", "right passage")
#: Maximum characters of a query and of an id, and ids for each query.
_QUERY_LENGTH = 300
_ID_LENGTH = 60
_N_IDS = 3
#: A number of a table, perhaps with `<` or `>`.
_NUMBER = re.compile(r"([<>]?)([+-]?[\d,]*\.?\d+(?:e[+-]?\d+)?)")


@dataclass(frozen=True)
class Table:
    """A table of a comparison with formatted cells: texts, and numbers followed by their interval in brackets.

    Control characters of names are replaced.

    Args:
        key: a short name, fit for the ids of a page.
        caption: its title.
        cells: formatted cells by column title.
        notes: sentences below the table.
        standings: the standing of each row, which sets its colour; empty for none.
    """

    key: str
    caption: str
    cells: pd.DataFrame
    notes: Sequence[str] = ()
    standings: Sequence[str] = ()

    @classmethod
    def of(
        cls,
        key: str,
        caption: str,
        rows: Sequence[Mapping[str, str]],
        notes: Sequence[str] = (),
        standings: Sequence[str] = (),
    ) -> Table:
        """Build a table without empty columns."""
        cells = pd.DataFrame(rows).map(printable).rename(columns=printable)
        return cls(key, printable(caption), cells.loc[:, (cells != MISSING).any()], notes, standings)

    def as_text(self) -> str:
        """Format the table for a terminal."""
        sides = ["left" if title in _TEXT_COLUMNS else "right" for title in self.cells]
        rows = tabulate(self.cells, "keys", "simple", showindex=False, disable_numparse=True, colalign=sides)
        return f"{self.caption}\n\n{rows}"


def tables(comparison: Comparison) -> list[Table]:
    """Return the ranking, then the scores by split if there are several."""
    shown = [ranking_table(comparison)]
    if len(comparison.by_split[["task", "split"]].drop_duplicates()) > 1:
        shown.append(_split_table(comparison))
    if not comparison.by_kind.empty:
        shown.append(kind_table(comparison))
    return shown


def kind_table(comparison: Comparison) -> Table:
    """Return the scores by kind of query beside the whole, and say where the best differs."""
    scores = comparison.by_kind
    rows = []
    for candidate in comparison.rows:
        first = {"candidate": candidate.label, "all": _spread(candidate.score)}
        rows.append({**first, **_spreads(scores, candidate.id, "{kind} ({n_queries:,})")})
    notes = differing(scores, comparison.rows) or ["The best of all is the best on each kind."]
    return Table.of("kinds", f"{comparison.metric} by kind of query, in percent", rows, notes=notes)


def ranking_table(comparison: Comparison) -> Table:
    """Return the table of candidates, the best first."""
    metric = comparison.metric
    rows = [_cells(row, comparison.rows, metric) for row in comparison.rows]
    table = Table.of("compare", "Candidates", rows)
    first = f"{metric}: percent, the mean over splits, then over tasks; the brackets show the 95 % interval."
    legend = [text for column, text in _LEGEND.items() if column in table.cells]
    notes = [comparison.signature, first, *legend, *comparison.texts("data")]
    return replace(table, notes=notes, standings=[row.standing for row in comparison.rows])


def _cells(row: Row, rows: Sequence[Row], metric: str) -> dict[str, str]:
    """Return a row of the ranking as texts."""
    cost = row.cost
    cells = {"candidate": row.label, metric: _spread(row.score)}
    cells["to best"] = "same" if row.is_same else _spread(row.to_best, "+")
    cells[NEAR] = percent(row.near_share)
    cells["standing"] = row.standing
    cells |= {name: _spread(interval) for name, interval in row.metrics.items()}
    times = times_base(row, rows)
    cells["not judged"] = _number(row.n_unjudged, 1)
    cells["operations"] = MISSING if times is None else f"{times:,.3g}x"
    cells["vectors"] = _number(cost.vectors, 2)
    cells["KB/doc"] = _number(cost.bytes and cost.bytes / 1024, 2)
    cells["read"] = MISSING
    # how much of a document's text BM25 reads is not counted in tokens of a model
    if row.kind != "bm25" and is_number(cost.share_read):
        cells["read"] = percent(cost.share_read)
    return cells


def _split_table(comparison: Comparison) -> Table:
    rows = []
    for candidate in comparison.rows:
        cells = _spreads(comparison.by_split, candidate.id, "{task} {split}")
        rows.append({"candidate": candidate.label, **cells})
    return Table.of("splits", f"{comparison.metric} by task and split, in percent", rows)


def failures_table(comparison: Comparison) -> Table | None:
    """Return the worst failures of the recommended candidate; None if there is no other candidate, or no failure."""
    worst = failures(comparison)
    if worst.empty:
        return None
    if not comparison.passages.empty:
        worst = worst.merge(comparison.passages, on=["task", "split", "query"], how="left")
    labels = {row.id: row.label for row in comparison.rows}
    recommended = list(labels).index(comparison.recommended.id)
    several_splits = len(comparison.by_split[["task", "split"]].drop_duplicates()) > 1
    rows = []
    for one in worst.head(N_FAILURES).to_dict("records"):
        cells = {"query": _cut(one["text"], _QUERY_LENGTH)}
        cells["it shows"] = _passage(one.get("shown"), one["top_document"])
        cells["right passage"] = _passage(one.get("answer"), one["best_relevant"])
        cells["rank"] = _rank(one["ranks"][recommended])
        for title in ("recommended", "base", "best other", "lost"):
            cells[title] = MISSING if one[title] is None else f"{100 * one[title]:.1f}"
        cells["best other is"] = labels[one["by"]]
        cells |= {f"#{number}": _rank(rank) for number, rank in enumerate(one["ranks"], 1)}
        cells["id"] = _cut(one["query"], _ID_LENGTH)
        if several_splits:
            cells["split"] = f"{one['task']} {one['split']}"
        cells["relevant documents"] = _ids(one["relevant"])
        rows.append(cells)
    n_queries = counted(comparison.setting.n_queries, "query", "queries")
    notes = [
        f"Another candidate has a higher {comparison.metric} on {len(worst):,} of {n_queries}. The best other one is "
        "chosen for each query, so the best method has such queries too. Lost: the difference to it, in points."
    ]
    if len(rows) < len(worst):
        notes.append(f"Shown: the {len(rows):,} worst.")
    numbered = ", ".join(f"#{number} {label}" for number, label in enumerate(labels.values(), 1))
    notes.append(f"Rank: of the best relevant document. By each candidate: {numbered}.")
    if not comparison.passages.empty:
        notes.append("It shows: the passage of its first document. Right passage: of the best relevant one.")
    base = base_row(comparison)
    if base is not None and base.label != "base":
        notes.append(f"Base: {base.label}.")
    return Table.of("failures", f"Worst failures of {comparison.recommended.label}", rows, notes=notes)


def _ids(ids: Sequence[str]) -> str:
    """Return the first ids, and how many more there are."""
    text = ", ".join(_cut(one, _ID_LENGTH) for one in ids[:_N_IDS])
    if len(ids) > _N_IDS:
        text += f" and {len(ids) - _N_IDS:,} more"
    return text or MISSING


def _passage(text: object, document: str) -> str:
    """Format the id of a document and its passage; `MISSING` without a passage."""
    return f"{_cut(document, _ID_LENGTH)}: {text}" if isinstance(text, str) and text else MISSING


def _rank(rank: float) -> str:
    return f"{rank:,.0f}" if is_number(rank) else MISSING


def _cut(text: str, n_characters: int) -> str:
    """Return a text in one line, truncated to a number of characters."""
    text = " ".join(text.split())
    if len(text) <= n_characters:
        return text
    return f"{text[: n_characters - 1]}…"


def sort_key(title: str, cell: str) -> float | None:
    """Return the number by which the page sorts a cell; None for text and unknown values.

    >>> sort_key("nDCG@10", "1,094.5 [84,99]"), sort_key("read", ">99 %"), sort_key("standing", "2")
    (1094.5, 99.5, None)
    """
    if title == "to best" and cell in ("same", MISSING):
        return 0.0
    number = _NUMBER.match(cell)
    if title in _TEXT_COLUMNS or number is None:
        return None
    beyond = {"<": -0.5, ">": 0.5}.get(number[1], 0.0)
    return float(number[2].replace(",", "")) + beyond


def _number(value: float | None, digits: int) -> str:
    if not is_number(value):
        return MISSING
    return f"{value:z,.{digits}f}"


def _spread(interval: Interval, sign: str = "") -> str:
    """Format a mean, perhaps with its sign, and its interval."""
    if not is_number(interval.mean):
        return MISSING
    text = f"{interval.mean:{sign}z.1f}"
    if is_number(interval.low):
        text += f" [{_end(interval.low, sign)},{_end(interval.high, sign)}]"
    return text


def _spreads(scores: pd.DataFrame, candidate: str, title: str) -> dict[str, str]:
    """Format the rows of a candidate by their titles, in which the values of other columns are filled in."""
    cells = {}
    for row in scores[scores["candidate"] == candidate].to_dict("records"):
        interval = Interval(row["score"], row["score_low"], row["score_high"])
        cells[title.format(**row)] = _spread(interval)
    return cells


def _end(value: float, sign: str) -> str:
    """Format an end of an interval in whole points, with up to two more digits if it would round to 0."""
    for digits in range(3):
        text = f"{value:{sign}z.{digits}f}"
        if float(text) != 0:
            break
    return text


def page(comparison: Comparison, command: str = "") -> str:
    """Render one self-contained HTML page; its content security policy forbids it to load anything.

    Without its script the tables cannot be sorted; nothing else changes.

    Args:
        comparison: the comparison.
        command: the command line that made it.
    """
    documents = f"{comparison.n_documents:,}"
    costs = [row.cost for row in comparison.rows if row.cost.median_len is not None]
    for cost in costs[:1]:
        documents += f"; the median has {cost.median_len:,.0f} tokens, the longest {cost.longest:,.0f}"
    facts = {
        "Written": comparison.written,
        "Data": f"{', '.join(comparison.tasks)}, {comparison.setting.queries}",
        "Documents": documents,
        "Command": command,
        "Left out": " ".join(comparison.texts("left out")) or "nothing",
        "Versions": ", ".join(f"{name} {version(name)}" for name in _SHOWN),
    }
    scatter = draw_costs(comparison)
    of_failures = failures_table(comparison)
    first = first_rows(comparison.rows)
    others = None
    if len(first) < len(comparison.rows):
        others = _picture(draw_figure(comparison), "all")
    return render(
        "page.html.j2",
        "sort.js",
        comparison=comparison,
        standings=_picture(draw_figure(comparison, first), "standings"),
        all_standings=others,
        scatter=scatter and _picture(scatter, "costs"),
        tables=[*tables(comparison), *([of_failures] if of_failures else [])],
        facts=facts,
        margin=f"{MARGIN:g}",
        words=_TEXT_COLUMNS,
        texts=_TEXTS,
        names=("candidate", "best other is"),
        sort_key=sort_key,
        colours={name.replace(" ", "-"): colour for name, colour in COLOURS.items()},
    )


def _picture(figure: Figure, key: str) -> Markup:
    """Return a figure as inline SVG in the page's colours, labelled by the element whose id is `key`."""
    svg = drawn(figure, "svg", transparent=True).decode("utf-8")
    # HTML must not contain the XML declaration and the document type
    svg = svg[svg.index("<svg") :]
    # matplotlib gives each picture the same ids
    svg = re.sub(r'(\sid="|href="#|url\(#)', rf"\1{key}-", svg)
    # black is the page's colour of text; matplotlib leaves out a black fill (see the style)
    svg = svg.replace("#000000", "currentColor").replace(GRID, "rgba(128, 128, 128, 0.4)")
    for standing, colour in COLOURS.items():
        svg = svg.replace(colour.lower(), f"var(--{standing.replace(' ', '-')})")
    return Markup(svg.replace("<svg", f'<svg role="img" aria-labelledby="{key}"', 1))


def as_json(comparison: Comparison) -> str:
    """Return all results as JSON, tables row by row. Unknown and infinite values are null."""
    plain = {
        "schema": SCHEMA,
        "version": version("mteb-longembed"),
        "written": comparison.written,
        "identity": comparison.identity,
        "tasks": comparison.tasks,
        "metrics": comparison.metrics,
        "n_queries": comparison.setting.n_queries,
        "n_clusters": comparison.setting.n_clusters,
        "n_documents": comparison.n_documents,
        "is_complete": comparison.is_complete,
        "signature": comparison.signature,
        "advice": {**asdict(comparison.advice), "answer": comparison.advice.answer},
        "notes": [note._asdict() for note in comparison.notes],
        "candidates": [_plain(row.as_dict()) for row in comparison.rows],
        "by_split": _records(comparison.by_split),
        "by_kind": _records(comparison.by_kind),
    }
    return json.dumps(plain, indent=1, allow_nan=False) + "\n"


def _plain(values: Json) -> Json:
    """Replace unknown and infinite values by None, JSON's null."""
    return {
        key: None if isinstance(value, float) and not is_number(value) else value
        for key, value in values.items()
    }


def _records(frame: pd.DataFrame) -> list[Json]:
    return json.loads(frame.to_json(orient="records", double_precision=15))


#: The folder of all comparisons inside the output folder.
COMPARISONS = "comparisons"
PAGE = "compare.html"


def folder_of(comparison: Comparison, output: Path) -> Path:
    """Return the folder of a comparison, which has a hash of data, candidates and metrics in its name."""
    return output / COMPARISONS / slug(f"{'+'.join(comparison.tasks)[:60]}-{comparison.identity[:8]}")


def write_all(comparison: Comparison, output: Path, command: str) -> Path:
    """Write the page, the JSON and the scores of each query into the comparison's folder.

    The same command writes to the same folder.

    Args:
        comparison: the comparison.
        output: the folder of all results.
        command: the command line that made it, for the page.

    Returns:
        The comparison's folder.
    """
    folder = folder_of(comparison, output)
    make_folder("the comparison's folder", folder)
    write_file(folder / "compare.json", as_json(comparison))
    write_file(folder / "scores.parquet", comparison.scores.to_parquet())
    write_file(folder / PAGE, page(comparison, command))
    return folder
