"""Strategies, windows and several vectors on a real model, on QMSum's meetings and on needles by length.

    LONGEMBED_QMSUM=FOLDER python -m experiments.real_models MODEL

measures the cells that `experiments/real_models.jsonl` does not have, the most telling ones first, and goes on after an
interruption. MODEL is a folder or a name.
"""

import argparse
import logging
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import torch

from experiments.ranked import Measurements, prepare
from mteb_longembed.errors import IncompatibleError

RESULTS = Path("experiments/real_models.jsonl")
QMSUM = "LongEmbedQMSum"
PASSKEY, NEEDLE = "LongEmbedPasskey-queries100", "LongEmbedNeedle-queries100"
PARAPHRASE = "LongEmbedNeedle-paraphrase-queries100"
PAPER = ("pcw", "rp", "gp", "pi", "ntk", "se")
#: Further ways to represent a document. `@` is replaced by `@` and the target length.
WINDOWS = (
    "pcw@:size=128",
    "pcw@:size=128,vectors=window",
    "ntk@:vectors=64",
    "pcw@:size=64",
    "pi@:vectors=64",
)
WHOLE = 32_768  # tokens: more than the longest meeting has
#: A vector for each window of the trained length.
PIECES = "pcw@:vectors=window"


def grid(base: str, *, is_rotary: bool) -> Iterator[tuple[str, str, str]]:
    """Name, task and split of every cell, the most telling ones first."""
    strategies = [*(["none"] if is_rotary else []), *PAPER]
    by_length = ["none", *(f"{strategy}@" for strategy in strategies)]

    def meetings(lengths: Sequence[int], tails: Sequence[str]) -> Iterator[tuple[str, str, str]]:
        for length, tail in product(lengths, tails):
            yield f"{base}+{tail}".replace("@", f"@{length}"), QMSUM, "test"

    def needles(
        tasks: Sequence[str], lengths: Sequence[int], tails: Sequence[str]
    ) -> Iterator[tuple[str, str, str]]:
        for length, task in product(lengths, tasks):
            for tail in tails if length > 256 else tails[:1]:  # short inputs do not change
                yield f"{base}+{tail}".replace("@", f"@{length}"), task, f"test_{length}"

    both = (PASSKEY, NEEDLE)
    yield "mteb/baseline-bm25s", QMSUM, "test"
    yield from meetings([512], ["none", *([] if is_rotary else ["none@:trained_len=512"])])
    yield from meetings([2048], by_length[1:])
    yield from needles(both, (256, 1024), by_length)
    yield from meetings([2048], [*WINDOWS, PIECES])
    yield from needles(both, (4096,), by_length)
    yield from meetings((512, 1024, 4096), by_length[1:])
    yield from meetings([WHOLE], [*WINDOWS[:2], "pcw@", PIECES])
    yield from needles(both, (4096,), WINDOWS[:2])
    yield from needles([PARAPHRASE], (256, 1024, 4096), by_length)
    yield from needles(both, (512, 2048, 8192), by_length)
    yield from meetings((1024, 4096, 512), [*WINDOWS, PIECES])
    yield from needles((*both, PARAPHRASE), (512, 1024, 2048, 4096, 8192), WINDOWS[:2])
    yield from needles([PARAPHRASE], (512, 2048, 8192), by_length)
    yield from meetings([WHOLE], by_length[1:])


def main() -> None:
    """Measure cells."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--rotary", action="store_true", help="plain extrapolation and SelfExtend too")
    parser.add_argument("--out", type=Path, default=Path("results/real-models"), help="rankings, embeddings")
    parser.add_argument("--results", type=Path, default=RESULTS)
    args = parser.parse_args()
    logging.getLogger("mteb").setLevel(logging.CRITICAL)
    torch.set_num_threads(1)
    prepare(args.out)
    measurements = Measurements(args.results, args.out)
    for cell in grid(args.model, is_rotary=args.rotary):
        try:
            measurements.measure(*cell)
        except IncompatibleError as error:
            print(f"left out: {error}", flush=True)


if __name__ == "__main__":
    main()
