"""The page that `training.findings` writes: tables with intervals, and the paper's findings tested one by one."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from scipy import stats
from sentence_transformers import SentenceTransformer

from mteb_longembed.names.zoo import ZOO
from training.order import order_hits
from training.positions import embed_at, everywhere_0, hits_of, shuffled, with_one_row
from training.retrieval import generated
from training.table import TUNED, Comparison, Mean, Scores, against, compare, lengths_of, lines_of, mean_of

LEVEL = 0.05

INTRODUCTION = """\
# What the embedded models show

`python -m training.findings` wrote this page and its figure. It measures `mini-ape` (learned positions) and
`mini-rope` (rotary positions) as they ship, with the strategies that fit, on tasks that need no network. Both models
were trained on 512 tokens. They are laboratory models: what is true here may be false for a real model, and the
opposite may also happen."""
NOTATION = """\
Scores are in percent. Brackets hold 95 % intervals (Wilson's for right and wrong answers, otherwise bootstrap over
queries). A `+` or `−` marks a score that differs from the base's score in the same column (paired
randomisation test, p below 0.05 after Benjamini-Hochberg over the table). `mini-ape` and `mini-rope` without a strategy
cut every document after 512 tokens. All other models have a target of 4,096 tokens. In columns of longer texts, the
target is the column's length."""
PARTLY = """\
This page has only the cells that were measured when it was written (`--measured`). `tox -e findings` measures the whole
grid."""
ORDER = """\
There are 300 questions such as "who teaches the lantern?". How often does the right statement score above the
statement with exchanged roles? Chance is one half. In the second column the same model gets the same words with their
position ids in random order. No training data asked for word order."""

NEED = """\
These are the same documents and questions, with the position ids of every text in random order. If a score hardly
changes, the task does not need positions. Then a strategy can help only if it does not disturb the model, and an
extrapolated position does no harm."""

ROWS = """\
This is the model with learned positions again. But in documents every position has the same row, the mean of the
table. So it knows no positions of documents at all. If it finds as much as with the best strategy, or more, its rows
hold more chance than use: its short training has hardly moved them from their random start. Then a strategy for learned
positions mainly decides how much the rows disturb, and rotary positions are better because they disturb less."""


def label(base: str, strategy: str) -> str:
    """How a line of a table is called.

    >>> label("mini-rope", "none"), label("mini-ape", "tuned:runs/tuned-pi")
    ('`mini-rope+none` (plain extrapolation)', '`mini-ape`, `tuned-pi`')
    """
    if not strategy:
        return f"`{base}`"
    if strategy.startswith(TUNED):
        return f"`{base}`, `{Path(strategy).name}`"
    return f"`{base}+{strategy}`" + (" (plain extrapolation)" if strategy == "none" else "")


def differences(
    scores: Scores, task: str, bases: tuple[str, str]
) -> dict[tuple[str, str, str], tuple[Comparison, float]]:
    """Base, strategy and length -> the comparison with the base, and its p-value adjusted for their number."""
    found = {}
    for base in bases:
        for strategy in lines_of(scores, task, base)[1:]:
            for length in lengths_of(scores, task):
                if (task, base, strategy, length) in scores and (task, base, "", length) in scores:
                    found[base, strategy, length] = against(
                        scores, task, length, (base, ""), (base, strategy)
                    )
    adjusted = stats.false_discovery_control([c.p_value for c in found.values()]) if found else []
    return {key: (c, float(p)) for (key, c), p in zip(found.items(), adjusted, strict=True)}


def mark(compared: tuple[Comparison, float] | None) -> str:
    """`+` or `−` for a score that differs from the base's by more than chance.

    >>> mark(None)
    ''
    """
    if compared is None or compared[1] >= LEVEL:
        return ""
    return " +" if compared[0].second > compared[0].first else " −"


def shown(mean: Mean) -> str:
    """A mean with its interval. QMSum's scores are small, so they have a decimal."""
    if mean.n > 500:
        return f"{mean.mean:.1f} ({mean.low:.1f}–{mean.high:.1f})"
    return str(mean)


