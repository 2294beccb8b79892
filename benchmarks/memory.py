"""(e) Memory by length: the peak of one document's forward pass, each measured in its own process.

`python benchmarks/memory.py --strategies none pi --tokens 1024 2048 4096 8192`
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile

from materials import SIZES, base_model, table
from strategies import forward, rotary_model

import mteb_longembed as longembed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument(
        "--strategies", nargs="+", default=["absolute:pi", "absolute:pcw", "rotary:ntk", "rotary:se"]
    )
    parser.add_argument("--tokens", type=int, nargs="+", default=[2048, 4096, 8192, 16384])
    parser.add_argument("--one", nargs=2, metavar=("STRATEGY", "TOKENS"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(peak(args.size, *args.one))
        return
    rows = []
    for strategy in args.strategies:
        for n in args.tokens:
            command = [sys.executable, __file__, "--size", args.size, "--one", strategy, str(n)]
            mib = float(
                subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1]
            )
            rows.append([strategy, n, mib, 1024 * mib / n])
    print(table(["strategy", "tokens", "peak MiB above start", "KiB a token"], rows))


def peak(size: str, strategy: str, tokens: str) -> float:
    """By how many MiB the largest resident size grows while one document is encoded."""
    family, key = strategy.split(":")
    with tempfile.TemporaryDirectory() as folder:
        base = (rotary_model if family == "rotary" else base_model)(size, 512, folder)
        model = longembed.extend(base, key, target_len=int(tokens))
        forward(model, 512)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        forward(model, int(tokens))
        return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


if __name__ == "__main__":
    main()
