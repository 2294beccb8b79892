"""A comparison as tables in a terminal, as one HTML page that loads nothing, as JSON, and the folder of all three."""

from __future__ import annotations

import html
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_UP, Decimal
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    "winner": "best", "leader": "leads", "equal": "tied", "behind": "worse", "unknown": "?", "apart": MISSING
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
#: Where a name may be broken: behind the signs before its parts, never inside a part.
_PART_OF_NAME = re.compile(r"[^:,/]*[:,/]?")
#: A table with at least this many rows gets a search field.
_SEARCHABLE = 12
#: A number and its interval, which a page shows in small letters.
_WITH_BOUNDS = re.compile(r"(.*) (\[.*\])")

#: A cell: what is shown, and what a page sorts by.
Cell = tuple[str, float | None]


@dataclass(frozen=True)
class Table:
    """Two frames of one shape, what cells show and what they are sorted by, with a caption.

    Its texts have no control characters, whatever a query says.

    Args:
        key: a short name, fit for the ids of a page.
        caption: its title.
        texts: what is shown.
        numbers: what a page sorts by; None for words.
        notes: sentences below the table.
        is_folded: whether a page shows the rows only if one asks for them.
        optional: columns that a narrow terminal may leave out, the first one first.
        classes: a word for each row that a page may colour by; empty for none.
        marked: the characters of a cell that a page marks, by its row and column.
    """

    key: str
    caption: str
    texts: pd.DataFrame
    numbers: pd.DataFrame
    notes: tuple[str, ...] = ()
    is_folded: bool = False
    optional: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    marked: Mapping[tuple[int, str], tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, key: str, caption: str, rows: Sequence[Mapping[str, Cell]], **more: Any) -> Table:
        """A table from rows of cells by the titles of their columns. Empty columns are left out."""
        texts = pd.DataFrame(
            [{printable(title): printable(text) for title, (text, _) in row.items()} for row in rows]
        )
        numbers = pd.DataFrame(
            [{printable(title): number for title, (_, number) in row.items()} for row in rows], dtype=object
        )
        kept = texts.columns[(texts != MISSING).any()]
        return cls(slug(key), printable(caption), texts[kept], numbers[kept], **more)

    @property
    def header(self) -> list[str]:
        """The titles of the columns."""
        return list(self.texts.columns)

    def has_words(self, title: str) -> bool:
        """Whether a column has words: they are aligned left, and numbers right."""
        return bool((self.numbers[title].isna() & (self.texts[title] != MISSING)).any())

    def without(self, titles: Sequence[str]) -> Table:
        """The same table without the columns with these titles."""
        return replace(self, texts=self.texts.drop(columns=list(titles)))


def metric_name(comparison: Comparison) -> str:
    """What ranks: the metric, or `main score` if the tasks have different ones."""
    ranking = [metric for metric in comparison.metrics if metric not in comparison.scores.columns]
    if len(ranking) == 1:
        return ranking[0]
    return "main score"


def ranking_table(comparison: Comparison) -> Table:
    """The candidates, the best first. Each row has its standing as its class, so that a page may colour it."""
    metric = metric_name(comparison)
    others = [name for name in comparison.metrics if name in comparison.summary.columns]
    rows = []
    for number, row in enumerate(comparison.summary.to_dict("records"), start=1):
        cells: dict[str, Cell] = {
            "#": (str(number), number),
            "candidate": (row["label"], None),
            metric: _spread(row["score"], row["low"], row["high"]),
            "standing": (_WORDS[row["standing"]], None),
            "first in": (percent(row["first_share"]), 100 * row["first_share"]),
            "to best": _difference(row, "to_best"),
            "to base": _difference(row, "to_base"),
            "p adj.": _p_value(row["p_value"]),
        }
        cells |= {name: _spread(row[name], row[f"{name} low"], row[f"{name} high"]) for name in others}
        cells["tokens/s"] = speed_cell(row)
        cells["vectors"] = _number(row["vectors"], 2)
        cells["KB/doc"] = MISSING, None
        if is_number(row["bytes"]):
            cells["KB/doc"] = _number(row["bytes"] / 1024, 2)
        cells["read"] = MISSING, None
        # how much of a document's text BM25 reads is not counted in tokens of a model
        if is_number(row["share_read"]) and row["kind"] != "words":
            cells["read"] = percent(row["share_read"]), 100 * row["share_read"]
        rows.append(cells)
    table = Table.of("compare", "Candidates", rows, classes=tuple(comparison.summary["standing"]))
    first = f"{metric}: percent, of 1 query, so there are no intervals."
    if comparison.n_queries > 1:
        first = (
            f"{metric}: percent, the mean over splits, then over tasks, of {comparison.n_queries:,} queries; the "
            "brackets show the 95 % interval."
        )
    legend = [text for column, text in _LEGEND.items() if column in table.header]
    optional = tuple(title for title in _OPTIONAL if title in table.header)
    return replace(table, notes=(first, *legend, *comparison.texts("data")), optional=optional)


