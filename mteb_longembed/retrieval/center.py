"""Corpus centring: subtract the mean vector of the corpus, and normalise the vectors again."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from mteb_longembed.errors import InputError

#: If a vector is this close to the mean (relative to its own length), no direction is left: we keep the vector.
_NOTHING_LEFT = 1e-6


def center(vectors: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Subtract the mean vector and give every vector length 1 again. Use this for your own index.

    Documents that share most of their text have vectors with nearly the same direction. After the mean is subtracted,
    only the differences are left. Scores then depend on the corpus, as in BM25. Queries stay as they are.

    Source: Mu & Viswanath 2018, arXiv:1702.01417 (its first step, there for word vectors).

    Args:
        vectors: `[documents, d]`, any type that numpy accepts.

    Returns:
        The centred vectors, float32 `[documents, d]`, and the mean, `[d]`. A single vector, or a vector equal to the
        mean, does not change.

    Raises:
        InputError: if the vectors are not a matrix of finite numbers.

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
    """The rows `[m, d]` minus the mean `[d]`; if `normalize`, each row has length 1 again."""
    left = rows - mean
    lengths = np.linalg.norm(left, axis=1, keepdims=True)
    nothing = lengths <= _NOTHING_LEFT * np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    if normalize:
        left = left / np.where(nothing, 1, lengths)
    return np.where(nothing, rows, left).astype(np.float32)
