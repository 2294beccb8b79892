"""Whitening: an affine map that makes the vectors of a corpus less alike, from their mean and covariance."""

import functools
import logging
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from sentence_transformers.sentence_transformer.modules import Dense, Normalize
from sklearn.covariance import ledoit_wolf_shrinkage
from torch import nn

from mteb_longembed.errors import NumberError

logger = logging.getLogger(__name__)

#: Maximum number of vectors used, sampled with `SEED`.
MAX_VECTORS = 50_000
SEED = 0
#: Whitening on fewer vectors may be worse than none: with 20, it was in some of 12 draws, with 35 in none (1,200
#: sections of Python proposals with their titles as queries, all-MiniLM-L6-v2: nDCG@10 56.2 without it, on average 55.7
#: with 3 vectors and 59.8 with 1,200).
FEW_VECTORS = 35
#: The minimum shrinkage of the covariance towards a sphere. Chapters, proposals and paraphrases lose with more.
LEAST_SHRINKAGE = 0.01


def sampled_rows(n: int, most: int = MAX_VECTORS) -> np.ndarray:
    """Return the sorted indices of the vectors to use out of `n`: all, or `most` sampled with `SEED`."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(SEED).choice(n, most, replace=False))


@functools.cache
def _warn_of_few(n: int) -> None:
    """Log a warning on few vectors, once in a process: `compare` fits several whitenings on the same ones."""
    logger.warning(
        "whitening may do harm if it is fitted on fewer than %d vectors, got %d: begin with more documents, or leave "
        "it out.",
        FEW_VECTORS,
        n,
    )


@dataclass(frozen=True, eq=False)
class Whitening:
    """The map `(x - mean) matrix`, with results of length 1. Its dimensions are sorted by decreasing variance.

    So the first dimensions alone are a smaller vector (`truncate_dim`) that keeps most of the variance.

    Source: Su et al. 2021, arXiv:2103.15316, and Huang et al. 2021, arXiv:2104.01767, for vectors of sentences.
    Differs: the covariance is estimated on the windows of the searched documents, shrunk by the rule of Ledoit and
        Wolf 2004, doi:10.1016/S0047-259X(03)00096-4, and its power is -1/4 (`power=0.5`) and not -1/2.

    Args:
        mean: `[d]`, the mean of the vectors that the map was fitted on.
        matrix: `[d, d]`, the linear map.
    """

    mean: np.ndarray
    matrix: np.ndarray

    @classmethod
    def fit(cls, vectors: np.ndarray, power: float) -> Self:
        """Fit the whitening to vectors `[n, d]` of the corpus.

        With fewer than two different vectors it is the identity. Fewer than 35 vectors are logged as a warning.

        Raises:
            NumberError: if a number is not finite.
        """
        check_finite(vectors)
        rows = vectors.astype(np.float64)
        n, width = rows.shape
        mean = rows.mean(0) if n else np.zeros(width)
        rows -= mean
        variance = float((rows**2).sum()) / max(n, 1) / width
        if n < 2 or variance <= 1e-12 * float((vectors.astype(np.float64) ** 2).mean()):
            got = str(n) if n < 2 else f"{n:,} equal ones"
            logger.warning("whitening needs two different vectors, got %s: it changes nothing.", got)
            return cls(np.zeros(width, np.float32), np.eye(width, dtype=np.float32))
        if n < FEW_VECTORS:
            _warn_of_few(n)
        shrinkage = max(ledoit_wolf_shrinkage(rows, assume_centered=True), LEAST_SHRINKAGE)
        covariance = (1 - shrinkage) / variance * (rows.T @ rows) / n
        covariance[np.diag_indices(width)] += shrinkage
        values, directions = np.linalg.eigh(covariance)
        # libraries of linear algebra choose the sign of a direction freely: its largest number is positive
        largest = directions[np.abs(directions).argmax(axis=0), np.arange(width)]
        directions *= np.sign(largest)
        # numpy sorts them by increasing variance
        matrix = directions[:, ::-1] * values[::-1] ** (-power / 2)
        return cls(mean.astype(np.float32), matrix.astype(np.float32))

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Map vectors `[n, d]` of documents or queries, to be compared by cosine."""
        return (rows - self.mean) @ self.matrix

    def modules(self) -> list[nn.Module]:
        """Return a Dense, `x -> (x - mean) matrix`, and a Normalize."""
        width = len(self.matrix)
        dense = Dense(width, width, bias=True, activation_function=nn.Identity())
        bias = torch.from_numpy(-self.mean @ self.matrix)
        dense.linear.load_state_dict({"weight": torch.from_numpy(self.matrix.T.copy()), "bias": bias})
        return [dense.requires_grad_(False), Normalize()]


def check_finite(rows: np.ndarray) -> None:
    """Raise NumberError if a number is not finite."""
    if not np.isfinite(rows).all():
        raise NumberError("vectors must be finite numbers, got NaN or infinity: use another dtype.")


def unit(rows: np.ndarray) -> np.ndarray:
    """Normalize rows `[n, d]` to length 1, float32; zeros stay."""
    scaled: np.ndarray = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return scaled.astype(np.float32)
