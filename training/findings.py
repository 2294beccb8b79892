"""What the embedded models show: one command measures, tests and writes `training/findings.md` and its figure.

`tox -e findings` runs the default grid. `tox -e findings -- --full` adds the strategies that came after the paper,
the lengths 256 and 1,024, and 8,192 and 16,384 for rotary positions. Scores, rankings and embeddings are kept in
`--out`, so the same command continues after an interruption.
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

from training.evidence import write_evidence
from training.findings_figure import draw
from training.findings_page import write_page
from training.measuring import Cell, fits, measure, rankings
from training.retrieval import QMSUM_VARIABLE
from training.table import TUNED, Scores

PASSKEY = "LongEmbedPasskey-docs200-queries200"
NEEDLE = "LongEmbedNeedle-queries100"
QMSUM = "LongEmbedQMSum"

BASES = ("mini-ape", "mini-rope")
TRAINED = 512
#: The paper's strategies, then those that came after it.
OF_THE_PAPER = ("none", "pcw", "gp", "rp", "pi", "ntk", "se")
LATER = ("rerope", "dca", "yarn", "dynamic", "resonance")
LENGTHS = (512, 2048, 4096)
FULL_LENGTHS = (256, 512, 1024, 2048, 4096)
#: The length in tokens that `list fit MODEL` shows.
EVIDENCE_LENGTH = 4096
EVIDENCE = Path("mteb_longembed/comparing/evidence.json")
#: Longer lengths, which are measured only for rotary positions.
BEYOND = (8192, 16384)
OF_BEYOND = ("none", "ntk", "se")


def series(strategies: Iterable[str], bases: Sequence[str], tuned: Iterable[str]) -> list[tuple[str, str]]:
    """Base and strategy of every line of the tables: the base itself, then each strategy that fits it.

    A tuned model is a line of the base with learned positions, the first of the two.
    """
    found = []
    for base in bases:
        found.append((base, ""))
        for strategy in strategies:
            # plain extrapolation needs positions beyond the trained length, which a learned table does not have
            if strategy == "none" and not base.endswith("rope"):
                continue
            if fits(f"{base}+{strategy}@4096"):
                found.append((base, strategy))
        if base == bases[0]:
            found += [(base, f"{TUNED}{folder}") for folder in tuned]
    return found


def model_name(base: str, strategy: str, length: int) -> str:
    """The model's name at a length: the target is 4,096 tokens, or the length where it is longer."""
    if not strategy:
        return base
    if strategy.startswith(TUNED):
        return strategy.removeprefix(TUNED)
    return f"{base}+{strategy}@{max(4096, length)}"


def grid(
    tasks: Sequence[str], lines: list[tuple[str, str]], lengths: Iterable[int], beyond: Iterable[int]
) -> dict[tuple[str, ...], Cell]:
    """Task, base, strategy and length -> what to measure."""
    cells = {}
    for task in tasks:
        for base, strategy in lines:
            for length in lengths:
                cells[task, base, strategy, str(length)] = Cell(
                    model_name(base, strategy, length), task, f"test_{length}"
                )
            if task == tasks[0] and base.endswith("rope") and strategy in OF_BEYOND:
                for length in beyond:
                    cells[task, base, strategy, str(length)] = Cell(
                        model_name(base, strategy, length), task, f"test_{length}"
                    )
    if os.environ.get(QMSUM_VARIABLE):
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
            print(
                f"[{time.monotonic() - began:5.0f} s] {number} of {len(jobs)}: {model} on {task}", flush=True
            )
    return {key: scores[key] for key in cells}


def link_qmsum(out: Path) -> None:
    """Point the tasks at QMSum's files, in the layout that `MTEB_LONGEMBED_DATA` expects."""
    given = os.environ.get(QMSUM_VARIABLE)
    if not given:
        return
    link = out / "data" / "qmsum"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(Path(given).resolve(), target_is_directory=True)
    os.environ["MTEB_LONGEMBED_DATA"] = str(link.parent.resolve())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=Path("results/findings"), help="scores, rankings, embeddings"
    )
    parser.add_argument(
        "--page", type=Path, default=Path("training/findings.md"), help="the figure goes beside it"
    )
    parser.add_argument(
        "--evidence", type=Path, default=EVIDENCE, help="what `list fit MODEL` says was measured"
    )
    parser.add_argument("--full", action="store_true", help="all strategies and lengths: several hours")
    parser.add_argument("--bases", nargs=2, default=BASES, help="learned, then rotary positions")
    parser.add_argument("--tasks", nargs="+", default=(PASSKEY, NEEDLE), help="generated tasks or variants")
    parser.add_argument("--lengths", nargs="+", type=int, help="tokens")
    parser.add_argument("--beyond", nargs="*", type=int, help="tokens, rotary positions only")
    parser.add_argument("--strategies", nargs="+")
    parser.add_argument(
        "--tuned", nargs="*", default=(), help="folders of `mteb-longembed tune`, such as tuned-pi"
    )
    parser.add_argument("--measured", action="store_true", help="write the page of what is measured already")
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    os.environ.setdefault("MTEB_LONGEMBED_STORE", str((args.out / "embeddings").resolve()))
    link_qmsum(args.out)
    strategies = args.strategies or (OF_THE_PAPER + LATER if args.full else OF_THE_PAPER)
    lines = series(strategies, args.bases, args.tuned)
    lengths = args.lengths or (FULL_LENGTHS if args.full else LENGTHS)
    beyond = args.beyond if args.beyond is not None else (BEYOND if args.full else ())
    cells = grid(args.tasks, lines, lengths, beyond)
    if args.measured:
        cells = {key: cell for key, cell in cells.items() if rankings(cell, args.out) is not None}
    scores = measure_all(cells, args.out, args.workers)
    figure = args.page.with_suffix(".png")
    write_page(args.page, figure.name, scores, args.bases, partly=args.measured)
    draw(figure, scores, args.bases)
    write_evidence(args.evidence, scores, args.tasks[0], args.bases, EVIDENCE_LENGTH)
    print(f"{args.page}, {figure} and {args.evidence}")


if __name__ == "__main__":
    main()
