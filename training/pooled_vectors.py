"""Fewer vectors a document: pooled by similarity, or runs of neighbours averaged.

`python -m training.pooled_vectors` prints one table for each model and task. Pooling by similarity is
sentence-transformers' `HierarchicalTokenPooling`. Runs of neighbours are the plain rival: as many vectors, and each
still stands for one place of the document. A document's score is that of its best vector.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from sentence_transformers.multi_vector_encoder.modules import HierarchicalTokenPooling

import mteb_longembed
from training.retrieval import QMSUM_VARIABLE, Retrieval, generated, qmsum
from training.windows import interval, scores_of

MODEL = "{}+pcw@4096:size=128,short=cut,vectors=window"


def by_similarity(vectors: np.ndarray, k: int) -> np.ndarray:
    """At most k vectors: means of clusters."""
    if len(vectors) <= k:
        return vectors
    # a little less, so that rounding does not give k - 1 clusters
    pooling = HierarchicalTokenPooling(0.99999 * len(vectors) / k, num_protected_tokens=0)
    return pooling.pool_one(torch.from_numpy(vectors)).numpy()


def by_place(vectors: np.ndarray, k: int) -> np.ndarray:
    """At most k vectors: means of neighbours."""
    if len(vectors) <= k:
        return vectors
    means = np.stack([run.mean(0) for run in np.array_split(vectors, k)])
    return means / np.linalg.norm(means, axis=1, keepdims=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", default=["mini-ape", "mini-rope"])
    parser.add_argument("--task", default="LongEmbedPasskey-docs100-queries100")
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--queries", type=int, default=300, help="the first queries of QMSum")
    args = parser.parse_args()
    tasks = [generated(args.task, args.length)]
    if folder := os.environ.get(QMSUM_VARIABLE):
        tasks.append(qmsum(Path(folder), args.queries))
    for name in args.models:
        model = mteb_longembed.load(MODEL.format(name))
        for task in tasks:
            texts = [f"{row.get('title') or ''} {row['text']}".strip() for row in task.corpus]
            documents = [np.asarray(each, np.float32) for each in model.encode_document(texts)]
            queries = np.stack(
                [each[0] for each in model.encode_query([row["text"] for row in task.queries])]
            )
            print(f"| {name}, {task.name} | score |\n|---|---:|")
            mean = np.mean([len(each) for each in documents])
            print(f"| all vectors ({mean:.1f} a document) | {score(documents, queries, task)} |")
            for k in (16, 8, 4):
                for how in (by_similarity, by_place):
                    print(f"| {k}, {how.__name__} | {score(documents, queries, task, how, k)} |", flush=True)


def score(
    documents: list[np.ndarray], queries: np.ndarray, task: Retrieval,
    how: Callable[[np.ndarray, int], np.ndarray] | None = None, k: int = 0,
) -> str:  # fmt: skip
    """The score in percent, with its interval."""
    pooled = [how(each, k) if how else each for each in documents]
    best = np.stack([(queries @ each.T).max(1) for each in pooled], 1)
    found = {
        query["id"]: {document["id"]: float(value) for document, value in zip(task.corpus, row, strict=True)}
        for query, row in zip(task.queries, best, strict=True)
    }
    got = interval(scores_of(found, task), task)
    return f"{got.mean:.1f} ({got.low:.0f} to {got.high:.0f})"


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    main()
