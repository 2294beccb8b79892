"""Draw README's picture from what `real_models` and `methods` have measured.

    python -m experiments.picture

Left: needles that all-MiniLM-L6-v2 finds, by length of the documents. Right: methods on four collections.
"""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.methods import RESULTS, SHORT_TITLES, TITLES
from mteb_longembed.figures import panels, write

RANKS = Path("experiments/real_models.jsonl")
PICTURE = Path("docs/images/first-page.svg")
MODEL = "all-MiniLM-L6-v2"
TASK = "LongEmbedNeedle-queries100"
LENGTHS = (256, 512, 1024, 2048, 4096, 8192)
#: All of it can be read on white and on black.
INK = "#777777"
#: Line -> what follows the model's name, and its colour. LENGTH is the length of the documents.
LINES = {
    "the model as it is": ("none", INK),
    "+ntk": ("ntk@LENGTH", "#cc79a7"),
    "+pcw: windows, averaged": ("pcw@LENGTH", "#d55e00"),
    "windows, the best counts": ("pcw@LENGTH:size=128,vectors=window", "#0090d0"),
}
#: Method -> its mark and colour.
MARKS = {
    "BM25 with query expansion": ("s", "#d55e00"),
    "`windows`": ("o", "#0090d0"),
    "`late`": ("D", "#cc79a7"),
    "`hybrid`": ("*", "#009e73"),
}


def accuracies() -> pd.DataFrame:
    """Return the accuracy at rank 1 in percent by length and line; nan for what was not measured."""
    known = {}
    for line in RANKS.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["task"] == TASK:
            known[row["name"], row["split"]] = 100 * row["ranks"].count("1") / len(row["ranks"])
    found = {}
    for label, (tail, _) in LINES.items():
        names = [f"{MODEL}+{tail.replace('LENGTH', str(length))}" for length in LENGTHS]
        splits = [f"test_{length}" for length in LENGTHS]
        found[label] = [known.get(key) for key in zip(names, splits, strict=True)]
    return pd.DataFrame(found, index=list(LENGTHS), dtype=float)


def draw_lengths(axes: Any) -> None:
    """Draw a line for each way of reading."""
    table = accuracies()
    axes.set_xscale("log", base=2)
    for label, (_, colour) in LINES.items():
        line = table[label].dropna()
        axes.plot(line.index, line, color=colour, marker="o", lw=2, label=label)
    axes.set_xticks(LENGTHS, [f"{length:,}" for length in LENGTHS])
    axes.minorticks_off()
    axes.set(title="Needles found (%), by tokens of a document", ylim=(0, 128), yticks=range(0, 101, 20))
    axes.legend(loc="upper left", ncols=2, frameon=False, labelcolor=INK)


def draw_methods(axes: Any) -> None:
    """Draw a row for each collection, with a mark for each method."""
    rows = pd.read_csv(RESULTS)
    rows = rows[rows["model"] == MODEL].assign(title=rows["collection"].map(TITLES))
    for place, title in enumerate(SHORT_TITLES):
        own = rows[rows["title"] == title].set_index("method")["score"]
        axes.axhline(place, color=INK, alpha=0.3, lw=1, zorder=0)
        axes.annotate(title, (50, place), xytext=(0, 9), textcoords="offset points", color=INK)
        for method, (mark, colour) in MARKS.items():
            size = 110 if mark == "*" else 40
            label = method.strip("`") if place == 0 else None
            axes.scatter([own[method]], [place], s=size, marker=mark, color=colour, label=label, zorder=2)
    axes.set_yticks([])
    axes.set(title="nDCG@10 (%) by how people ask", xlim=(50, 100), ylim=(len(SHORT_TITLES) - 0.4, -1.2))
    axes.legend(loc="upper left", ncols=2, frameon=False, labelcolor=INK)


def main() -> None:
    """Draw both, in colours for light and dark pages."""
    figure, _ = panels(9, 3.6, 1)
    figure.clear()
    left, right = figure.subplots(1, 2)
    draw_lengths(left)
    draw_methods(right)
    for axes in (left, right):
        axes.title.set_color(INK)
        axes.tick_params(colors=INK)
        axes.patch.set_visible(False)
        for spine in axes.spines.values():
            spine.set_color(INK)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    right.spines["left"].set_visible(False)
    figure.patch.set_visible(False)
    write(figure, PICTURE)


if __name__ == "__main__":
    main()
