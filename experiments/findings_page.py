"""The page and figure that `experiments.findings` writes: tables with intervals, and the paper's findings tested."""

from __future__ import annotations

from pathlib import Path

from experiments.measuring import table
from experiments.scores import QMSUM, Comparison, QueryScores, compare, mean_of, percent
from mteb_longembed.statistics.bootstrap import adjust, mean_interval

#: Task, base, strategy and length -> the scores.
Scores = dict[tuple[str, ...], QueryScores]
LEVEL = 0.05
INTRODUCTION = """\
# What the laboratory models show

`python -m experiments.findings` wrote this page and its figure. It measures `mini-ape` (learned positions) and
`mini-rope` (rotary positions) as they ship, with the strategies that fit, on tasks that need no network. Both models
were trained on 512 tokens. What is true here may be false for a real model, and the opposite may also happen.

Scores are in percent. Brackets hold 95 % intervals (Wilson's for right and wrong answers, otherwise bootstrap over
queries). A `+` or `−` marks a score that differs from the base's score in the same column (paired
randomisation test, p below 0.05 after Benjamini-Hochberg over the table). `mini-ape` and `mini-rope` without a strategy
cut every document after 512 tokens. All other models have a target of 4,096 tokens, or the column's length if that is
longer.

Both are for tests, and for a first look without a network; [training](training.md) says how they were made. Passkey and
Needle hardly need positions: with shuffled position ids both find as many passkeys at 512 tokens
([probes](tried.md#probes-of-positions)). So their order of strategies says little about real text; see
[real models](../docs/real-models.md) first."""
# Okabe & Ito 2008: colours that colour-blind readers can tell apart. A strategy has one look in both panels.
LOOKS = {
    "": ("#000000", "o", "cut after 512 tokens"),
    "none": ("#7f7f7f", "s", "plain extrapolation"),
    "pcw": ("#E69F00", "^", "pcw"),
    "gp": ("#56B4E9", "v", "gp"),
    "rp": ("#009E73", "D", "rp"),
    "pi": ("#0072B2", "P", "pi"),
    "ntk": ("#D55E00", "X", "ntk"),
    "se": ("#CC79A7", "*", "se"),
}
TITLES = ("learned positions", "rotary positions")


def lengths_of(scores: Scores, task: str) -> list[str]:
    """The lengths at which a task was measured, the shortest first."""
    return sorted({key[3] for key in scores if key[0] == task}, key=lambda n: int(n) if n.isdigit() else 0)


def lines_of(scores: Scores, task: str, base: str) -> list[str]:
    """The strategies of a base with which a task was measured, in the order of measurement."""
    return list(dict.fromkeys(key[2] for key in scores if key[:2] == (task, base)))


def label(base: str, strategy: str) -> str:
    """How a line of a table is called.

    >>> label("mini-rope", "none"), label("mini-ape", "")
    ('`mini-rope+none` (plain extrapolation)', '`mini-ape`')
    """
    name = f"`{base}+{strategy}`" if strategy else f"`{base}`"
    return name + (" (plain extrapolation)" if strategy == "none" else "")


def marks(scores: Scores, task: str) -> dict[tuple[str, ...], str]:
    """`+` or `−` for each cell that differs from its base's by more than chance."""
    compared = {}
    for key, cell in scores.items():
        base = scores.get((key[0], key[1], "", key[3]))
        if key[0] == task and key[2] and base is not None:
            compared[key] = compare(base, cell)
    p_values = adjust([c.p_value for c in compared.values()])
    return {
        key: " +" if c.second > c.first else " −"
        for (key, c), p in zip(compared.items(), p_values, strict=True)
        if p < LEVEL
    }


def task_table(scores: Scores, task: str, bases: tuple[str, str]) -> str:
    """Markdown: a row a model, a column a length."""
    lengths, marked = lengths_of(scores, task), marks(scores, task)
    rows = []
    for base in bases:
        for strategy in lines_of(scores, task, base):
            keys = [(task, base, strategy, n) for n in lengths]
            cells = [percent(scores[key]) + marked.get(key, "") if key in scores else "" for key in keys]
            rows.append([label(base, strategy), *cells])
    return table(["model", *(f"{int(n):,}" if n.isdigit() else n for n in lengths)], rows)


