"""Ways to represent a document: the paper's strategies, windows, several vectors, centring and fusion.

`python -m experiments.windows` measures Passkey and Needle at 4,096 tokens with the laboratory models, and QMSum's
whole documents if `LONGEMBED_QMSUM` names the folder of its files. It prints one Markdown table for each model and
task: the main score in percent with its 95 % interval, and the p-value of the paired test against the best of the
paper's strategies. experiments/windows.md has the numbers.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

import torch

from experiments.measuring import table
from experiments.scores import (
    NEEDLE,
    PASSKEY,
    QMSUM,
    Cell,
    QueryScores,
    compare,
    fits,
    link_qmsum,
    mean_of,
    measure,
    percent,
)

PAPER = ("none", "pcw", "gp", "rp", "pi", "ntk", "se")
#: Further rows, as the ends of names. `@` is replaced by the target length.
OURS = (
    "pcw@:size=128",
    "pcw@:agg=mean-normalized,overlap=31,short=cut,size=64",
    "pcw@:agg=mean-normalized,center=corpus,overlap=31,short=cut,size=64",
    "pcw@:agg=mean-normalized,center=corpus+queries,overlap=31,short=cut,size=64",
    "pcw@:short=cut,size=128,vectors=window",
    "pcw@:center=corpus,short=cut,size=128,vectors=window",
    "pcw@:center=corpus+queries,short=cut,size=128,vectors=window",
    "pcw@:fuse=bm25,short=cut,size=128,vectors=window",
    "pi@:vectors=64",
)


def names_of(model: str, target: int) -> list[str]:
    """The rows of a model: everything that fits it, the paper's strategies first."""
    tails = [key if key == "none" else f"{key}@{target}" for key in PAPER]
    tails += [tail.replace("@", f"@{target}") for tail in OURS]
    return [name for name in (f"{model}+{tail}" for tail in tails) if fits(name)]


def measured(task: str, split: str, names: list[str], out: Path) -> str:
    """The table of a task."""
    scores: dict[str, QueryScores] = {}
    for name in names:
        scores[name] = measure(Cell(name, task, split), out)
        print(f"{task} {split}: {name} {mean_of(scores[name]):.1f}", flush=True)
    paper = [name for name in names if ":" not in name]
    best = max(paper, key=lambda name: mean_of(scores[name]), default=None)
    rows = []
    for name in names:
        p = "" if best is None or name in paper else f"{compare(scores[best], scores[name]).p_value:.3f}"
        rows.append([f"`{name}`", percent(scores[name]), p])
    return table([f"{task}, {split}", "score", "p against the paper's best"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=["mini-ape", "mini-rope"])
    parser.add_argument("--tasks", nargs="*", default=[PASSKEY, NEEDLE])
    parser.add_argument("--length", type=int, default=4096)
    parser.add_argument("--rows", nargs="+", help="ends of names, instead of those of the table")
    parser.add_argument("--out", type=Path, default=Path("results/windows"), help="scores and rankings")
    args = parser.parse_args()
    logging.getLogger("mteb").setLevel(logging.CRITICAL)
    tasks = [(task, f"test_{args.length}", args.length) for task in args.tasks]
    if link_qmsum(args.out):
        tasks.append((QMSUM, "test", 32_768))
    for model in args.models:
        for task, split, target in tasks:
            names = [f"{model}+{tail}" for tail in args.rows] if args.rows else names_of(model, target)
            print(f"\n{measured(task, split, names, args.out)}\n", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
