"""The figure of the findings: score by length, learned and rotary positions side by side."""

from __future__ import annotations

from pathlib import Path

from training.table import Scores, lengths_of, lines_of, mean_of

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
# Later lines are thinner, so that equal scores do not hide each other.
WIDEST, THINNER = 4.0, 0.4
TITLES = ("learned positions", "rotary positions")


def draw(path: Path, scores: Scores, bases: tuple[str, str]) -> None:
    """Write the figure as PNG: one panel a base, one line a strategy, a band for its 95 % interval."""
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
            known = [n for n in lengths if (task, base, strategy, n) in scores]
            means = [mean_of(scores[task, base, strategy, n]) for n in known]
            at = [int(n) for n in known]
            (handles[name],) = panel.plot(
                at, [m.mean for m in means], color=colour, marker=marker, lw=WIDEST - THINNER * number, ms=6
            )
            panel.fill_between(
                at, [m.low for m in means], [m.high for m in means], color=colour, alpha=0.12, lw=0
            )
        panel.axvline(512, color="#999999", lw=0.8, ls=":")
        panel.text(512, 2, " trained length", fontsize=8, color="#666666")
        panel.set_xscale("log", base=2)
        panel.set_xticks([int(n) for n in lengths], [f"{int(n):,}" for n in lengths])
        panel.minorticks_off()
        panel.set_xlabel("tokens of a document")
        panel.set_title(f"{title} ({base})")
        panel.set_ylim(0, 102)
        panel.grid(axis="y", color="#e5e5e5", lw=0.6)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("passkeys found (%)")
    figure.legend(handles.values(), handles.keys(), loc="outside right center", frameon=False, fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, metadata={"Software": None})
