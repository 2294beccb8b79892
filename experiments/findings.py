"""What the laboratory models show: one command measures, tests and writes `experiments/findings.md` and its figure.

`tox -e findings` runs the default grid. Scores, rankings and embeddings are kept in `--out`, so the same command
continues after an interruption.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

import torch

from experiments.findings_page import Scores, draw, write_page
from experiments.scores import NEEDLE, PASSKEY, QMSUM, Cell, fits, link_qmsum, measure

BASES = ("mini-ape", "mini-rope")
LENGTHS = (512, 2048, 4096)
PAPER = ("none", "pcw", "gp", "rp", "pi", "ntk", "se")
PAGE = Path("experiments/findings.md")


def series(strategies: Iterable[str], bases: Sequence[str]) -> list[tuple[str, str]]:
    """Base and strategy of every line of the tables: the base itself, then each strategy that fits it."""
    lines = []
    for base in bases:
        lines.append((base, ""))
        # plain extrapolation needs positions beyond the trained length, which a learned table does not have
        lines += [(base, key) for key in strategies if fits(f"{base}+{key}@4096")]
    return lines


def model_name(base: str, strategy: str, length: int) -> str:
    """The model's name at a length: the target is 4,096 tokens, or the length where it is longer."""
    return f"{base}+{strategy}@{max(4096, length)}" if strategy else base


def grid(tasks: Sequence[str], lines: Sequence[tuple[str, str]], lengths: Iterable[int], with_qmsum: bool):  # type: ignore[no-untyped-def]
    """Task, base, strategy and length -> what to measure."""
    cells = {
        (task, base, strategy, str(n)): Cell(model_name(base, strategy, n), task, f"test_{n}")
        for task in tasks
        for base, strategy in lines
        for n in lengths
    }
    if with_qmsum:
        for base, strategy in lines:
            cells[QMSUM, base, strategy, "all"] = Cell(model_name(base, strategy, 4096), QMSUM, "test")
    return cells


def measure_model(cells: list[tuple[tuple[str, ...], Cell]], out: Path) -> Scores:
    """Measure all cells of one model and task, in a process with one thread."""
    torch.set_num_threads(1)
    return {key: measure(cell, out) for key, cell in cells}


def measure_all(cells: dict[tuple[str, ...], Cell], out: Path, workers: int) -> Scores:
    """Measure every cell. One process measures all cells of a model and task, because they share files."""
    groups: dict[tuple[str, str], list[tuple[tuple[str, ...], Cell]]] = {}
    for key, cell in cells.items():
        groups.setdefault((cell.model, cell.task), []).append((key, cell))
    scores: Scores = {}
    began = time.monotonic()
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        jobs = {pool.submit(measure_model, group, out): name for name, group in groups.items()}
        for number, job in enumerate(as_completed(jobs), 1):
            scores |= job.result()
            model, task = jobs[job]
            seconds = time.monotonic() - began
            print(f"[{seconds:5.0f} s] {number} of {len(jobs)}: {model} on {task}", flush=True)
    return {key: scores[key] for key in cells}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/findings"), help="scores and rankings")
    parser.add_argument("--page", type=Path, default=PAGE, help="the figure goes beside it")
    parser.add_argument("--bases", nargs=2, default=BASES, help="learned, then rotary positions")
    parser.add_argument("--tasks", nargs="+", default=(PASSKEY, NEEDLE), help="generated tasks or variants")
    parser.add_argument("--lengths", nargs="+", type=int, default=LENGTHS, help="tokens")
    parser.add_argument("--strategies", nargs="+", default=PAPER)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    os.environ.setdefault("MTEB_LONGEMBED_STORE", str((args.out / "embeddings").resolve()))
    lines = series(args.strategies, args.bases)
    cells = grid(args.tasks, lines, args.lengths, link_qmsum(args.out))
    scores = measure_all(cells, args.out, args.workers)
    figure = args.page.with_suffix(".png")
    write_page(args.page, figure.name, scores, args.bases)
    draw(figure, scores, args.bases)
    print(f"{args.page} and {figure}")


if __name__ == "__main__":
    main()
