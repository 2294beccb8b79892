"""A million windows: memory and time of a query, exact and with `index=ivf`, beside FAISS's own indexes.

    python -m experiments.million [WINDOWS]

Vectors are drawn around 5,000 centres, so that lists have something to find. The table is printed, for docs/search.md.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from experiments.measuring import table
from mteb_longembed.encoders.whitening import unit
from mteb_longembed.retrieval.vectors import CorpusVectors, document_scores
from mteb_longembed.retrieval.windows_index import PROBED, WindowIndex

WIDTH = 384
WINDOWS_A_DOCUMENT = 100
CENTRES = 5_000
#: Each coordinate's spread around its centre, whose coordinates have the spread 1.
SPREAD = 1.0
QUERIES = 50
DEPTH = 10
_DOCUMENTS_AT_ONCE = 200


def measure(n_windows: int) -> None:
    """Make the vectors, and print a row for each way to search them."""
    draw = np.random.default_rng(0)
    centres = draw.standard_normal((CENTRES, WIDTH), np.float32)

    def near(n: int) -> np.ndarray:
        noise = SPREAD * draw.standard_normal((n, WIDTH), np.float32)
        return unit(centres[draw.integers(CENTRES, size=n)] + noise)

    n_documents = n_windows // WINDOWS_A_DOCUMENT
    vectors = CorpusVectors()
    for _ in range(0, n_documents, _DOCUMENTS_AT_ONCE):
        vectors.append(np.split(near(_DOCUMENTS_AT_ONCE * WINDOWS_A_DOCUMENT), _DOCUMENTS_AT_ONCE))
    queries = near(QUERIES)
    exact = [best(document_scores(vectors, query[None])[0]) for query in queries]
    rows = [
        row(
            "ours, exact, from disk",
            0.0,
            lambda query: best(document_scores(vectors, query)[0]),
            queries,
            exact,
        )
    ]

    owner = np.repeat(np.arange(len(vectors)), WINDOWS_A_DOCUMENT)
    began = time.perf_counter()
    index: Any = WindowIndex(vectors.blocks())
    built = time.perf_counter() - began
    rows.append(row("ours, index=ivf", built, lambda query: index.search(query, DEPTH)[1][0], queries, exact))
    index = None

    # what FAISS gives are windows: so many that ten documents are among them
    def documents_of(found: Any, query: np.ndarray) -> list[int]:
        _, windows = found.search(query, DEPTH * WINDOWS_A_DOCUMENT)
        return list(dict.fromkeys(owner[windows[0]].tolist()))[:DEPTH]

    matrix = np.concatenate([block.rows for block in vectors.blocks()])
    began = time.perf_counter()
    flat: Any = faiss.IndexFlatIP(WIDTH)
    flat.add(matrix)
    built = time.perf_counter() - began
    rows.append(row("FAISS, IndexFlatIP", built, lambda query: documents_of(flat, query), queries, exact))
    flat = None
    began = time.perf_counter()
    n_lists = int(2 * len(matrix) ** 0.5)
    ivf: Any = faiss.index_factory(WIDTH, f"IVF{n_lists},SQfp16", faiss.METRIC_INNER_PRODUCT)
    ivf.train(matrix[draw.permutation(len(matrix))[: 40 * n_lists]])
    ivf.add(matrix)
    ivf.nprobe = max(n_lists // PROBED, 1)
    built = time.perf_counter() - began
    rows.append(row("FAISS, IVF with fp16", built, lambda query: documents_of(ivf, query), queries, exact))
    head = ["search", "seconds to build", "ms a query", f"recall@{DEPTH}", "GB of the process"]
    print(table(head, rows))


def row(
    name: str,
    built: float,
    search: Callable[[np.ndarray], list[int]],
    queries: np.ndarray,
    exact: list[list[int]],
) -> list[object]:
    """The median time of a query, the share of the exact best documents that it finds, and the memory now."""
    times = []
    shares = []
    for query, best_ones in zip(queries, exact, strict=True):
        began = time.perf_counter()
        found = search(query[None])
        times.append(1000 * (time.perf_counter() - began))
        shares.append(len(set(found) & set(best_ones)) / DEPTH)
    memory = resident()
    print(name, f"{np.median(times):.1f} ms", f"{memory:.2f} GB", flush=True)
    return [name, f"{built:.0f}", f"{np.median(times):.1f}", f"{np.mean(shares):.2f}", f"{memory:.1f}"]


def best(scores: np.ndarray) -> list[int]:
    """The numbers of the best documents."""
    return np.argsort(-scores)[:DEPTH].tolist()


def resident() -> float:
    """Gigabytes that this process holds now, files that are mapped aside."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return int(fields["RssAnon"].split()[0]) / 1e6


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("windows", type=int, nargs="?", default=1_000_000)
    measure(parser.parse_args().windows)
