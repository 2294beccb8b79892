"""(a) Encoding documents with LongEmbed's lengths: our engine compared with sentence-transformers' own loop.

`python benchmarks/end_to_end.py --size small --lengths 512 4096 --docs 8 --rounds 3`
"""

from __future__ import annotations

import argparse
import tempfile

import numpy as np
from materials import MIXES, SIZES, alternating, base_model, documents, table

import mteb_longembed as longembed
from mteb_longembed.encoders.engine.tokenizing import CACHE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--lengths", type=int, nargs="+", default=[512, 4096])
    parser.add_argument("--mixes", nargs="+", choices=MIXES, default=list(MIXES))
    parser.add_argument(
        "--docs", type=int, default=16, help="documents of each mix (there are 16 times as many queries)"
    )
    parser.add_argument(
        "--batch-sizes", type=int, nargs="+", default=[4, 32], help="tried for the stock loop"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    rows = []
    for length in args.lengths:
        with tempfile.TemporaryDirectory() as folder:
            stock = base_model(args.size, length, folder, args.device)
            ours = longembed.extend(stock, "none", device=args.device)
            for mix in args.mixes:
                texts = documents(mix, args.docs * (16 if mix == "queries" else 1))
                rows.append(compare(stock, ours, texts, length, mix, args.batch_sizes, args.rounds))
    print(table(HEAD, rows))


HEAD = [
    "tokens",
    "mix",
    "documents",
    "stock s",
    "its batch",
    "ours s",
    "stock / ours",
    "largest difference",
]


def compare(stock, ours, texts, length, mix, batch_sizes, rounds, our_batch=32):  # type: ignore[no-untyped-def]
    """One row: the stock loop with its best batch size, compared with ours. Our cache of ids is not used."""

    def run_ours() -> np.ndarray:
        CACHE.clear()
        return ours.encode(texts, batch_size=our_batch)

    difference = float(np.abs(run_ours() - stock.encode(texts, batch_size=batch_sizes[0])).max())
    runs = [lambda size=size: stock.encode(texts, batch_size=size) for size in batch_sizes]
    *stock_times, our_time = alternating(rounds, *runs, run_ours)
    best = min(range(len(runs)), key=stock_times.__getitem__)
    ratio = stock_times[best] / our_time
    return [length, mix, len(texts), stock_times[best], batch_sizes[best], our_time, ratio, difference]


if __name__ == "__main__":
    main()
