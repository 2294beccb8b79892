"""A comparison as tables in a terminal, as one HTML page that loads nothing, as JSON, and the folder of all three."""

from __future__ import annotations

import html
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape
from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from mteb_longembed.evaluation.passages import COVERED
from mteb_longembed.files import make_folder, printable, slug, write_file

from .advice import percent
from .candidates import on_lines
from .costs import CLEARLY
from .figures import Drawing, drawings
from .summary import is_number

if TYPE_CHECKING:
    from .compare import Comparison

MISSING = "-"
#: The packages whose versions a page names.
_SHOWN = ("mteb-longembed", "mteb", "sentence-transformers", "transformers", "torch")
#: The word of each standing in the table.
_WORDS = {
    "winner": "best", "leader": "leads", "equal": "tied", "behind": "worse", "unknown": "?", "excluded": MISSING
}  # fmt: skip
#: What a narrow terminal leaves out, the first one first.
_OPTIONAL = ("p adj.", "KB/doc", "vectors", "read", "to base", "first in", "tokens/s")
#: What a column is, for the columns that not everybody can guess.
_LEGEND = {
    "standing": "Standing: best (surely first), leads (first, but not surely), tied (these queries cannot tell it from "
    "the first) or worse (the 95 % interval of its paired difference to the first lies below 0).",
    "first in": "First in: the share of bootstrap resamples of the queries in which a candidate has the highest score.",
    "to best": "To base, to best: paired differences in points, with their 95 % intervals.",
    "p adj.": "P adj.: paired bootstrap test against the base, adjusted for their number (Benjamini-Hochberg).",
    "tokens/s": "Tokens/s: the median, the slowest and the fastest of all rounds on the same documents. One counts as "
    f"faster if its slowest round is {CLEARLY:g} times as fast as the fastest round of the other.",
    "vectors": "Vectors and KB/doc: the mean of all documents.",
    "read": "Read: the share of the documents' tokens that is read; tokens that the tokenizer does not know "
    "count as not read.",
}
#: The width of a name in a narrow terminal, in characters.
_NARROW = 24
#: A table with at least this many rows gets a search field.
_SEARCHABLE = 12


class Cell(NamedTuple):
    """A cell of a table.

    Args:
        text: what is shown.
        number: what a page sorts by; None for words.
        bounds: the interval of the number, which is shown less strongly.
        marked: start and end of the characters that a page marks.
    """

    text: str = MISSING
    number: float | None = None
    bounds: str = ""
    marked: tuple[int, int] | None = None


@dataclass(frozen=True)
class Table:
    """Rows of cells by the titles of their columns, which all rows have in common.

    Its texts have no control characters, whatever a query says.

    Args:
        key: a short name, fit for the ids of a page.
        caption: its title.
        rows: the cells.
        notes: sentences below the table.
        is_folded: whether a page shows the rows only if one asks for them.
        classes: a word for each row that a page may colour by; empty for none.
    """

    key: str
    caption: str
    rows: list[dict[str, Cell]]
    notes: Sequence[str] = ()
    is_folded: bool = False
    classes: Sequence[str] = ()

    @classmethod
    def of(cls, key: str, caption: str, rows: Sequence[Mapping[str, Cell]], **more: Any) -> Table:
        """A table without its empty columns."""
        kept = [title for title in rows[0] if any(row[title].text != MISSING for row in rows)]
        shown = []
        for row in rows:
            cells = {title: row[title]._replace(text=printable(row[title].text)) for title in kept}
            shown.append({printable(title): cell for title, cell in cells.items()})
        return cls(slug(key), printable(caption), shown, **more)

    @property
    def header(self) -> list[str]:
        """The titles of the columns."""
        return list(self.rows[0])

    def has_words(self, title: str) -> bool:
        """Whether a column has words: they are aligned left, and numbers right."""
        return any(row[title].number is None and row[title].text != MISSING for row in self.rows)


