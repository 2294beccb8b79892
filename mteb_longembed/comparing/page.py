"""A comparison as tables in a terminal, as one HTML page that loads nothing, as JSON, and the folder of all three."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape
from pandas.io.formats.style import Styler
from tabulate import tabulate  # type: ignore[import-untyped]

from mteb_longembed.evaluation.passages import AT, COVERED
from mteb_longembed.figures import GRID, drawn
from mteb_longembed.files import make_folder, printable, slug, write_file

from .costs import CLEARLY
from .figure import draw
from .labels import on_lines
from .questions import SHOWN
from .summary import ENOUGH_SHARE, MARGIN, is_number
from .verdict import percent

if TYPE_CHECKING:
    from .compare import Comparison

MISSING = "-"
#: The packages whose versions a page names.
_SHOWN = ("mteb-longembed", "mteb", "sentence-transformers", "transformers", "torch")
NEAR = f"within {MARGIN:g}"
#: What a narrow terminal leaves out, the first one first. Scores and costs stay.
_OPTIONAL = ("runs", "vectors", "to best", NEAR)
#: Characters of a line of a name, from wide to narrow terminals.
_LINES = (36, 30, 26, 23, 20)
#: What a column is, for the columns that not everybody can guess.
_LEGEND = {
    "to best": "To best: the mean difference to the highest score on the same queries, in points, with its 95 % "
    "interval; same: no query differs.",
    NEAR: f"Within {MARGIN:g}: the share of resamples in which it is less than {MARGIN:g} points behind all others. "
    "Each resample also holds a document that nobody has asked about, so few documents never show it.",
    "standing": f"Standing: good enough (within {MARGIN:g} points in at least {100 * ENOUGH_SHARE:g} %), behind "
    "(surely behind the highest score, also if that is only the luckiest of many), may be best (all others).",
    "tokens/s": "Tokens/s: on the same documents, once for each pass. To count as faster, a candidate must encode all "
    f"documents in less than 1 / {CLEARLY:g} of the time, by more than its speed varied.",
    "vectors": "Vectors and KB/doc: the mean of all documents.",
    "read": "Read: the share of the documents' tokens that is read; tokens that the tokenizer does not know "
    "count as not read.",
    "runs": "Runs: the tokens that go through the model, as a multiple of the documents' tokens. It is above 1 because "
    "each window has special tokens and the prompt of its own, and the last one moves back to be full.",
}
#: The columns of words: they are aligned left, and numbers right.
_WORDS = ("candidate", "standing", "question", "came first", "instead of")


@dataclass(frozen=True)
class Table:
    """What is shown of a comparison, as texts: numbers, with an interval in brackets behind them, and words.

    Its texts have no control characters, whatever a query says.

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
        return cls(slug(key), printable(caption), cells.loc[:, (cells != MISSING).any()], **more)

    def as_html(self) -> Markup:
        """The table as HTML, by pandas. The cells of a row have its standing as their class."""
        style = Styler(self.cells, uuid=self.key, cell_ids=False).hide(axis="index")
        to_the_left = [{"selector": "th,td", "props": "text-align: left; white-space: normal"}]
        words = [title for title in _WORDS if title in self.cells]
        style = style.set_table_styles(dict.fromkeys(words, to_the_left))
        if self.standings:
            rows = [[word.replace(" ", "-")] * self.cells.shape[1] for word in self.standings]
            style = style.set_td_classes(pd.DataFrame(rows, columns=self.cells.columns))
        return Markup(style.format(_breakable).format_index(_breakable, axis=1).to_html())


def ranking_table(comparison: Comparison) -> Table:
    """The candidates, the best first."""
    metric = comparison.metric
    others = [name for name in comparison.metrics if name in comparison.summary.columns]
    rows = []
    for row in comparison.summary.to_dict("records"):
        cells = {
            "candidate": row["label"],
            metric: _spread(row["score"], row["low"], row["high"]),
            "to best": _difference(row),
            NEAR: _share(row["near_share"]),
            "standing": row["standing"],
        }
        cells |= {name: _spread(row[name], row[f"{name} low"], row[f"{name} high"]) for name in others}
        cells["tokens/s"] = _number(row["tokens_per_second"], 0)
        cells["vectors"] = _number(row["vectors"], 2)
        cells["KB/doc"] = _number(row["bytes"], 2, unit=1024)
        cells["read"] = _share(row["share_read"])
        if row["kind"] == "bm25":
            # how much of a document's text BM25 reads is not counted in tokens of a model
            cells["read"] = MISSING
        cells["runs"] = _number(row["times_run"], 2)
        rows.append(cells)
    table = Table.of("compare", "Candidates", rows)
    first = f"{metric}: percent, the mean over splits, then over tasks; the brackets show the 95 % interval."
    legend = [text for column, text in _LEGEND.items() if column in table.cells]
    notes = [comparison.signature, first, *legend, *comparison.texts("data")]
    return replace(table, notes=notes, standings=list(comparison.summary["standing"]))


