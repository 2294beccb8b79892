"""Measure the methods of this folder, each beside the nearest strategy of the package (its relative).

`python -m training.tried` prints one table for each model: Acc@1 at 4,096 tokens, its 95 % interval, and the p-value of
the paired randomisation test against the relative.
"""

from __future__ import annotations

import argparse
import logging

import torch

from mteb_longembed.encoders.strategies import STRATEGIES
from mteb_longembed.statistics.bootstrap import randomisation_test
from training.retrieval import generated
from training.windows import found_by, interval, scores_of

from .cope import ClippedRoPE
from .folded import FoldedPositions
from .hierarchical import HierarchicalPositions
from .temperature import Temperature

#: The package's strategy, and what is compared with it: ends of names; `@` is replaced by the target.
_TEMPERATURES = ("temperature@:tau=0.9", "temperature@:tau=0.8", "temperature@:tau=0.6")
ROWS = {
    "mini-ape": (
        ("rp@", "folded@", "hierarchical@", "hierarchical@:alpha=0.2"),
        ("ntk@", "ntk@:logn=off", *_TEMPERATURES),
    ),
    "mini-rope": (
        ("none@", "cope@", "cope@:clip=8"),
        ("rp@", "folded@"),
        ("ntk@", "ntk@:logn=off", *_TEMPERATURES),
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--task", default="LongEmbedPasskey-docs200-queries200")
    parser.add_argument("--length", type=int, default=4096)
    args = parser.parse_args()
    logging.getLogger("mteb").setLevel(logging.CRITICAL)
    for strategy in (ClippedRoPE, FoldedPositions, HierarchicalPositions, Temperature):
        STRATEGIES[strategy.key()] = strategy
    task = generated(args.task, args.length)
    for model in args.models:
        print(f"| {task.name} | score | 95 % | p |\n|---|---:|---:|---:|", flush=True)
        for tails in ROWS[model]:
            against = None
            for tail in tails:
                name = f"{model}+{tail.replace('@', f'@{args.length}')}"
                scores = scores_of(found_by(name, task), task)
                found = interval(scores, task)
                p = "" if against is None else f"{randomisation_test([scores], [against]):.3f}"
                against = scores if against is None else against
                print(
                    f"| `{name}` | {found.mean:.1f} | {found.low:.0f} to {found.high:.0f} | {p} |", flush=True
                )


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    main()