def ranking_table(comparison: Comparison) -> Table:
    """The candidates, the best first. Each row has its standing as its class, so that a page may colour it."""
    metric = comparison.metric
    others = [name for name in comparison.metrics if name in comparison.summary.columns]
    rows = []
    for number, row in enumerate(comparison.summary.to_dict("records"), start=1):
        cells = {
            "#": Cell(str(number), number),
            "candidate": Cell(row["label"]),
            metric: _spread(row["score"], row["low"], row["high"]),
            "standing": Cell(_WORDS[row["standing"]]),
            "first in": _share(row["first_share"]),
            "to best": _difference(row, "to_best"),
            "to base": _difference(row, "to_base"),
            "p adj.": _p_value(row["p_value"]),
        }
        cells |= {name: _spread(row[name], row[f"{name} low"], row[f"{name} high"]) for name in others}
        cells["tokens/s"] = speed_cell(row)
        cells["vectors"] = _number(row["vectors"], 2)
        cells["KB/doc"] = _number(row["bytes"], 2, unit=1024)
        cells["read"] = _share(row["share_read"])
        if row["kind"] == "words":
            # how much of a document's text BM25 reads is not counted in tokens of a model
            cells["read"] = Cell()
        rows.append(cells)
    table = Table.of("compare", "Candidates", rows)
    first = f"{metric}: percent, of 1 query, so there are no intervals."
    if comparison.n_queries > 1:
        first = (
            f"{metric}: percent, the mean over splits, then over tasks, of {comparison.n_queries:,} queries; the "
            "brackets show the 95 % interval."
        )
    legend = [text for column, text in _LEGEND.items() if column in table.header]
    notes = [first, *legend, *comparison.texts("data")]
    return replace(table, notes=notes, classes=list(comparison.summary["standing"]))


def speed_cell(row: Mapping[str, Any]) -> Cell:
    """The median speed with its slowest and fastest round.

    Such as `812 [790,830]`, `15.8k [13.4,16.6]` or `158k [150,160]`: tokens a second, from a thousand on in thousands.
    """
    rate = row["tokens_per_second"]
    if not is_number(rate):
        return Cell()
    unit = 1
    suffix = ""
    digits = 0
    if rate >= 1000:
        unit = 1000
        suffix = "k"
    if 1000 <= rate < 100_000:
        digits = 1
    slowest = row["slowest"] / unit
    fastest = row["fastest"] / unit
    return Cell(f"{rate / unit:.{digits}f}{suffix}", rate, f"[{slowest:.{digits}f},{fastest:.{digits}f}]")


def split_table(comparison: Comparison) -> Table | None:
    """The scores by split, None if there is only one split."""
    frame = comparison.by_split
    if len(frame[["task", "split"]].drop_duplicates()) < 2:
        return None
    rows = []
    for name, label in comparison.summary["label"].items():
        cells = {"candidate": Cell(label)}
        for row in frame[frame["candidate"] == name].itertuples():
            title = f"{row.task.removeprefix('LongEmbed')} {row.split.removeprefix('test_')}"
            cells[title] = _spread(row.score, row.low, row.high)
        rows.append(cells)
    return Table.of("splits", f"{comparison.metric} by task and split, in percent", rows)


def passage_table(comparison: Comparison) -> Table | None:
    """How well the passages answer, and how much text they are, None if no task knows which passages answer."""
    summary = comparison.summary
    shares = [name for name in summary.columns if re.fullmatch(r"passage@\d+", name)]
    if not shares:
        return None
    rows = []
    for row in summary.to_dict("records"):
        cells = {"candidate": Cell(row["label"])}
        for name in shares:
            context = name.replace("passage", "context")
            cells[name] = _spread(row[name], row[f"{name} low"], row[f"{name} high"])
            cells[context] = _number(row[context], 0)
        rows.append(cells)
    n_queries = int(comparison.scores.groupby("candidate")[shares[0]].count().max())
    notes = (
        f"Passage@k: percent of {n_queries:,} judged queries for which, among the best passage of each of the first k "
        f"documents, one covers at least {COVERED:.0%} of a passage that answers.",
        "Context@k: the mean tokens of these k passages, which a reader or a language model then reads; 0.75 words are "
        "one token.",
    )
    return Table.of("passages", "Passages that answer", rows, notes=notes)


def query_tables(comparison: Comparison) -> list[Table]:
    """The queries on which the best differs most from its base, and from BM25; folded in the page."""
    if comparison.queries.empty:
        return []
    labels = comparison.summary["label"]
    best = labels[comparison.advice.best]
    notes = (
        f"Rank: that of the best relevant document for {best}; relevant: its id; first: the document at rank 1, and "
        f"its passage, where passages are judged. There: the same for the other one. {MISSING}: not in the ranking "
        "that is kept.",
    )
    shown = []
    for other, queries in comparison.queries.groupby("other", sort=False):
        rows = []
        for row in queries.to_dict("records"):
            cells = {"query": Cell(row["text"]), "points": _number(row["points"], 1)}
            for end, title in (("", ""), ("_there", " there")):
                marked = None
                if is_number(row[f"answer_start{end}"]):
                    marked = int(row[f"answer_start{end}"]), int(row[f"answer_end{end}"])
                cells[f"rank{title}"] = _number(row[f"rank{end}"], 0)
                cells[f"relevant{title}"] = Cell(row[f"relevant{end}"] or MISSING)
                cells[f"first{title}"] = Cell(row[f"first{end}"] or MISSING)
                cells[f"passage{title}"] = Cell(row[f"passage{end}"] or MISSING, marked=marked)
            rows.append(cells)
        caption = f"Query by query: {best} against {labels[other]}"
        shown.append(Table.of(f"queries-{labels[other]}", caption, rows, notes=notes, is_folded=True))
    return shown