def split_table(comparison: Comparison) -> Table | None:
    """The scores by split, None if there is only one split."""
    frame = comparison.by_split
    if len(frame[["task", "split"]].drop_duplicates()) < 2:
        return None
    rows = []
    for name, label in comparison.summary["label"].items():
        cells = {"candidate": label}
        for row in frame[frame["candidate"] == name].itertuples():
            cells[f"{row.task} {row.split}"] = _spread(row.score, row.low, row.high)
        rows.append(cells)
    return Table.of("splits", f"{comparison.metric} by task and split, in percent", rows)


def passage_table(comparison: Comparison) -> Table | None:
    """How well the passages answer, and how much text they are, None if no task knows which passages answer."""
    summary = comparison.summary
    if f"passage@{AT[0]}" not in summary:
        return None
    rows = []
    for row in summary.to_dict("records"):
        cells = {"candidate": row["label"]}
        for k in AT:
            share = f"passage@{k}"
            cells[share] = _spread(row[share], row[f"{share} low"], row[f"{share} high"])
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


def trust_table(comparison: Comparison) -> Table | None:
    """The score of the best fusion with each trust in words, None without one."""
    trust = comparison.trust
    if trust is None:
        return None
    row = {}
    for value, score in trust.curve.items():
        title = f"{value:g}"
        if value == trust.own:
            title += " (now)"
        row[title] = _number(score, 1)
    return Table.of("trust", f"{comparison.metric} by trust in words", [row], notes=(trust.sentence,))


def question_table(comparison: Comparison) -> Table | None:
    """The questions that the recommended candidate failed, the worst ones; None if it failed none."""
    failed = comparison.questions
    if failed.empty:
        return None
    rows = []
    for row in failed.head(SHOWN).to_dict("records"):
        shown = {"question": f"{row['query']}: {row['text']}", comparison.metric: _number(row["score"], 1)}
        shown["came first"] = MISSING
        if row["first"]:
            shown["came first"] = f"{row['first']}: {row['first_text']}"
        shown["instead of"] = f"{row['right']}: {row['right_text']}"
        rows.append(shown)
    label = comparison.summary.loc[comparison.advice.recommended, "label"]
    note = (
        f"For {len(failed):,} of {comparison.n_queries:,} queries no document that answers came first; these are the "
        f"{len(rows)} with the lowest scores. {QUESTIONS} has all."
    )
    return Table.of("questions", f"Questions that {label} failed", rows, notes=(note,))


def tables(comparison: Comparison) -> list[Table]:
    """The tables of the page: the ranking; then by split, passage and trust in words, and failed questions, if any."""
    found = [ranking_table(comparison)]
    for make in (split_table, passage_table, trust_table, question_table):
        table = make(comparison)
        if table is not None:
            found.append(table)
    return found


def _number(value: float, digits: int, unit: int = 1) -> str:
    if not is_number(value):
        return MISSING
    return f"{value / unit:z,.{digits}f}"


def _share(share: float) -> str:
    if not is_number(share):
        return MISSING
    return percent(share)


def _spread(mean: float, low: float, high: float) -> str:
    if not is_number(low):
        return _number(mean, 1)
    return f"{_number(mean, 1)} [{low:z.0f},{high:.0f}]"


def _difference(row: Mapping[str, Any]) -> str:
    """The difference to the best with its sign, and its interval in whole points."""
    if row["is_same"]:
        return "same"
    if not is_number(row["to_best"]):
        return MISSING
    text = f"{row['to_best']:+z.1f}"
    if is_number(row["to_best_low"]):
        text += f" [{row['to_best_low']:+z.0f},{row['to_best_high']:+z.0f}]"
    return text


def as_text(table: Table, width: int, *, notes: bool = True) -> str:
    """A table for a terminal of so many characters. If it is narrow, names have more lines, then columns are left out.

    Args:
        table: what is shown.
        width: of the terminal.
        notes: whether the notes below the table are shown.
    """
    optional = [title for title in _OPTIONAL if title in table.cells]
    for n_left_out, line in product(range(len(optional) + 1), _LINES):
        drawn = _drawn(table, line, optional[:n_left_out])
        if max(map(len, drawn.split("\n"))) <= width:
            break
    lines = [table.caption, "", drawn]
    if notes:
        lines += ["", *table.notes]
    if n_left_out:
        lines.append(
            f"The terminal is too narrow for these columns: {', '.join(optional[:n_left_out])}. The page and the JSON "
            "have them."
        )
    return "\n".join(lines)


def _drawn(table: Table, line: int, left_out: Sequence[str]) -> str:
    """Cells with spaces between them: words to the left, on lines of so many characters, numbers to the right."""
    cells = table.cells.drop(columns=list(left_out))
    sides = ["left" if title in _WORDS else "right" for title in cells]
    for title in filter(cells.columns.__contains__, _WORDS):
        cells[title] = [on_lines(text, line) for text in cells[title]]
    titles = [title.replace(" ", "\n").replace("/", "/\n") for title in cells]
    return str(tabulate(cells, titles, "simple", showindex=False, disable_numparse=True, colalign=sides))


