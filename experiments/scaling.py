"""The cost of a corpus: hours, money for machines and index sizes, from a measured rate.

`python -m experiments.scaling [--gflops 144] [--dollars-an-hour 0.1]`; docs/speed.md has the arithmetic. The rate is
that of a machine while it encodes: `experiments.speed utilisation` measures it on a CPU, the kit on a GPU. The defaults
are those of the measured CPU. A strategy multiplies the cost by its factor.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from experiments.measuring import table

#: Name -> layers, width, and the cost of MLPs and projections in units of 24 width^2 for each token and layer.
MODELS: dict[str, tuple[int, int, float]] = {
    "base (12 x 768)": (12, 768, 1.0),
    # grouped keys and a gated MLP: 2 * (16 + 8 + 8 + 16) * 128 * 1024 + 6 * 1024 * 3072 FLOP for each token and layer.
    # All heads together are 2,048 wide, and half of the pairs of tokens are masked. So attention costs 4 n * 1,024 too.
    "Qwen3 0.6B (28 x 1024)": (28, 1024, (2 * 48 * 128 * 1024 + 6 * 1024 * 3072) / (24 * 1024**2)),
}
LENGTHS = (512, 4096, 32_768)
CORPORA = (10**4, 10**6, 10**9)
#: Bytes of a vector in FAISS' IVF-PQ in addition to its codes: the id, and its share of the lists.
_ID_BYTES = 8


@dataclass(frozen=True)
class Encoding:
    """The cost of one corpus; `dense` is the cost of projections and MLP, `tokens` are those of one document."""

    layers: int
    width: int
    dense: float
    tokens: int
    documents: int

    @property
    def flop(self) -> float:
        """FLOP of the whole corpus.

        >>> Encoding(12, 768, 1.0, 512, 1).flop / 1e9
        96.63676416
        """
        one = self.layers * self.tokens * (24 * self.width**2 * self.dense + 4 * self.tokens * self.width)
        return self.documents * one

    def hours(self, gflops: float) -> float:
        """Hours of one machine that reaches this rate in GFLOP/s while it encodes.

        >>> round(Encoding(12, 768, 1.0, 512, 10_000).hours(144), 2)
        1.86
        """
        return self.flop / (gflops * 1e9) / 3600

    def flat(self, vectors: int) -> float:
        """Bytes of a flat FAISS index in fp32, with this number of vectors for each document.

        >>> Encoding(12, 768, 1.0, 512, 1000).flat(1)
        3072000
        """
        return self.documents * vectors * 4 * self.width

    def ivf_pq(self, vectors: int) -> float:
        """Bytes of an IVF-PQ index: one byte for eight dimensions, and an id, for each vector.

        >>> Encoding(12, 768, 1.0, 512, 1000).ivf_pq(1)
        104000.0
        """
        return self.documents * vectors * (self.width / 8 + _ID_BYTES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--gflops", type=float, default=144, help="rate while encoding; default: that of two CPU cores"
    )
    parser.add_argument("--dollars-an-hour", type=float, default=0.1, help="price of one such machine")
    parser.add_argument(
        "--span", type=int, default=256, help="tokens for each vector, if documents have several vectors"
    )
    args = parser.parse_args()
    rows: list[list[object]] = []
    for name, shape in MODELS.items():
        for tokens in LENGTHS:
            for documents in CORPORA:
                corpus = Encoding(*shape, tokens, documents)
                hours = corpus.hours(args.gflops)
                several = -(-tokens // args.span)
                sizes = [f(v) / 1e9 for v in (1, several) for f in (corpus.flat, corpus.ivf_pq)]
                rows.append([
                    name, f"{tokens:,}", f"10^{len(str(documents)) - 1}", f"{corpus.flop:.1e}", hours,
                    hours * args.dollars_an_hour, several, *sizes,
                ])  # fmt: skip
    head = ["model", "tokens", "documents", "FLOP", "machine hours", "dollars", "vectors", "flat, one, GB",
            "IVF-PQ, one, GB", "flat, several, GB", "IVF-PQ, several, GB"]  # fmt: skip
    print(f"{args.gflops:g} GFLOP/s, {args.dollars_an_hour:g} dollars an hour\n")
    print(table(head, rows))


if __name__ == "__main__":
    main()