def tables(comparison: Comparison) -> list[Table]:
    """The tables of the page: the ranking; then by split, by passage and query by query, where there is any."""
    made = [ranking_table(comparison), split_table(comparison), passage_table(comparison)]
    return [*(table for table in made if table is not None), *query_tables(comparison)]


def _number(value: float | None, digits: int, unit: int = 1) -> Cell:
    if value is None or not is_number(value):
        return Cell()
    return Cell(f"{value / unit:z,.{digits}f}", value / unit)


def _share(share: float) -> Cell:
    if not is_number(share):
        return Cell()
    return Cell(percent(share), 100 * share)


def _spread(mean: float, low: float, high: float) -> Cell:
    cell = _number(mean, 1)
    if not is_number(low):
        return cell
    return cell._replace(bounds=f"[{low:z.0f},{high:.0f}]")


def _difference(row: Mapping[str, Any], name: str) -> Cell:
    """A difference with its sign, and its interval in whole points."""
    if not is_number(row[name]):
        return Cell()
    bounds = ""
    if is_number(row[f"{name}_low"]):
        bounds = f"[{row[f'{name}_low']:+.0f},{row[f'{name}_high']:+.0f}]"
    return Cell(f"{row[name]:+.1f}", row[name], bounds)


def _p_value(value: float) -> Cell:
    if not is_number(value):
        return Cell()
    if value < 0.001:
        return Cell("<0.001", value)
    return Cell(f"{value:.3f}", value)


def show(shown: Sequence[Table], console: Console, *, notes: bool = True) -> None:
    """Print tables to a console. If it is narrow, optional columns are left out, and names take several lines.

    Args:
        shown: what to print.
        console: where.
        notes: whether the notes below the tables are printed.
    """
    for table in shown:
        optional = [title for title in _OPTIONAL if title in table.header]
        drawn = _drawn(table, [])
        left_out: list[str] = []
        if _is_wider(drawn, console):
            drawn = _drawn(table, [], is_narrow=True)
        while _is_wider(drawn, console) and len(left_out) < len(optional):
            left_out = optional[: len(left_out) + 1]
            drawn = _drawn(table, left_out, is_narrow=True)
        lines = list(table.notes)
        if left_out:
            lines.append(f"No room here for {', '.join(left_out)}: the page and the JSON have them.")
        if notes and lines:
            drawn.caption = Text("\n".join(lines), style="dim")
        console.print(drawn, crop=False)
        console.print()


def _is_wider(drawn: RichTable, console: Console) -> bool:
    """Whether a table has no room in a console."""
    free = console.options.update(max_width=10_000)
    return console.measure(drawn, options=free).maximum > console.width


def _drawn(table: Table, left_out: Sequence[str], *, is_narrow: bool = False) -> RichTable:
    """A table in which numbers are never broken. A narrow one has names on several lines."""
    drawn = RichTable(
        title=Text(table.caption, style="italic"),
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        show_edge=False,
    )
    titles = [title for title in table.header if title not in left_out]
    for title in titles:
        if table.has_words(title):
            drawn.add_column(Text(title), overflow="fold")
        else:  # a title such as SummScreenFD may be broken between its words
            broken = re.sub("(?<=[a-z]{2})(?=[A-Z])| ", "\n", title)
            drawn.add_column(Text(broken), justify="right", no_wrap=True)
    for row in table.rows:
        texts = []
        for title in titles:
            cell = row[title]
            text = Text(cell.text)
            if cell.bounds:
                text.append(f" {cell.bounds}", style="dim")
            elif is_narrow and cell.number is None:
                text = Text(on_lines(cell.text, _NARROW))
            texts.append(text)
        drawn.add_row(*texts)
    return drawn