def verdict(compared: Comparison) -> str:
    """What a paired test says, in words."""
    text = (
        f"{compared.first:.0f} against {compared.second:.0f} (difference {compared.second - compared.first:+.1f}, "
        f"95 % interval {compared.low:+.1f} to {compared.high:+.1f}, p = {compared.p_value:.4f}, "
        f"{compared.n_queries} queries)"
    )
    if compared.p_value >= LEVEL:
        return f"{text}. **Not shown**: chance may explain the difference."
    if compared.second < compared.first:
        return f"{text}. **Not shown**: the opposite is true."
    return f"{text}. **Shown.**"


def best(scores: Scores, task: str, base: str, length: str) -> str:
    """The strategy of a base with the highest mean at a length."""
    known = [s for s in lines_of(scores, task, base) if (task, base, s, length) in scores]
    return max(known, key=lambda s: mean_of(scores[task, base, s, length]))


def findings(scores: Scores, task: str, bases: tuple[str, str]) -> list[str]:
    """One line for each finding of the paper that the table's marks do not show."""
    ape, rope = bases
    lengths = [n for n in lengths_of(scores, task) if (task, ape, "", n) in scores]
    last = lengths[-1]
    a, r = (best(scores, task, base, last) for base in bases)
    lines = [
        f"The best strategy on rotary positions finds more than the best one on learned positions at {last}, "
        f"{label(ape, a)} against {label(rope, r)}: "
        + verdict(compare(scores[task, ape, a, last], scores[task, rope, r, last]))
    ]
    for length in [n for n in lengths_of(scores, task) if n.isdigit() and int(n) >= 1024]:
        for strategy in ("ntk", "se"):
            one, other = (scores.get((task, rope, key, length)) for key in ("none", strategy))
            if one and other:
                compared = verdict(compare(one, other))
                lines.append(f"`{strategy}` is better than plain extrapolation at {length}: {compared}")
    return lines


def write_page(path: Path, figure: str, scores: Scores, bases: tuple[str, str]) -> None:
    """Write the page."""
    parts = [INTRODUCTION, f"![Score by length, learned and rotary positions]({figure})"]
    for task in dict.fromkeys(key[0] for key in scores):
        n_queries = next(len(cell) for key, cell in scores.items() if key[0] == task)
        metric = "nDCG@10" if task == QMSUM else "Acc@1"
        parts += [f"## {task}", f"{metric}, {n_queries:,} queries a column.", task_table(scores, task, bases)]
        if metric == "Acc@1":
            parts.append("\n".join(f"- {line}" for line in findings(scores, task, bases)))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def draw(path: Path, scores: Scores, bases: tuple[str, str]) -> None:
    """Write the figure as PNG: a panel a base, a line and its 95 % band a strategy; later lines are thinner."""
    from matplotlib.figure import Figure

    task = next(iter(scores))[0]
    lengths = [n for n in lengths_of(scores, task) if n.isdigit()]
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    handles = {}
    for panel, base, title in zip(panels, bases, TITLES, strict=True):
        drawn = [strategy for strategy in lines_of(scores, task, base) if strategy in LOOKS]
        for number, strategy in enumerate(drawn):
            colour, marker, name = LOOKS[strategy]
            cells = {int(n): scores.get((task, base, strategy, n)) for n in lengths}
            bands = {n: mean_interval(list(cell.values())).scaled(100) for n, cell in cells.items() if cell}
            means, low, high = zip(
                *((band.mean, band.low, band.high) for band in bands.values()), strict=True
            )
            (handles[name],) = panel.plot(
                list(bands), means, color=colour, marker=marker, lw=4 - 0.4 * number, ms=6
            )
            panel.fill_between(list(bands), low, high, color=colour, alpha=0.12, lw=0)
        panel.axvline(512, color="#999999", lw=0.8, ls=":")
        panel.text(512, 2, " trained length", fontsize=8, color="#666666")
        panel.set_xscale("log", base=2)
        panel.set_xticks([int(n) for n in lengths], [f"{int(n):,}" for n in lengths])
        panel.minorticks_off()
        panel.set(xlabel="tokens of a document", title=f"{title} ({base})", ylim=(0, 102))
        panel.grid(axis="y", color="#e5e5e5", lw=0.6)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("passkeys found (%)")
    figure.legend(handles.values(), handles.keys(), loc="outside right center", frameon=False, fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, metadata={"Software": None})
