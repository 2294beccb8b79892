"""Is a rotary twin better than its teacher with a strategy? The measurements, and the rule that decides.

    LONGEMBED_QMSUM=FOLDER python -m experiments.twin_decision measure TEACHER TWIN --books books.jsonl.gz
    python -m experiments.twin_decision decide TEACHER TWIN

Each side takes part with the best of its CANDIDATES, chosen at 2,048 tokens on one half of the queries and compared on
the other at all lengths: every second query of meetings and chapters; of needles, whose documents have a seed,
seed 0 chooses and further seeds compare. The same command goes on after an interruption.
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import random
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import torch

from experiments.ranked import Line, Measurements, prepare, scores
from experiments.real_models import NEEDLE, PASSKEY, QMSUM
from experiments.rotary_twin import HELD_OUT
from mteb_longembed.statistics.bootstrap import difference_interval, randomisation_test

RESULTS = Path("experiments/twin_decision.jsonl")
#: `@` is replaced by `@` and the target length. `read` reads a document of needles in overlapping stretches; it would
#: read meetings and chapters to their ends, so it takes no part there.
CANDIDATES = {
    "teacher": ("ntk@", "pcw@", "rp@", "gp@", "pi@"),
    "twin": ("none@", "se@", "ntk@", "pi@", "none:past_target=read"),
}
LENGTHS = (2048, 4096)
SEEDS = (1, 2, 3, 4, 5)
NEEDLES = (PASSKEY, NEEDLE)
#: A chapter takes part if it has this many characters, and sentences are drawn from as many: about 4,096 tokens.
CHAPTER_CHARS = 18_000
SENTENCES = 4


def chapters(books: Path, folder: Path) -> Path:
    """The task of chapters: documents of books that no twin learned from; a query is a sentence of one chapter."""
    source = random.Random(0)
    with gzip.open(books, "rt", encoding="utf-8") as stream:
        rows = [row for row in map(json.loads, stream) if row["book"].startswith(HELD_OUT)]
    rows = [row for row in rows if len(row["text"]) >= CHAPTER_CHARS]
    parts: dict[str, list[dict[str, str | int]]] = {"corpus": [], "queries": [], "qrels": []}
    for number, row in enumerate(rows):
        parts["corpus"].append({"_id": f"d{number}", "text": row["text"]})
        sentences = re.split(r"(?<=[.!?])\s+", row["text"][:CHAPTER_CHARS])
        sentences = [text for text in sentences[1:-1] if 60 <= len(text) <= 250]
        for text in source.sample(sentences, min(SENTENCES, len(sentences))):
            query = f"q{len(parts['queries'])}"
            parts["queries"].append({"_id": query, "text": text})
            parts["qrels"].append({"query-id": query, "corpus-id": f"d{number}", "score": 1})
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in parts.items():
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    return folder


class Decision:
    """Cells of both sides, and what they say."""

    def __init__(self, sides: dict[str, str], measurements: Measurements, chapter_task: str) -> None:
        self.sides, self.measurements, self.chapter_task = sides, measurements, chapter_task

    def names(self, side: str, task: str, length: int) -> list[str]:
        """The candidates of a side."""
        tails = [tail for tail in CANDIDATES[side] if task in NEEDLES or "read" not in tail]
        return [f"{self.sides[side]}+{tail.replace('@', f'@{length}')}" for tail in tails]

    def chosen(self, side: str, task: str, length: int) -> str | None:
        """A side's best candidate for a task, at a length: chosen at the first length, on the half that chooses.

        None if its candidates are not all measured.
        """
        known = self.measurements.lines
        names = self.names(side, task, LENGTHS[0])
        keys = [(Path(name).name, Path(task).name, _split(task, LENGTHS[0])) for name in names]
        if not all(key in known for key in keys):
            return None
        best = np.argmax([self._subset(known[key], 0).mean() for key in keys])
        return self.names(side, task, length)[best]

    def measure(self) -> None:
        """Measure what the decision needs."""
        for side in CANDIDATES:
            self.measurements.measure(f"{self.sides[side]}+none", QMSUM, "test")
        # without a gain on meetings or chapters the answer is no, whatever the needles say
        for task in (self.chapter_task, QMSUM, *NEEDLES):
            for side in CANDIDATES:
                for name in self.names(side, task, LENGTHS[0]):
                    self.measurements.measure(name, task, _split(task, LENGTHS[0]))
            for side, length in product(CANDIDATES, LENGTHS):
                name = str(self.chosen(side, task, length))
                for part in self._compared_tasks(task):
                    self.measurements.measure(name, part, _split(task, length))

    @staticmethod
    def _compared_tasks(task: str) -> list[str]:
        """The tasks whose queries compare: of needles those with further seeds."""
        return (
            [task.replace("-queries", f"-seed{seed}-queries") for seed in SEEDS]
            if task in NEEDLES
            else [task]
        )

    def _subset(self, line: Line, start: int) -> np.ndarray:
        """The scores that choose (0) or compare (1) a cell; all of a needle's seed 0 choose."""
        is_needle = line["task"].startswith(("LongEmbedPasskey", "LongEmbedNeedle"))  # of every seed
        return scores(line) if is_needle else scores(line)[start::2]

    def table(self) -> Iterator[str]:
        """Lines of a Markdown table: for each task and length both choices, their scores and the difference."""
        known = self.measurements.lines
        yield "| task | tokens | teacher | twin | difference | p |"
        yield "|---|---:|---|---|---|---:|"
        short = [known.get((f"{Path(self.sides[side]).name}+none", QMSUM, "test")) for side in CANDIDATES]
        if None not in short:
            yield self._row("QMSum", 256, dict.fromkeys(CANDIDATES, "none"), [scores(line) for line in short])
        for length, task in product(LENGTHS, (self.chapter_task, QMSUM, *NEEDLES)):
            chosen = {side: self.chosen(side, task, length) for side in CANDIDATES}
            names = {side: Path(name).name for side, name in chosen.items() if name}
            compared = [self._compared(name, task, _split(task, length)) for name in names.values()]
            if len(compared) == 2 and min(map(len, compared)) == max(map(len, compared)) > 0:
                tails = {side: name.partition("+")[2] for side, name in names.items()}
                yield self._row(Path(task).name, length, tails, compared)

    def _compared(self, name: str, task: str, split: str) -> np.ndarray:
        keys = [(name, Path(part).name, split) for part in self._compared_tasks(task)]
        lines = [self.measurements.lines[key] for key in keys if key in self.measurements.lines]
        return np.concatenate([self._subset(line, 1) for line in lines]) if lines else np.array([])

    @staticmethod
    def _row(task: str, length: int, tails: dict[str, str], sides: list[np.ndarray]) -> str:
        first, second = sides
        gap = difference_interval([first], [second]).scaled(100)
        cells = [
            f"`{tails[side]}` {100 * mean.mean():.1f}" for side, mean in zip(CANDIDATES, sides, strict=True)
        ]
        p = randomisation_test([first], [second])
        chance = "<0.001" if p < 0.001 else f"{p:.3f}"
        ends = f"{gap.mean:+.1f} ({gap.low:+.1f} to {gap.high:+.1f})"
        return f"| {task}, {len(first)} queries | {length:,} | {' | '.join(cells)} | {ends} | {chance} |"


def _split(task: str, length: int) -> str:
    return f"test_{length}" if task in NEEDLES else "test"


def main() -> None:
    """Measure, or print the table of what is measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("measure", "decide"))
    parser.add_argument("teacher")
    parser.add_argument("twin")
    parser.add_argument("--books", type=Path, help="lines with `book` and `text`, gzip")
    parser.add_argument("--out", type=Path, default=Path("results/real-models"))
    parser.add_argument("--results", type=Path, default=RESULTS)
    args = parser.parse_args()
    logging.getLogger("mteb").setLevel(logging.CRITICAL)
    torch.set_num_threads(1)
    folder = args.out / "chapters"
    sides = {"teacher": args.teacher, "twin": args.twin}
    decision = Decision(sides, Measurements(args.results, args.out), str(folder))
    if args.what == "decide":
        print("\n".join(decision.table()))
        return
    prepare(args.out)
    chapters(args.books, folder)
    decision.measure()


if __name__ == "__main__":
    main()