def page(
    comparison: Comparison,
    pictures: Sequence[Drawing],
    command: str = "",
) -> str:
    """One self-contained HTML page. It has its styles, script and pictures, and its own policy forbids to load more.

    Args:
        comparison: what is shown.
        pictures: the figures, which stand between the answer and the tables.
        command: the line that made it.
    """
    facts = [
        ("Written", comparison.written),
        ("Data", f"{', '.join(comparison.tasks)}, {comparison.n_queries:,} queries"),
        ("Documents", _documents(comparison)),
        ("Command", command),
        ("Versions", ", ".join(f"{name} {version(name)}" for name in _SHOWN)),
    ]
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True, finalize=_shown
    )
    environment.filters.update(breakable=_breakable, picture=_picture)
    template = (files("mteb_longembed.comparing") / "page.html.j2").read_text(encoding="utf-8")
    return environment.from_string(template).render(
        advice=comparison.advice,
        cautions=comparison.texts("caution"),
        findings=comparison.texts("finding", "untried"),
        problems=comparison.texts("left out", "skipped"),
        pictures=pictures,
        tables=tables(comparison),
        searchable=_SEARCHABLE,
        facts=[(title, text) for title, text in facts if text],
    )


def embedded(comparison: Comparison) -> str:
    """The page in a frame, for notebooks."""
    text = html.escape(page(comparison, drawings(comparison)))
    return f'<iframe srcdoc="{text}" style="width: 100%; height: 48rem; border: 0"></iframe>'


def _documents(comparison: Comparison) -> str:
    """How many documents there are, and how long they are."""
    known = comparison.summary.dropna(subset=["median_len"])
    if known.empty:
        return f"{comparison.n_documents:,}"
    row = known.iloc[0]
    lengths = f"the median has {row['median_len']:,.0f} tokens, the longest {row['longest']:,.0f}"
    return f"{comparison.n_documents:,}; {lengths}"


def _shown(value: object) -> object:
    """What the page shows of a value of the template: texts of others, such as paths, without control characters."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return printable(value)
    return value


def _breakable(title: str) -> Markup:
    """A title such as SummScreenFD, or a model's name, with places where the browser may break the line."""
    places = r"(?<=[a-z]{2})(?=[A-Z][a-z])|(?<=\S)(?=[+])|(?<=\w{3}/)(?=\w\w)|(?<=[:,])(?=\w)"
    return Markup(re.sub(places, "<wbr>", str(escape(printable(title)))))


def _picture(drawing: Drawing) -> Markup:
    svg = drawing.svg(is_transparent=True)
    # HTML must not contain the XML declaration and the document type.
    svg = svg[svg.index("<svg") :]
    # Every figure numbers its parts from one: with the key before it, each id is unique in the page.
    svg = re.sub(r'\bid="|href="#|url\(#', lambda match: f"{match[0]}{drawing.key}.", svg)
    # Black and the lines of the grid are in the page's colours; matplotlib leaves out a black fill (see the style).
    svg = svg.replace("#000000", "var(--ink)").replace("#dddddd", "var(--line)")
    for name, text in drawing.tips.items():
        mark = f'id="{drawing.key}.{name}"'
        svg = svg.replace(mark, f'{mark} tabindex="0" data-tip="{escape(printable(text))}"', 1)
    return Markup(svg.replace("<svg", f'<svg role="img" aria-label="{escape(drawing.title)}"', 1))


def as_json(comparison: Comparison) -> str:
    """Everything that was found, as JSON: the frames, row by row. What is not known or infinite is null."""
    plain = {
        "version": version("mteb-longembed"),
        "written": comparison.written,
        "identity": comparison.identity,
        "tasks": comparison.tasks,
        "metrics": comparison.metrics,
        "n_queries": comparison.n_queries,
        "n_documents": comparison.n_documents,
        "synthetic_queries": comparison.synthetic_queries,
        "advice": {**asdict(comparison.advice), "answer": comparison.advice.answer},
        "notes": [note._asdict() for note in comparison.notes],
        "candidates": _records(comparison.summary.reset_index()),
        "by_split": _records(comparison.by_split),
        "queries": _records(comparison.queries),
    }
    return json.dumps(plain, indent=1, allow_nan=False) + "\n"


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = json.loads(frame.to_json(orient="records", double_precision=15))
    return records


#: The folder of all comparisons inside the output folder.
COMPARISONS = "comparisons"
PAGE = "compare.html"
MACHINE = "compare.json"
SCORES = "scores.parquet"


def write_all(comparison: Comparison, output: Path, pictures: Sequence[Drawing], command: str) -> Path:
    """Write the page, the JSON and the scores of each query into the comparison's folder.

    Its name has a hash of data, candidates and metrics, so the same command writes to the same place.

    Args:
        comparison: what is written.
        output: the folder of all results.
        pictures: the page's figures.
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
    write_file(folder / PAGE, page(comparison, pictures, command))
    return folder
