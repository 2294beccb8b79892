"""Measure ways to represent a document: the paper's strategies, windows, several vectors, centring and fusion.

`python -m training.windows --models mini-ape mini-rope` measures Passkey and Needle at 4,096 tokens. It also measures
QMSum's full documents if `LONGEMBED_QMSUM` names the folder of its three files (`corpus`, `queries`, `qrels`, each
`.jsonl.gz`). It prints one Markdown table for each task: Acc@1 (QMSum: nDCG@10) in percent, the 95 % interval, and the
p-value of the paired randomisation test against the best of the paper's strategies.

`python -m training.windows --choose FILE` measures centring and the weight of fusion on other text: `FILE` has lines
with `title`, `text` and `source`, a query is a section's title, and its document the text of all sections with that
source. The defaults were chosen in this way. training/windows.md has the numbers.
"""

from __future__ import annotations

import argparse
import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mteb
import numpy as np
import torch

import mteb_longembed as longembed
from mteb_longembed.errors import IncompatibleError
from mteb_longembed.retrieval.fusion import convex_combination
from mteb_longembed.statistics.bootstrap import mean_interval, randomisation_test
from mteb_longembed.statistics.intervals import Interval
from training.retrieval import QMSUM_VARIABLE, Retrieval, generated, qmsum, titles

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
WEIGHTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def found_by(name: str, task: Retrieval) -> dict[str, dict[str, float]]:
    """The 100 best documents of each query."""
    where: dict[str, Any] = {
        "task_metadata": mteb.get_task("LongEmbedPasskey").metadata,
        "hf_split": "test",
        "hf_subset": "default",
        "encode_kwargs": {"batch_size": 32, "show_progress_bar": False},
        "num_proc": None,
    }
    model = longembed.search(name, device="cpu").protocol
    store = getattr(getattr(model, "embedder", None), "store", None)
    if store is not None:
        store.keeps_windows = True  # if several rows join the same windows, these are encoded once
    model.index(task.corpus, **where)
    found: dict[str, dict[str, float]] = model.search(task.queries, top_k=100, **where)
    return found


def scores_of(found: Mapping[str, Mapping[str, float]], task: Retrieval) -> np.ndarray:
    """Each query's score: Acc@1, or nDCG@10 with one right document."""
    scores = []
    for query in task.queries["id"]:
        ranked = sorted(found[query].items(), key=lambda item: (-item[1], item[0]))
        rank = next((i for i, (document, _) in enumerate(ranked) if document in task.right[query]), 10**6)
        most = 1 if task.first_only else 10
        scores.append(1 / np.log2(rank + 2) if rank < most else 0.0)
    return np.array(scores)


def interval(scores: np.ndarray, task: Retrieval) -> Interval:
    """The score in percent with its 95 % interval over queries."""
    return mean_interval(scores.tolist()).scaled(100)


def names_of(model: str, target: int) -> list[str]:
    """The rows of a model: everything that fits it, the paper's strategies first."""
    tails = [f"{key}@{target}" if key != "none" else key for key in PAPER]
    return [f"{model}+{tail}" for tail in (*tails, *(tail.replace("@", f"@{target}") for tail in OURS))]


def measure(task: Retrieval, names: list[str]) -> str:
    """A table of rows. Rows that do not fit the model are left out."""
    rows: dict[str, np.ndarray] = {}
    for name in names:
        began = time.monotonic()
        try:
            rows[name] = scores_of(found_by(name, task), task)
        except IncompatibleError as error:
            print(f"left out: {error}", flush=True)
            continue
        print(
            f"[{time.monotonic() - began:4.0f} s] {task.name} {name} {100 * rows[name].mean():.1f}",
            flush=True,
        )
    paper = [name for name in rows if name.partition("+")[2].partition("@")[0] in PAPER and ":" not in name]
    best = max(paper, key=lambda name: rows[name].mean(), default=None)
    out = [f"| {task.name} | score | 95 % | p against the paper's best |", "|---|---:|---:|---:|"]
    for name, scores in rows.items():
        found = interval(scores, task)
        p = "" if best is None or name in paper else f"{randomisation_test([scores], [rows[best]]):.3f}"
        out.append(f"| `{name}` | {found.mean:.1f} | {found.low:.0f} to {found.high:.0f} | {p} |")
    return "\n".join(out)


def choose(task: Retrieval, model: str, target: int) -> str:
    """A table for centring and the weight of fusion, on other text."""
    plain = f"{model}+pcw@{target}:short=cut,size=128,vectors=window"
    dense = {
        center: found_by(plain + (f",center={center}" if center else ""), task)
        for center in ("", "corpus", "corpus+queries")
    }
    bm25 = found_by("mteb/baseline-bm25s", task)
    rows = {
        f"center={center}" if center else "neither": scores_of(found, task) for center, found in dense.items()
    }
    rows["BM25"] = scores_of(bm25, task)
    fuse = convex_combination([-1.0, 0.0])
    for weight in WEIGHTS:
        fused = {query: fuse([dense[""][query], bm25[query]], [weight, 1 - weight]) for query in bm25}
        rows[f"fuse=bm25,weight={weight:g}"] = scores_of(fused, task)
    out = [
        f"| {task.name}, {len(task.corpus)} documents, {len(task.queries)} queries | nDCG@10 | 95 % |",
        "|---|---:|---:|",
    ]
    for name, scores in rows.items():
        known = interval(scores, task)
        out.append(f"| {name} | {known.mean:.1f} | {known.low:.0f} to {known.high:.0f} |")
    return "\n".join(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", default=["mini-ape", "mini-rope"])
    parser.add_argument("--tasks", nargs="*", default=["LongEmbedPasskey", "LongEmbedNeedle"])
    parser.add_argument("--length", type=int, default=4096)
    parser.add_argument("--rows", nargs="+", help="ends of names, instead of those of the table")
    parser.add_argument("--queries", type=int, help="number of queries of QMSum, at most")
    parser.add_argument("--choose", type=Path, help="file with other text, on which defaults are chosen")
    parser.add_argument("--documents", type=int, default=150, help="number of documents of other text")
    args = parser.parse_args()
    logging.getLogger("mteb").setLevel(logging.CRITICAL)
    if args.choose:
        for model in args.models:
            print(f"{model}\n\n{choose(titles(args.choose, args.documents), model, 8192)}\n", flush=True)
        return
    tasks = [generated(name, args.length) for name in args.tasks]
    targets = {task.name: args.length for task in tasks}
    folder = os.environ.get(QMSUM_VARIABLE)
    if folder:
        tasks.append(qmsum(Path(folder), args.queries))
        targets["QMSum"] = 32_768
    for model in args.models:
        for task in tasks:
            own = names_of(model, targets[task.name])
            if args.rows:
                own = [f"{model}+{tail}" for tail in args.rows]
            print(f"\n{measure(task, own)}\n", flush=True)


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    main()
