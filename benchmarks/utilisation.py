"""(d) How much of the machine is used: FLOP/s of encoding over FLOP/s of plain matrix products of its shapes.

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
    layers, width, _ = SIZES[args.size]
    rows = []
    dtype = getattr(torch, args.dtype)
    for n in args.tokens:
        MIXES["full"] = (8 * n,)
        texts = documents("full", args.docs)
        with tempfile.TemporaryDirectory() as folder:
            base = base_model(args.size, n, folder, args.device)
            base[0].model.to(dtype)
            model = longembed.extend(base, "none", device=args.device)
        flops = args.docs * n * layers * (24 * width**2 + 4 * n * width)
        a = torch.randn(n * 7, width, device=args.device, dtype=dtype)
        b = torch.randn(width, 4 * width, device=args.device, dtype=dtype)
        repeats = max(1, int(flops / (2 * a.shape[0] * b.numel())))

        def product(a: torch.Tensor = a, b: torch.Tensor = b, repeats: int = repeats) -> None:
            for _ in range(repeats):
                torch.mm(a, b)

        model.encode(texts[:1])
        encode_s, product_s = alternating(args.rounds, lambda m=model, t=texts: m.encode(t), product)
        achieved = flops / encode_s
        possible = repeats * 2 * a.shape[0] * b.numel() / product_s
        rows.append([n, args.docs, achieved / 1e9, possible / 1e9, achieved / possible])
    print(table(["tokens", "documents", "encoding GFLOP/s", "matrix product GFLOP/s", "share"], rows))


if __name__ == "__main__":
    main()
