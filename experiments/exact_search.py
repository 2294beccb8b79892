"""Exact search over vectors on disk beside FAISS's flat index, in one process: `python -m experiments.exact_search`.

Both give the ten best of a million vectors of 384 numbers. Printed: their times (of the processor for one thread, of
the clock for more), the ratio, and the memory of each.
"""

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from mteb_longembed.encoders.whitening import unit
from mteb_longembed.retrieval.vectors import CorpusVectors, document_scores

WIDTH = 384
QUERIES = 20
DEPTH = 10
_AT_ONCE = 20_000


def measure(n: int) -> None:
    """Make the vectors, search them in both ways, and print a line for each."""
    draw = np.random.default_rng(0)
    vectors = CorpusVectors()
    for _ in range(0, n, _AT_ONCE):
        vectors.append(unit(draw.standard_normal((_AT_ONCE, WIDTH), np.float32)))
    queries = unit(draw.standard_normal((QUERIES, WIDTH), np.float32))

    def ours(query: np.ndarray) -> list[int]:
        scores = document_scores(vectors, query)[0]
        best = np.argpartition(scores, -DEPTH)[-DEPTH:]
        return best[np.argsort(-scores[best])].tolist()

    before = resident()
    found = [ours(query[None]) for query in queries]
    after = resident()
    flat: Any = faiss.IndexFlatIP(WIDTH)
    for _, rows in vectors.blocks():
        flat.add(rows)
    held = resident()

    def theirs(query: np.ndarray) -> list[int]:
        return flat.search(query, DEPTH)[1][0].tolist()

    assert found == [theirs(query[None]) for query in queries], "the best ones differ"
    seconds = [interleaved(ours, theirs, query[None]) for query in queries]
    one, other = np.median(np.array(seconds), axis=0)
    print(
        f"{faiss.omp_get_max_threads()} threads: ours {1000 * one:.0f} ms, FAISS {1000 * other:.0f} ms a query"
    )
    print(f"ratio {one / other:.2f}")
    print(f"process: {before:.0f} MB, ours {after:.0f} MB, with FAISS's index {held:.0f} MB")


def interleaved(ours: Callable[..., object], theirs: Callable[..., object], query: np.ndarray) -> list[float]:
    """The seconds of both, one after the other."""
    clock = time.process_time if faiss.omp_get_max_threads() == 1 else time.perf_counter
    seconds = []
    for search in (ours, theirs):
        began = clock()
        search(query)
        seconds.append(clock() - began)
    return seconds


def resident() -> float:
    """The memory of this process in MB, with the pages of files that are mapped now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("vectors", nargs="?", type=int, default=1_000_000)
    measure(parser.parse_args().vectors)
