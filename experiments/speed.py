"""How fast a model encodes, beside sentence-transformers' own loop and beside another version of this package.

    python -m experiments.speed MODEL_FOLDER [--other CHECKOUT] [--rounds 5] [--threads 1]

Each side is a process of its own, and all take turns on the same texts, so that other load on the machine slows all
equally. Times are of a processor's time; a cell is the median of one side divided by our median, above 1 where ours
is faster. `load` is the time from a folder to a model.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).parents[1]
ESSAYS = ROOT / "mteb_longembed" / "tasks" / "generated" / "data" / "essays"
#: What is read -> the end of the name, the tokens that stock reads, and how many texts.
READINGS = {
    "512 tokens": ("+none:trained_len=512", 512, 24),
    "windows, 4,096 tokens": ("+pcw@4096", None, 6),
    "4,096 tokens at once": ("+ntk@4096", None, 3),
}
#: A side: it loads what it is told, and says the seconds of each call.
WORKER = """
import json, sys, time, warnings, logging
warnings.simplefilter("ignore"); logging.disable(logging.CRITICAL)
import torch
from sentence_transformers import SentenceTransformer
side, folder, threads = sys.argv[1:4]
torch.set_num_threads(int(threads))
models = {}
if side != "stock":
    import mteb_longembed
for line in sys.stdin:
    tail, length, texts = json.loads(line)
    clock = time.process_time
    start = clock()
    if texts is None:
        if side == "stock":
            SentenceTransformer(folder, device="cpu")
        else:
            mteb_longembed.load(folder + tail, device="cpu")
    else:
        if (tail, length) not in models:
            if side == "stock":
                made = SentenceTransformer(folder, device="cpu")
                made.max_seq_length = length
            else:
                made = mteb_longembed.load(folder + tail, device="cpu")
            made.encode(["a first text"])
            models[tail, length] = made
        start = clock()
        models[tail, length].encode(texts, batch_size=8)
    print(clock() - start, flush=True)
"""


class Side:
    """A process that encodes with one version: `stock`, or the package of a checkout."""

    def __init__(self, name: str, checkout: Path, folder: str, threads: int) -> None:
        self.name = name
        environ = {**os.environ, "PYTHONPATH": str(checkout), "MTEB_LONGEMBED_CACHE": "0"}
        command = [sys.executable, "-c", WORKER, name, folder, str(threads)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, text=True, env=environ, cwd=checkout
        )

    def seconds(self, tail: str, length: int | None, texts: list[str] | None) -> float:
        """How long one call takes: encoding texts, or loading the model if there are none."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps([tail, length, texts]) + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


def documents(n: int, n_words: int = 5_000) -> list[str]:
    """`n` documents, each of other words of our essays."""
    words = " ".join(file.read_text(encoding="utf-8") for file in sorted(ESSAYS.glob("*.txt"))).split()
    step = len(words) // n
    return [" ".join((words[step * i :] + words)[:n_words]) for i in range(n)]


def medians(
    sides: list[Side], tail: str, length: int | None, rounds: Sequence[list[str] | None]
) -> dict[str, float]:
    """The median seconds of each side, which take turns. Each round has its texts, or None to load the model."""
    times = pd.DataFrame(
        [{side.name: side.seconds(tail, length, texts) for side in sides} for texts in rounds]
    )
    return dict(times.median())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", help="a model")
    parser.add_argument("--other", type=Path, help="a checkout of another version")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    folder = str(Path(args.folder).resolve())
    sides = [Side("ours", ROOT, folder, args.threads), Side("stock", ROOT, folder, args.threads)]
    if args.other:
        sides.append(Side("other", args.other.resolve(), folder, args.threads))
    rows = {}
    for what, (tail, length, n) in READINGS.items():
        of_reading = [side for side in sides if side.name != "stock" or length is not None]
        # a version may keep the tokens of texts, so each round reads others
        texts = documents(n * args.rounds)
        rows[what] = medians(of_reading, tail, length, [texts[i :: args.rounds] for i in range(args.rounds)])
    rows["load"] = medians(sides, "+ntk@4096", None, 2 * args.rounds * [None])
    seconds = pd.DataFrame(rows).T
    table = seconds.div(seconds["ours"], axis=0).add_suffix(" / ours").drop(columns="ours / ours")
    table.insert(0, "ours s", seconds["ours"])
    print(table.to_markdown(floatfmt=".3g"))


if __name__ == "__main__":
    main()
