"""A comparison as tables in a terminal, as one HTML page that loads nothing, as JSON, and the folder of all three."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from tabulate import tabulate  # type: ignore[import-untyped]

from mteb_longembed.evaluation.evaluate import AT, COVERED
from mteb_longembed.figures import GRID, drawn
from mteb_longembed.files import make_folder, printable, slug, write_file

from .costs import CLEARLY
from .figure import draw
from .summary import ENOUGH_SHARE, MARGIN, is_number
from .verdict import percent

if TYPE_CHECKING:
    from .compare import Comparison

MISSING = "-"
#: The packages whose versions a page names.
_SHOWN = ("mteb-longembed", "mteb", "sentence-transformers", "transformers", "torch")
NEAR = f"within {MARGIN:g}"
#: What a column is, for the columns that not everybody can guess.
_LEGEND = {
    "to best": "To best: the mean difference to the highest score on the same queries, in points, with its 95 % "
    "interval; same: no query differs.",
    NEAR: f"Within {MARGIN:g}: the share of resamples in which it is less than {MARGIN:g} points behind all others. "
    "Each resample also holds a document that nobody has asked about, so few documents never show it. "
    "In one resample several can be so near, so these shares may add up to more than 100 %.",
    "standing": f"Standing: good enough (within {MARGIN:g} points in at least {100 * ENOUGH_SHARE:g} %), behind "
    "(surely behind the highest score, also if that is only the luckiest of many), may be best (all others).",
    "tokens/s": "Tokens/s: on the same documents, once for each pass. To count as faster, a candidate must encode all "
    f"documents in less than 1 / {CLEARLY:g} of the time, by more than its speed varied.",
    "read": "Read: the share of the documents' tokens that is read; unknown tokens count as not read.",
}
#: The columns of words: they are aligned left, and numbers right.
_WORDS = ("candidate", "standing")


@dataclass(frozen=True)
class Table:
    """What is shown of a comparison, as texts: numbers, with an interval in brackets behind them, and words.

    Its texts have no control characters, whatever a name says.

    Args:
        key: a short name, fit for the ids of a page.
        caption: its title.
        cells: the texts by the titles of their columns.
        notes: sentences below the table.
        standings: the word of each row, by which a page colours it; empty for none.
    """

    key: str
    caption: str
    cells: pd.DataFrame
    notes: Sequence[str] = ()
    standings: Sequence[str] = ()

    @classmethod
    def of(cls, key: str, caption: str, rows: Sequence[Mapping[str, str]], **more: Any) -> Table:
        """A table without its empty columns."""
        cells = pd.DataFrame(rows).map(printable).rename(columns=printable)
        return cls(key, printable(caption), cells.loc[:, (cells != MISSING).any()], **more)

    def as_text(self) -> str:
        """The table for a terminal."""
        sides = ["left" if title in _WORDS else "right" for title in self.cells]
        rows = tabulate(self.cells, "keys", "simple", showindex=False, disable_numparse=True, colalign=sides)
        return f"{self.caption}\n\n{rows}"


def tables(comparison: Comparison) -> list[Table]:
    """The ranking; then the scores by split, if there are several, and the passages, if some are judged."""
    found = [ranking_table(comparison)]
    if len(comparison.by_split[["task", "split"]].drop_duplicates()) > 1:
        found.append(_split_table(comparison))
    if f"passage@{AT[0]}" in comparison.summary:
        found.append(_passage_table(comparison))
    return found


def ranking_table(comparison: Comparison) -> Table:
    """The candidates, the best first."""
    metric = comparison.metric
    others = [name for name in comparison.metrics if name in comparison.summary.columns]
    rows = []
    for row in comparison.summary.to_dict("records"):
        cells = {"candidate": row["label"], metric: _spread(row, "score", "low", "high")}
        cells["to best"] = _spread(row, "to_best", "to_best_low", "to_best_high", "+")
        if row["is_same"]:
            cells["to best"] = "same"
        cells[NEAR] = percent(row["near_share"])
        cells["standing"] = row["standing"]
        cells |= {name: _spread(row, name, f"{name} low", f"{name} high") for name in others}
        cells["tokens/s"] = _number(row["tokens_per_second"], 0)
        cells["vectors"] = _number(row["vectors"], 2)
        cells["KB/doc"] = _number(row["bytes"] and row["bytes"] / 1024, 2)
        cells["read"] = MISSING
        # how much of a document's text BM25 reads is not counted in tokens of a model
        if row["kind"] != "bm25" and is_number(row["share_read"]):
            cells["read"] = percent(row["share_read"])
        rows.append(cells)
    table = Table.of("compare", "Candidates", rows)
    first = f"{metric}: percent, the mean over splits, then over tasks; the brackets show the 95 % interval."
    legend = [text for column, text in _LEGEND.items() if column in table.cells]
    notes = [comparison.signature, first, *legend, *comparison.texts("data")]
    return replace(table, notes=notes, standings=list(comparison.summary["standing"]))


def _split_table(comparison: Comparison) -> Table:
    rows = []
    for name, label in comparison.summary["label"].items():
        cells = {"candidate": label}
        of_name = comparison.by_split[comparison.by_split["candidate"] == name]
        for row in of_name.to_dict("records"):
            cells[f"{row['task']} {row['split']}"] = _spread(row, "score", "low", "high")
        rows.append(cells)
    return Table.of("splits", f"{comparison.metric} by task and split, in percent", rows)


def _passage_table(comparison: Comparison) -> Table:
    """How well the passages answer, and how much text they are."""
    rows = []
    for row in comparison.summary.to_dict("records"):
        cells = {"candidate": row["label"]}
        for k in AT:
            cells[f"passage@{k}"] = _spread(row, f"passage@{k}", f"passage@{k} low", f"passage@{k} high")
            cells[f"context@{k}"] = _number(row[f"context@{k}"], 0)
        rows.append(cells)
    n_queries = int(comparison.scores.groupby("candidate")[f"passage@{AT[0]}"].count().max())
    notes = (
        f"Passage@k: percent of {n_queries:,} judged queries for which, among the best passage of each of the first k "
        f"documents, one covers at least {COVERED:.0%} of a passage that answers.",
        "Context@k: the mean tokens of these k passages, which a reader or a language model then reads; 0.75 words are "
        "one token.",
    )
    return Table.of("passages", "Passages that answer", rows, notes=notes)


def _number(value: float | None, digits: int) -> str:
    if not is_number(value):
        return MISSING
    return f"{value:z,.{digits}f}"


def _spread(row: Mapping[str, Any], mean: str, low: str, high: str, sign: str = "") -> str:
    """A mean, perhaps with its sign, and its interval in whole points."""
    if not is_number(row[mean]):
        return MISSING
    text = f"{row[mean]:{sign}z.1f}"
    if is_number(row[low]):
        text += f" [{row[low]:{sign}z.0f},{row[high]:{sign}z.0f}]"
    return text


def page(comparison: Comparison, command: str = "") -> str:
    """One self-contained HTML page. It has its styles and its picture, and its own policy forbids to load more.

    Args:
        comparison: what is shown.
        command: the line that made it.
    """
    documents = f"{comparison.n_documents:,}"
    for row in comparison.summary.dropna(subset=["median_len"]).head(1).itertuples():
        documents += f"; the median has {row.median_len:,.0f} tokens, the longest {row.longest:,.0f}"
    facts = {
        "Written": comparison.written,
        "Data": f"{', '.join(comparison.tasks)}, {comparison.setting.queries}",
        "Documents": documents,
        "Command": command,
        "Left out": " ".join(comparison.texts("left out")) or "nothing",
        "Versions": ", ".join(f"{name} {version(name)}" for name in _SHOWN),
    }
    svg = drawn(draw(comparison), "svg", transparent=True).decode("utf-8")
    # HTML must not contain the XML declaration and the document type
    svg = svg[svg.index("<svg") :]
    # black is the page's colour of text; matplotlib leaves out a black fill (see the style)
    svg = svg.replace("#000000", "currentColor").replace(GRID, "rgba(128, 128, 128, 0.4)")
    picture = Markup(svg.replace("<svg", '<svg role="img" aria-labelledby="standings"', 1))
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True, finalize=_shown
    )
    template = (files("mteb_longembed.comparing") / "page.html.j2").read_text(encoding="utf-8")
    values = {"picture": picture, "tables": tables(comparison), "facts": facts, "margin": f"{MARGIN:g}"}
    values["words"] = _WORDS
    return environment.from_string(template).render(comparison=comparison, **values)


def _shown(value: object) -> object:
    """What the page shows of a value of the template: texts of others, such as paths, without control characters."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return printable(value)
    return value