def speed_cell(row: Mapping[str, Any]) -> Cell:
    """The median speed with its slowest and fastest round.

    Such as `812 [790,830]`, `15.8k [13.4,16.6]` or `158k [150,160]`: tokens a second, from a thousand on in thousands.
    """
    rate = row["tokens_per_second"]
    if not is_number(rate):
        return MISSING, None
    unit = 1
    suffix = ""
    digits = 0
    if rate >= 1000:
        unit = 1000
        suffix = "k"
    if 1000 <= rate < 100_000:
        digits = 1
    low, high = f"{row['slowest'] / unit:.{digits}f}", f"{row['fastest'] / unit:.{digits}f}"
    return f"{rate / unit:.{digits}f}{suffix} [{low},{high}]", rate


def split_table(comparison: Comparison) -> Table | None:
    """The scores by split, None if there is only one split."""
    frame = comparison.by_split
    if len(frame[["task", "split"]].drop_duplicates()) < 2:
        return None
    rows = []
    for name, label in comparison.summary["label"].items():
        cells: dict[str, Cell] = {"candidate": (label, None)}
        for row in frame[frame["candidate"] == name].itertuples():
            title = f"{row.task.removeprefix('LongEmbed')} {row.split.removeprefix('test_')}"
            cells[title] = _spread(row.score, row.low, row.high)
        rows.append(cells)
    return Table.of("splits", f"{metric_name(comparison)} by task and split, in percent", rows)


def passage_table(comparison: Comparison) -> Table | None:
    """How well the passages answer, and how much text they are, None if no task knows which passages answer."""
    summary = comparison.summary
    shares = [name for name in summary.columns if re.fullmatch(r"passage@\d+", name)]
    if not shares:
        return None
    rows = []
    for row in summary.to_dict("records"):
        cells: dict[str, Cell] = {"candidate": (row["label"], None)}
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
        marked = {}
        for number, row in enumerate(queries.to_dict("records")):
            cells: dict[str, Cell] = {"query": (row["text"], None), "points": _number(row["points"], 1)}
            for end, title in (("", ""), ("_there", " there")):
                cells[f"rank{title}"] = _number(row[f"rank{end}"], 0)
                cells[f"relevant{title}"] = (row[f"relevant{end}"] or MISSING, None)
                cells[f"first{title}"] = (row[f"first{end}"] or MISSING, None)
                cells[f"passage{title}"] = (row[f"passage{end}"] or MISSING, None)
                if is_number(row[f"answer_start{end}"]):
                    place = int(row[f"answer_start{end}"]), int(row[f"answer_end{end}"])
                    marked[number, f"passage{title}"] = place
            rows.append(cells)
        caption = f"Query by query: {best} against {labels[other]}"
        more: dict[str, Any] = {"notes": notes, "is_folded": True, "marked": marked}
        shown.append(Table.of(f"queries-{labels[other]}", caption, rows, **more))
    return shown


def tables(comparison: Comparison) -> list[Table]:
    """The tables of the page: the ranking; then by split, by passage and query by query, where there is any."""
    made = [ranking_table(comparison), split_table(comparison), passage_table(comparison)]
    return [*(table for table in made if table is not None), *query_tables(comparison)]


def rounded(value: float, digits: int = 1) -> Decimal:
    """A number for a format such as `+.1f`; halves are rounded away from zero, those of a float to even digits."""
    exact = Decimal(str(round(value, 6)))  # without the error of sums: 100 * 0.58 is 57.99999999999999
    if not exact.is_finite():
        return exact
    return exact.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP) + 0  # no -0.0


def _number(value: float | None, digits: int) -> Cell:
    if not is_number(value):
        return MISSING, None
    return f"{rounded(float(value or 0), digits):,f}", value


def _spread(mean: float, low: float, high: float) -> Cell:
    text, number = _number(mean, 1)
    if is_number(low):
        text += f" [{rounded(low, 0)},{rounded(high, 0)}]"
    return text, number


def _difference(row: Mapping[str, Any], name: str) -> Cell:
    """A difference with its sign, and its interval in whole points."""
    if not is_number(row[name]):
        return MISSING, None
    text = f"{row[name]:+.1f}"
    if is_number(row[f"{name}_low"]):
        text += f" [{row[f'{name}_low']:+.0f},{row[f'{name}_high']:+.0f}]"
    return text, row[name]


