"""(d) How much of the machine is used: FLOP/s of encoding, divided by FLOP/s of matrix products of the same shapes.

`python benchmarks/utilisation.py --size base --tokens 512 --docs 4 --rounds 3`
"""

from __future__ import annotations

import argparse
import tempfile

import torch
from materials import MIXES, SIZES, alternating, base_model, documents, table

import mteb_longembed as longembed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="base")
    parser.add_argument("--tokens", type=int, nargs="+", default=[512])
    parser.add_argument("--docs", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    args = parser.parse_args()
    rows = [measure(args.size, n, args.docs, args.rounds, args.device, args.dtype) for n in args.tokens]
    print(table(HEAD, rows))


HEAD = ["tokens", "documents", "encoding GFLOP/s", "matrix product GFLOP/s", "share"]


def measure(
    size: str, n: int, docs: int, rounds: int, device: str = "cpu", dtype: str = "float32"
) -> list[object]:
    """One row: the rate of encoding `docs` documents of `n` tokens, and of plain products with as many operations."""
    layers, width, _ = SIZES[size]
    kind = getattr(torch, dtype)
    MIXES["full"] = (8 * n,)
    texts = documents("full", docs)
    with tempfile.TemporaryDirectory() as folder:
        base = base_model(size, n, folder, device)
        base[0].model.to(kind)
        model = longembed.extend(base, "none", device=device)
    flops = docs * n * layers * (24 * width**2 + 4 * n * width)
    a = torch.randn(n * 7, width, device=device, dtype=kind)
    b = torch.randn(width, 4 * width, device=device, dtype=kind)
    repeats = max(1, int(flops / (2 * a.shape[0] * b.numel())))

    def product() -> None:
        for _ in range(repeats):
            torch.mm(a, b)

    model.encode(texts[:1])
    encode_s, product_s = alternating(rounds, lambda: model.encode(texts, batch_size=docs), product)
    achieved, possible = flops / encode_s, repeats * 2 * a.shape[0] * b.numel() / product_s
    return [n, docs, achieved / 1e9, possible / 1e9, achieved / possible]


if __name__ == "__main__":
    main()