def as_json(comparison: Comparison) -> str:
    """Everything that was found, as JSON: the frames, row by row. What is not known or infinite is null."""
    plain = {
        "version": version("mteb-longembed"),
        "written": comparison.written,
        "identity": comparison.identity,
        "tasks": comparison.tasks,
        "metrics": comparison.metrics,
        "n_queries": comparison.setting.n_queries,
        "n_groups": comparison.setting.n_groups,
        "n_documents": comparison.n_documents,
        "signature": comparison.signature,
        "advice": {**asdict(comparison.advice), "answer": comparison.advice.answer},
        "notes": [note._asdict() for note in comparison.notes],
        "candidates": _records(comparison.summary.reset_index()),
        "by_split": _records(comparison.by_split),
    }
    return json.dumps(plain, indent=1, allow_nan=False) + "\n"


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return json.loads(frame.to_json(orient="records", double_precision=15))


#: The folder of all comparisons inside the output folder.
COMPARISONS = "comparisons"
PAGE = "compare.html"


def write_all(comparison: Comparison, output: Path, command: str) -> Path:
    """Write the page, the JSON and the scores of each query into the comparison's folder.

    Its name has a hash of data, candidates and metrics, so the same command writes to the same place.

    Args:
        comparison: what is written.
        output: the folder of all results.
        command: the line that made it, for the page's foot.

    Returns:
        The folder, for its page.
    """
    folder = output / COMPARISONS / slug(f"{'+'.join(comparison.tasks)[:60]}-{comparison.identity[:8]}")
    make_folder("the comparison's folder", folder)
    write_file(folder / "compare.json", as_json(comparison))
    write_file(folder / "scores.parquet", comparison.scores.to_parquet())
    write_file(folder / PAGE, page(comparison, command))
    return folder
