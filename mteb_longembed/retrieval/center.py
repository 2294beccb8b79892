"""Corpus centring: the mean vector of a corpus is subtracted, and vectors are normalised again."""

from __future__ import annotations

from typing import Any

import numpy as np

from mteb_longembed.errors import InputError

#: A vector this close to the mean, relative to its own length, has no direction left and stays as it is.
_NOTHING_LEFT = 1e-6


def center(vectors: Any) -> tuple[np.ndarray, np.ndarray]:
    """Subtract the mean vector, and give every vector length 1 again: for an index of your own.

    Documents that share most of their text have vectors that share most of their direction. What is left after the
    mean is subtracted is what tells them apart. Scores then depend on the corpus, as those of BM25 do. Queries that
    you center too need a mean of their own, from texts like queries; never from the queries that you search with.

    Source: Mu & Viswanath 2018, arXiv:1702.01417 (its first step, there for word vectors).

    Args:
        vectors: `[documents, d]`, anything that numpy takes.

    Returns:
        The centred vectors, float32 `[documents, d]`, and the mean, `[d]`. One vector alone, or one equal to the
        mean, stays as it is.

    Raises:
        InputError: if they are no matrix of finite numbers.

    Example:
        >>> centred, mean = center([[1.0, 0.0], [0.0, 1.0]])
        >>> mean.tolist(), centred.round(3).tolist()
        ([0.5, 0.5], [[0.707..., -0.707...], [-0.707..., 0.707...]])
    """
    rows = np.asarray(vectors, dtype=np.float32)
    if rows.ndim != 2 or not np.isfinite(rows).all():
        raise InputError(
            f"vectors must be a matrix of finite numbers, documents x dimensions, got shape {rows.shape}."
        )
    if len(rows) == 0:
        return rows, np.zeros(rows.shape[1], np.float32)
    mean = rows.mean(0, dtype=np.float64).astype(np.float32)
    return subtract(rows, mean), mean


def subtract(rows: np.ndarray, mean: np.ndarray, *, normalize: bool = True) -> np.ndarray:
    """Rows `[m, d]` without the mean `[d]`, each of length 1 again if `normalize`."""
    left = rows - mean
    lengths = np.linalg.norm(left, axis=1, keepdims=True)
    nothing = lengths <= _NOTHING_LEFT * np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    if normalize:
        left = left / np.where(nothing, 1, lengths)
    return np.where(nothing, rows, left).astype(np.float32)