def task_table(scores: Scores, task: str, bases: tuple[str, str]) -> str:
    """Markdown: a row a model, a column a length."""
    lengths = lengths_of(scores, task)
    tested = differences(scores, task, bases)
    rows = ["| model | " + " | ".join(f"{int(n):,}" if n.isdigit() else n for n in lengths) + " |"]
    rows.append("|---|" + "---:|" * len(lengths))
    for base in bases:
        for strategy in lines_of(scores, task, base):
            cells = []
            for length in lengths:
                found = scores.get((task, base, strategy, length))
                if found is None:
                    cells.append("")
                    continue
                cells.append(shown(mean_of(found)) + mark(tested.get((base, strategy, length))))
            rows.append(f"| {label(base, strategy)} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def verdict(compared: Comparison) -> str:
    """What a paired test says, in words."""
    said = (
        f"{compared.first:.0f} against {compared.second:.0f} (difference {compared.second - compared.first:+.1f}, "
        f"95 % interval {compared.low:+.1f} to {compared.high:+.1f}, p = {compared.p_value:.4f}, "
        f"{compared.n_queries} queries)"
    )
    if compared.p_value >= LEVEL:
        return f"{said}. **Not shown**: chance may explain the difference."
    if compared.second < compared.first:
        return f"{said}. **Not shown**: the opposite is true."
    return f"{said}. **Shown.**"


def best(scores: Scores, task: str, base: str, length: str) -> str:
    """The strategy of a base with the highest mean at a length."""
    known = [s for s in lines_of(scores, task, base) if (task, base, s, length) in scores]
    return max(known, key=lambda s: mean_of(scores[task, base, s, length]).mean)


def findings(scores: Scores, task: str, bases: tuple[str, str]) -> list[str]:
    """One line for each finding of the paper that the measured cells can test."""
    ape, rope = bases
    lengths = [n for n in lengths_of(scores, task) if (task, ape, "", n) in scores]
    first = "512" if "512" in lengths else lengths[0]
    last = lengths[-1]
    said = []
    for base in bases:
        short, long = (mean_of(scores[task, base, "", n]) for n in (first, last))
        shows = "**Shown.**" if long.high < short.low else "**Not shown.**"
        said.append(
            f"A base collapses beyond its trained length: `{base}` {short} at {first}, {long} at {last}. {shows}"
        )
    for base in bases:
        for strategy in lines_of(scores, task, base)[1:]:
            if (task, base, strategy, last) not in scores:
                continue
            compared = against(scores, task, last, (base, ""), (base, strategy))
            said.append(f"{label(base, strategy)} finds more than its base at {last}: {verdict(compared)}")
    a, r = best(scores, task, ape, last), best(scores, task, rope, last)
    if a and r:
        compared = against(scores, task, last, (ape, a), (rope, r))
        said.append(
            f"The best strategy on rotary positions finds more than the best one on learned positions at {last}, "
            f"{label(ape, a)} against {label(rope, r)}: {verdict(compared)}"
        )
    for length in [n for n in lengths_of(scores, task) if n.isdigit() and int(n) >= 1024]:
        for strategy in ("ntk", "se"):
            if (task, rope, strategy, length) in scores and (task, rope, "none", length) in scores:
                compared = against(scores, task, length, (rope, "none"), (rope, strategy))
                said.append(
                    f"`{strategy}` is better than plain extrapolation at {length}: {verdict(compared)}"
                )
    for strategy in lines_of(scores, task, ape):
        untuned = strategy.rpartition("-")[2]
        if strategy.startswith(TUNED) and (task, ape, untuned, last) in scores:
            compared = against(scores, task, last, (ape, untuned), (ape, strategy))
            said.append(f"Tuning helps `{untuned}` at {last}: {verdict(compared)}")
    return said


def open_base(base: str) -> SentenceTransformer:
    """A base by alias or folder."""
    return SentenceTransformer(ZOO[base].path if base in ZOO else base, device="cpu").eval()


def order_table(bases: tuple[str, str]) -> str:
    """Markdown: how often a model prefers "A teaches B" to "B teaches A" for "who teaches B?"."""
    rows = ["| base | positions as they are | position ids shuffled |", "|---|---:|---:|"]
    for base in bases:
        model = open_base(base)
        cells = []
        for as_they_are in (True, False):
            hits = order_hits(model, as_they_are=as_they_are)
            cells.append(str(mean_of({str(i): float(hit) for i, hit in enumerate(hits)})))
        rows.append(f"| `{base}` | {cells[0]} | {cells[1]} |")
    return "\n".join(rows)


def positions_table(scores: Scores, bases: tuple[str, str]) -> str:
    """Markdown: how many of the first task's texts of 512 tokens a model finds with shuffled position ids."""
    task = next(iter(scores))[0]
    rows = [f"| {task}, 512 | positions as they are | position ids shuffled |", "|---|---:|---:|"]
    for base in bases:
        as_they_are = scores.get((task, base, "", "512"))
        model = open_base(base)
        queries, documents = (partial(embed_at, model, positions=shuffled(i)) for i in (0, 1))
        disturbed = hits_of(generated(task, 512), queries, documents)
        rows.append(f"| `{base}` | {mean_of(as_they_are) if as_they_are else ''} | {mean_of(disturbed)} |")
    return "\n".join(rows)


def one_row(scores: Scores, learned: str) -> str:
    """Markdown: the best strategy on learned positions against documents whose positions all have the same row."""
    task = next(iter(scores))[0]
    length = [n for n in lengths_of(scores, task) if (task, learned, "", n) in scores][-1]
    base, strategy = open_base(learned), best(scores, task, learned, length)
    embed = partial(embed_at, with_one_row(base), positions=everywhere_0)
    same = hits_of(generated(task, int(length)), base.encode, embed)
    compared = compare(scores[task, learned, strategy, length], same)
    return f"- One row finds more than {label(learned, strategy)} at {length}: {verdict(compared)}"


def write_page(path: Path, figure: str, scores: Scores, bases: tuple[str, str], partly: bool = False) -> None:
    """Write the page. With `partly`, it says that the grid is not complete."""
    parts = [INTRODUCTION, NOTATION, f"![Score by length, learned and rotary positions]({figure})"]
    if partly:
        parts.insert(2, PARTLY)
    for task in dict.fromkeys(key[0] for key in scores):
        n = next(len(found) for key, found in scores.items() if key[0] == task)
        metric = "nDCG@10" if task == "LongEmbedQMSum" else "Acc@1"
        parts.append(f"## {task}")
        parts.append(f"{metric}, {n:,} queries a column.")
        parts.append(task_table(scores, task, bases))
        if metric == "Acc@1":
            parts.append("### The findings of the paper, tested")
            parts.append("\n".join(f"- {line}" for line in findings(scores, task, bases)))
    parts.append("## Word order")
    parts.append(ORDER)
    parts.append(order_table(bases))
    parts.append("## Do these tasks need positions at all?")
    parts.append(NEED)
    parts.append(positions_table(scores, bases))
    parts.append("## What the learned rows hold")
    parts.append(ROWS)
    parts.append(one_row(scores, bases[0]))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