def page(comparison: Comparison, command: str = "") -> str:
    """One self-contained HTML page. It has its styles and its picture, and its own policy forbids to load more.

    Args:
        comparison: what is shown.
        command: the line that made it.
    """
    facts = [
        ("Written", comparison.written),
        ("Data", f"{', '.join(comparison.tasks)}, {comparison.asked}"),
        ("Documents", _documents(comparison)),
        ("Command", command),
        ("Versions", ", ".join(f"{name} {version(name)}" for name in _SHOWN)),
    ]
    return _rendered(
        comparison,
        whole=True,
        picture=_picture(comparison),
        tables=tables(comparison),
        further=[
            ("What else follows", comparison.texts("finding", "untried")),
            ("Left out", comparison.texts("left out")),
        ],
        facts=[(title, text) for title, text in facts if text],
    )


def in_notebook(comparison: Comparison) -> str:
    """The answer and the table, for the output of a notebook's cell."""
    return _rendered(
        comparison, whole=False, tables=[replace(ranking_table(comparison), notes=())], further=[]
    )


def _rendered(comparison: Comparison, **values: Any) -> str:
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True, finalize=_shown
    )
    environment.filters["breakable"] = _breakable
    template = (files("mteb_longembed.comparing") / "page.html.j2").read_text(encoding="utf-8")
    return environment.from_string(template).render(
        advice=comparison.advice,
        cautions=comparison.texts("caution"),
        metric=comparison.metric,
        margin=f"{MARGIN:g}",
        **values,
    )


def _documents(comparison: Comparison) -> str:
    """How many documents there are, and how long they are."""
    known = comparison.summary.dropna(subset=["median_len"])
    n_documents = f"{comparison.n_documents:,}"
    if known.empty:
        return n_documents
    row = known.iloc[0]
    return f"{n_documents}; the median has {row['median_len']:,.0f} tokens, the longest {row['longest']:,.0f}"


def _shown(value: object) -> object:
    """What the page shows of a value of the template: texts of others, such as paths, without control characters."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return printable(value)
    return value


def _breakable(text: str) -> Markup:
    """A text with places where the browser may break a long name; never inside a number."""
    places = r"(?<=[a-z]{2})(?=[A-Z][a-z])|(?<=\S)(?=[+][a-z])|(?<=\w{3}/)(?=\w\w)|(?<=[:,])(?=[a-z])"
    return Markup(re.sub(places, "<wbr>", str(escape(printable(text)))))


def _picture(comparison: Comparison) -> Markup:
    """The figure as part of the page."""
    svg = drawn(draw(comparison), "svg", transparent=True).decode("utf-8")
    # HTML must not contain the XML declaration and the document type.
    svg = svg[svg.index("<svg") :]
    # Black is the page's colour of text; matplotlib leaves out a black fill (see the style).
    svg = svg.replace("#000000", "currentColor").replace(GRID, "rgba(128, 128, 128, 0.4)")
    return Markup(svg.replace("<svg", '<svg role="img" aria-labelledby="standings"', 1))


def as_json(comparison: Comparison) -> str:
    """Everything that was found, as JSON: the frames, row by row. What is not known or infinite is null."""
    plain = {
        "version": version("mteb-longembed"),
        "written": comparison.written,
        "identity": comparison.identity,
        "tasks": comparison.tasks,
        "metrics": comparison.metrics,
        "n_queries": comparison.n_queries,
        "n_groups": comparison.n_groups,
        "n_documents": comparison.n_documents,
        "signature": comparison.signature,
        "advice": {**asdict(comparison.advice), "answer": comparison.advice.answer},
        "notes": [note._asdict() for note in comparison.notes],
        "trust": comparison.trust and asdict(comparison.trust),
        "candidates": _records(comparison.summary.reset_index()),
        "by_split": _records(comparison.by_split),
        "questions": _records(comparison.questions),
    }
    return json.dumps(plain, indent=1, allow_nan=False) + "\n"


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return json.loads(frame.to_json(orient="records", double_precision=15))


#: The folder of all comparisons inside the output folder.
COMPARISONS = "comparisons"
PAGE = "compare.html"
MACHINE = "compare.json"
SCORES = "scores.parquet"
QUESTIONS = "questions.csv"


def write_all(comparison: Comparison, output: Path, command: str) -> Path:
    """Write the page, the JSON, the scores of each query and the failed questions into the comparison's folder.

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
    write_file(folder / MACHINE, as_json(comparison))
    out = io.BytesIO()
    comparison.scores.to_parquet(out)
    write_file(folder / SCORES, out.getvalue())
    write_file(folder / QUESTIONS, comparison.questions.to_csv(index=False))
    write_file(folder / PAGE, page(comparison, command))
    return folder
