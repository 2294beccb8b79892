"""Measure what the embedded models show: bases, every strategy, the tuned rows (CPU, no network).

`tox -e findings` measures Passkey up to 2,048 tokens, in under ten minutes of two cores;
`python -m training.findings --lengths 256 512 1024 2048 4096 --tasks LongEmbedPasskey LongEmbedNeedle` all of
the README's table. Results are mteb's own, kept in `--out`, so that an interrupted run goes on; the tables are
printed in Markdown.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from math import sqrt
from pathlib import Path

import mteb
import numpy as np
import torch
from mteb.cache import ResultCache
from sentence_transformers import SentenceTransformer

import mteb_longembed  # noqa: F401 (makes its tasks and models known to mteb)
from mteb_longembed.names.zoo import ZOO
from training import facts
from training.probe import share_right

TASKS = ("LongEmbedPasskey",)
LENGTHS = (256, 512, 1024, 2048)
APE = ("none", "pcw", "gp", "rp", "ntk", "pi")
ROPE = ("none", "none@4096", "pcw", "gp", "pi", "ntk", "se")
QUERIES = 50


def models() -> list[str]:
    return [*(f"mini-ape+{s}" for s in APE), "mini-ape-4k", *(f"mini-rope+{s}" for s in ROPE)]


def wilson(p: float, n: int, z: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of a share `p` of `n`.

    >>> [round(x, 3) for x in wilson(0.9, 50)]
    [0.786, 0.957]
    """
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return middle - half, middle + half


def measure(name: str, task_name: str, lengths: Iterable[int], cache: ResultCache) -> dict[str, float]:
    """The task's main score of a model at each length, or on the one split of a task without lengths."""
    splits = mteb.get_task(task_name).metadata.eval_splits
    if len(splits) > 1:
        splits = [f"test_{n}" for n in lengths]
    task = mteb.get_task(task_name, eval_splits=splits)
    result = mteb.evaluate(mteb.get_model(name), task, cache=cache, show_progress_bar=False)
    scores = result.task_results[0].scores
    return {split.removeprefix("test_"): scores[split][0]["main_score"] for split in splits}


def table(task: str, rows: dict[str, dict[str, float]]) -> str:
    """Markdown: a row a model, scores in percent; those of 50 queries (Acc@1) with their 95 % interval."""
    splits = list(next(iter(rows.values())))
    lines = [f"| {task} | " + " | ".join(splits) + " |", "|---|" + "---:|" * len(splits)]
    for name, scores in rows.items():
        lines.append(f"| {name} | " + " | ".join(cell(scores[split], split) for split in splits) + " |")
    return "\n".join(lines)


def cell(score: float, split: str) -> str:
    if not split.isdigit():
        return f"{100 * score:.1f}"
    low, high = wilson(score, QUERIES)
    return f"{100 * score:.0f} ({100 * low:.0f}–{100 * high:.0f})"


def order_table(count: int = 150) -> str:
    """Markdown: share of questions "who teaches B?" that prefer "A teaches B" to "B teaches A".

    The second column hands the same model the same tokens with their position ids in random order: what is
    left of the accuracy there owes nothing to order.
    """
    lines = ["| base | positions as they are | position ids shuffled |", "|---|---:|---:|"]
    words = [*facts.THINGS, *facts.MATERIALS]
    rng = np.random.default_rng(7)
    drawn = [facts.relation(rng, words) for _ in range(count)]
    for name in ("mini-ape", "mini-rope"):
        model = SentenceTransformer(ZOO[name].path, device="cpu").eval()
        queries, documents = (
            model.tokenizer(texts, add_special_tokens=False)["input_ids"] for texts in facts.both_ways(drawn)
        )
        cells = []
        for permuted in (False, True):
            share = share_right(model[0].model, queries, documents, permuted)
            low, high = wilson(share, 2 * count)
            cells.append(f"{100 * share:.0f} ({100 * low:.0f}–{100 * high:.0f})")
        lines.append(f"| {name} | {cells[0]} | {cells[1]} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/findings"))
    parser.add_argument("--tasks", nargs="+", default=TASKS)
    parser.add_argument("--lengths", nargs="+", type=int, default=LENGTHS)
    parser.add_argument("--models", nargs="+", default=models())
    args = parser.parse_args()
    cache = ResultCache(args.out)
    began = time.monotonic()
    for task in args.tasks:
        rows = {}
        for name in args.models:
            rows[name] = measure(name, task, args.lengths, cache)
            said = " ".join(f"{split}: {score:.2f}" for split, score in rows[name].items())
            print(f"[{time.monotonic() - began:5.0f} s] {task} {name} {said}", flush=True)
        print(f"\n{table(task, rows)}\n", flush=True)
    print(order_table())


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    main()
