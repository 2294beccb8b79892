"""(g) The cost of small windows and several vectors: encoding, search with its memory, FAISS.

`python benchmarks/windows.py --size tiny --documents 10000 --vectors 64`

The search part compares queries with random unit vectors, because the cost does not depend on the values of vectors.
It measures exact search in blocks (`best_documents`) and the FAISS index of windows, with several vectors and with one
vector for each document.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time

import numpy as np
from materials import SIZES, alternating, base_model, documents, table

import mteb_longembed as longembed
from mteb_longembed.retrieval.vectors import CorpusVectors, best_documents
from mteb_longembed.retrieval.windows_index import WindowIndex


def encoding(size: str, rounds: int) -> str:
    """Seconds for documents of 4,096 tokens: windows of 128 and 64 tokens, and windows of the trained length."""
    texts = [text * 3 for text in documents("passkey", 8)[5:7]]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        base = base_model(size, 512, folder)
        plain = longembed.extend(base, "pcw", 4096)
        for size_of_window, overlap in ((128, 0), (64, 0), (64, 31)):
            model = longembed.extend(base, "pcw", 4096, size=size_of_window, overlap=overlap)
            a, b = alternating(rounds, lambda: plain.encode(texts), lambda m=model: m.encode(texts))
            rows.append([f"pcw:size={size_of_window},overlap={overlap}", a, b, b / a])
    return table(["windows", "pcw, s", "these, s", "ratio"], rows)


def filled(n: int, vectors: int, width: int) -> CorpusVectors:
    """`n` documents of random unit vectors, in fp16 if a document has several."""
    draw = np.random.default_rng(0)
    kept = CorpusVectors()
    for _ in range(n):
        rows = draw.normal(size=(vectors, width)).astype(np.float32)
        kept = kept.appended([rows / np.linalg.norm(rows, axis=1, keepdims=True)])
    return kept


def peak() -> float:
    """The largest memory of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def searching(n: int, vectors: int, width: int, rounds: int, queries: int) -> str:
    """Seconds and memory of a search over `n` documents."""
    draw = np.random.default_rng(1)
    asked = draw.normal(size=(queries, width)).astype(np.float32)
    rows = []
    for count in (1, vectors):
        kept = filled(n, count, width)
        before = peak()
        (seconds,) = alternating(rounds, lambda k=kept: best_documents(k.blocks(), asked, 10))
        rows.append([f"exact, {count} a document", seconds, peak() - before])
        for kind in ("flat", "ivf"):
            started = time.perf_counter()
            index = WindowIndex(kept.blocks(), exact=kind == "flat")
            made = time.perf_counter() - started
            (seconds,) = alternating(rounds, lambda i=index: i.search(asked, 10))
            rows.append(
                [f"index={kind}, {count} a document (made in {made:.1f} s)", seconds, peak() - before]
            )
        kept.close()
    return table(
        [f"{n} documents, {queries} queries, d = {width}", "s", "peak MiB above the vectors' file"], rows
    )


def faiss_alone(n: int, width: int, rounds: int, queries: int) -> str:
    """The index with `n` documents of one vector each."""
    draw = np.random.default_rng(2)
    kept = CorpusVectors()
    kept = kept.appended(list(draw.normal(size=(n, width)).astype(np.float32)))
    index = WindowIndex(kept.blocks())
    asked = draw.normal(size=(queries, width)).astype(np.float32)
    (seconds,) = alternating(rounds, lambda: index.search(asked, 10))
    return table(["vectors", "queries", "s"], [[n, queries, seconds]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--vectors", type=int, default=64)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--faiss", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    print(encoding(args.size, args.rounds), "\n", flush=True)
    print(searching(args.documents, args.vectors, args.width, args.rounds, args.queries), "\n", flush=True)
    print(faiss_alone(args.faiss, args.width, args.rounds, args.queries))


if __name__ == "__main__":
    main()
