"""From the scores of vectors to the scores of their documents.

A document may have no vector, such as one whose tokens a late-interaction model masks. The reductions give it minus
infinity, and `with_the_rest_last` makes that the lowest finite score of the query.
"""

import numpy as np


def reduced(
    function: np.ufunc, values: np.ndarray, counts: np.ndarray, empty: float, axis: int = 1
) -> np.ndarray:
    """Reduce consecutive groups of values along an axis; a group of none has the value `empty`.

    `reduceat` itself returns the first value of the next group there.

    Args:
        function: `np.add` or `np.maximum`.
        values: `[a, b]`, of which the given axis holds the groups.
        counts: number of values of each group, `[groups]`.
        empty: the value of a group without values.
        axis: the axis of the groups.

    >>> reduced(np.maximum, np.array([[0.1, 0.9]]), np.array([1, 0, 1]), -1.0).tolist()
    [[0.1, -1.0, 0.9]]
    """
    filled = np.flatnonzero(counts)
    starts = (np.cumsum(counts) - counts)[filled]
    if len(filled) == len(counts):
        return np.asarray(function.reduceat(values, starts, axis=axis))
    shape = list(values.shape)
    shape[axis] = len(counts)
    result = np.full(shape, empty, values.dtype)
    if len(filled):
        index = (slice(None), filled) if axis == 1 else filled
        result[index] = function.reduceat(values, starts, axis=axis)
    return result


def mean_of_queries(scores: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Average the scores of the vectors or sentences of each query, `[queries, documents]`; 0 for a query without any.

    >>> mean_of_queries(np.array([[0.1], [0.3], [0.5]]), np.array([2, 1, 0])).round(2).tolist()
    [[0.2], [0.5], [0.0]]
    """
    sums = reduced(np.add, scores, counts, 0.0, axis=0)
    return np.asarray(sums / np.maximum(counts, 1)[:, None].astype(np.float32))


def best_vector(scores: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the score of the best vector of each document, `[queries, documents]`; minus infinity for no vector.

    >>> best_vector(np.array([[0.1, 0.9, 0.5]]), np.array([2, 1, 0])).tolist()
    [[0.9, 0.5, -inf]]
    """
    return reduced(np.maximum, scores, counts, -np.inf)


def all_vectors(scores: np.ndarray, counts: np.ndarray, temperature: float | np.ndarray) -> np.ndarray:
    """Return the soft maximum of the scores of each document's vectors: `T ln(mean(exp(score / T)))`.

    It lies between the mean and the best score. A document with several high-scoring vectors beats one with a single
    one. A vector counts half as much as the best one if its score is `T ln 2` lower. A document without a vector has
    minus infinity.

    >>> all_vectors(np.array([[0.9, 0.9, 0.9, 0.1]]), np.array([2, 2, 0]), 0.05).round(3).tolist()
    [[0.9, 0.865, -inf]]
    """
    best = best_vector(scores, counts)
    relative = np.exp((scores - np.repeat(best, counts, axis=1)) / temperature)
    mean = reduced(np.add, relative, counts, 1.0) / np.maximum(counts, 1)
    return best + temperature * np.log(mean)


def with_the_rest_last(scores: np.ndarray) -> np.ndarray:
    """Replace minus infinity by the next number below the lowest score of the query, `[queries, documents]`.

    So a document without a vector comes last, as in sentence-transformers, and a fusion with it stays finite: its
    vectors are no evidence, and other evidence counts. If no document has a vector, all score 0.

    >>> with_the_rest_last(np.array([[0.5, -np.inf, 0.25]], np.float32)).round(3).tolist()
    [[0.5, 0.25, 0.25]]
    """
    without = np.isneginf(scores)
    if not without.any():
        return scores
    lowest = np.where(without, np.inf, scores).min(axis=1, keepdims=True)
    last = np.where(np.isinf(lowest), 0, np.nextafter(lowest, np.float32(-np.inf), dtype=np.float32))
    return np.where(without, last, scores).astype(np.float32)
