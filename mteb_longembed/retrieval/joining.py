"""From the scores of vectors to the scores of their documents."""

import numpy as np


def mean_of_queries(scores: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Average the scores of the vectors or sentences of each query, `[queries, documents]`.

    >>> mean_of_queries(np.array([[0.1], [0.3], [0.5]]), np.array([2, 1])).round(2).tolist()
    [[0.2], [0.5]]
    """
    sums: np.ndarray = np.add.reduceat(scores, np.cumsum(counts) - counts, axis=0)
    return sums / counts[:, None].astype(np.float32)


def best_vector(scores: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the score of the best vector of each document, `[queries, documents]`.

    >>> best_vector(np.array([[0.1, 0.9, 0.5]]), np.array([2, 1])).tolist()
    [[0.9, 0.5]]
    """
    starts = np.cumsum(counts) - counts
    return np.maximum.reduceat(scores, starts, axis=1)


def all_vectors(scores: np.ndarray, counts: np.ndarray, temperature: float | np.ndarray) -> np.ndarray:
    """Return the soft maximum of the scores of each document's vectors: `T ln(mean(exp(score / T)))`.

    It lies between the mean and the best score. A document with several high-scoring vectors beats one with a single
    one. A vector counts half as much as the best one if its score is `T ln 2` lower.

    >>> all_vectors(np.array([[0.9, 0.9, 0.9, 0.1]]), np.array([2, 2]), 0.05).round(3).tolist()
    [[0.9, 0.865]]
    """
    best = best_vector(scores, counts)
    relative = np.exp((scores - np.repeat(best, counts, axis=1)) / temperature)
    mean = np.add.reduceat(relative, np.cumsum(counts) - counts, axis=1) / counts
    return best + temperature * np.log(mean)
