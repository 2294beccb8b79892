"""Whitening: an affine map that makes the vectors of a corpus less alike, from their mean and covariance."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
from sklearn.covariance import ledoit_wolf

from mteb_longembed.errors import InputError, NumberError

logger = logging.getLogger(__name__)

#: Vectors that are used at most. They are drawn with `SEED`.
MAX_VECTORS = 50_000
SEED = 0
#: The least shrinkage of the covariance towards a sphere. Chapters, proposals and paraphrases lose with more.
LEAST_SHRINKAGE = 0.01
#: Example queries that are needed for a mean of their own.
LEAST_QUERIES = 10


@dataclass(frozen=True)
class Whitening:
    """The map `(x - mean) matrix`, whose results are scaled to length 1.

    Source: Su et al. 2021, arXiv:2103.15316, and Huang et al. 2021, arXiv:2104.01767, for vectors of sentences.
    Differs: the covariance is that of the windows of the documents that are searched, shrunk by Ledoit and Wolf's
        rule, and its power is -1/4 (`power=0.5`) and not -1/2.

    Args:
        mean: `[d]`, of the vectors that the map was fitted on.
        matrix: `[d, d]`.
        query_mean: `[d]`, of example queries. None: that of the documents.
    """

    mean: np.ndarray
    matrix: np.ndarray
    query_mean: np.ndarray | None = None

    def documents(self, rows: np.ndarray) -> np.ndarray:
        """The mapped vectors of documents `[n, d]`, of length 1."""
        return _unit((rows - self.mean) @ self.matrix)

    def queries(self, rows: np.ndarray) -> np.ndarray:
        """The mapped vectors of queries `[n, d]`, of length 1."""
        mean = self.mean
        if self.query_mean is not None:
            mean = self.query_mean
        return _unit((rows - mean) @ self.matrix)


def fit(vectors: np.ndarray, power: float, queries: np.ndarray | None = None) -> Whitening:
    """The whitening of vectors `[n, d]`. With fewer than two, or only equal ones, it is the identity.

    Args:
        vectors: of windows of the corpus.
        power: 1 is full whitening.
        queries: vectors of example queries, `[n, d]`.

    Raises:
        NumberError: if a number is not finite.
        InputError: if there are too few example queries.
    """
    for rows in (vectors, queries):
        if rows is not None and not np.isfinite(rows).all():
            raise NumberError("vectors must be finite numbers, got NaN or infinity: use another dtype.")
    if queries is not None and len(queries) < LEAST_QUERIES:
        raise InputError(f"a mean of queries needs at least {LEAST_QUERIES} of them, got {len(queries)}.")
    width = vectors.shape[1]
    rows = vectors.astype(np.float64)
    mean = rows.mean(0) if len(rows) else np.zeros(width)
    centred = rows - mean
    variance = float((centred**2).sum() / max(len(rows), 1) / width)
    if len(rows) < 2 or variance <= 1e-12 * float((rows**2).mean()):
        logger.warning(
            "whitening needs two different vectors of documents, got %d: it changes nothing.", len(rows)
        )
        return Whitening(np.zeros(width, np.float32), np.eye(width, dtype=np.float32))
    _, shrinkage = ledoit_wolf(centred, assume_centered=True)
    shrinkage = max(float(shrinkage), LEAST_SHRINKAGE)
    covariance = (1 - shrinkage) * (centred.T @ centred) / len(rows)
    covariance[np.diag_indices(width)] += shrinkage * variance
    values, directions = np.linalg.eigh(covariance / variance)
    matrix = directions * values ** (-power / 2)
    query_mean = None
    if queries is not None:
        query_mean = queries.mean(0, dtype=np.float64).astype(np.float32)
    return Whitening(mean.astype(np.float32), matrix.astype(np.float32), query_mean)


def _unit(rows: np.ndarray) -> np.ndarray:
    scaled: np.ndarray = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return scaled.astype(np.float32)
