"""The vectors of a corpus on disk."""

from __future__ import annotations

import tracemalloc

import numpy as np

from mteb_longembed.retrieval.vectors import BLOCK_BYTES, CorpusVectors, best_documents


def test_ten_thousand_documents_of_64_vectors_are_never_in_memory_as_a_whole() -> None:
    n, several, width = 10_000, 64, 128
    draw = np.random.default_rng(0)
    queries = draw.standard_normal((20, width), np.float32)
    tracemalloc.start()
    try:
        kept = CorpusVectors()
        for place in range(n):
            rows = draw.standard_normal((several, width), np.float32)
            if place in (0, 5_000, n - 1):  # these have the first query itself among their vectors
                rows[place % several] = 10 * queries[0]
            kept.add([rows])
        _, places = best_documents(kept.blocks(), queries, 10)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        kept.close()
    assert {0, 5_000, n - 1} == set(places[0][:3])
    # two blocks, each in fp32 and as read
    assert peak < 3.5 * BLOCK_BYTES < 0.75 * n * several * width * 4