def _p_value(value: float) -> Cell:
    if not is_number(value):
        return MISSING, None
    if value < 0.001:
        return "<0.001", value
    return f"{value:.3f}", value


def show(shown: Sequence[Table], console: Console, *, notes: bool = True) -> None:
    """Print tables to a console. If it is narrow, optional columns are left out, and names take several lines.

    Args:
        shown: what to print.
        console: where.
        notes: whether the notes below the tables are printed.
    """
    for table in shown:
        drawn = RichTable()
        forms = [(0, False), *((n_left_out, True) for n_left_out in range(len(table.optional) + 1))]
        for n_left_out, is_narrow in forms:
            left_out = table.optional[:n_left_out]
            drawn = _drawn(table.without(left_out), is_narrow=is_narrow)
            if (
                console.measure(drawn, options=console.options.update(max_width=10_000)).maximum
                <= console.width
            ):
                break
        lines = list(table.notes)
        if left_out:
            lines.append(f"No room here for {', '.join(left_out)}: the page and the JSON have them.")
        if notes and lines:
            drawn.caption = Text("\n".join(lines), style="dim")
        console.print(drawn, crop=False)
        console.print()


def _drawn(table: Table, *, is_narrow: bool) -> RichTable:
    """A table in which numbers are never broken. A narrow one has names on several lines."""
    drawn = RichTable(
        title=Text(table.caption, style="italic"),
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        show_edge=False,
    )
    for title in table.header:
        if table.has_words(title):
            drawn.add_column(Text(title), overflow="fold")
        else:  # a title such as SummScreenFD may be broken between its words
            broken = re.sub("(?<=[a-z]{2})(?=[A-Z])| ", "\n", title)
            drawn.add_column(Text(broken), justify="right", no_wrap=True)
    for row in table.texts.to_dict("records"):
        texts = []
        for title, text in row.items():
            if table.has_words(str(title)):
                if is_narrow:
                    text = _on_lines(text, _NARROW)
                texts.append(Text(text))
                continue
            shown = Text(text)
            bounds = _WITH_BOUNDS.fullmatch(text)
            if bounds:
                shown = Text(bounds[1]).append(f" {bounds[2]}", style="dim")
            texts.append(shown)
        drawn.add_row(*texts)
    return drawn


def _on_lines(name: str, widest: int) -> str:
    """A name on lines of at most so many characters, broken behind its signs where that is possible.

    >>> print(_on_lines("+pcw@512:vectors=window,weights=sif", 24))
    +pcw@512:vectors=window,
    weights=sif
    """
    lines = [""]
    for part in _PART_OF_NAME.findall(name):
        if len(lines[-1]) + len(part) > widest and lines[-1]:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


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
    environment.filters.update(breakable=_breakable, picture=_picture, content=_content, exact=_exact)
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
    return (
        f"{comparison.n_documents:,}; half have {row['quarter_len']:,.0f} to {row['three_quarters_len']:,.0f} tokens, "
        f"the median is {row['median_len']:,.0f}"
    )


def _shown(value: object) -> object:
    """What the page shows of a value of the template: texts of others, such as paths, without control characters."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return printable(value)
    return value


def _breakable(title: str) -> Markup:
    """A title such as SummScreenFD, or a model's name, with places where the browser may break the line."""
    places = r"(?<=[a-z]{2})(?=[A-Z][a-z])|(?<=\S)(?=[+])|(?<=\w{3}/)(?=\w\w)|(?<=[:,])(?=\w)"
    return Markup(re.sub(places, "<wbr>", str(escape(printable(title)))))


def _content(table: Table, number: int, title: str) -> Markup:
    """What a cell shows: words with the part that is marked, or a number with its interval in small letters."""
    text = table.texts[title].iloc[number]
    if table.has_words(title):
        if (number, title) not in table.marked:
            return _breakable(text)
        start, end = table.marked[number, title]
        parts = [_breakable(part) for part in (text[:start], text[start:end], text[end:])]
        return parts[0] + Markup("<mark>") + parts[1] + Markup("</mark>") + parts[2]
    bounds = _WITH_BOUNDS.fullmatch(text)
    if bounds is None:
        return escape(text)
    return escape(bounds[1]) + Markup("<small>") + escape(bounds[2]) + Markup("</small>")


def _exact(table: Table, number: int, title: str) -> float | None:
    """The number by which a cell is sorted, None for words."""
    value = table.numbers[title].iloc[number]
    if not is_number(value):
        return None
    return float(value)


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
        "advice": comparison.advice.as_dict(),
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
