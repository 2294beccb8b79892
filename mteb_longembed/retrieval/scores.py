"""Scores as functions of arrays: of documents from their vectors, of queries from their parts, and as log-odds.

A document may have no vector, such as one whose tokens a late-interaction model masks. The reductions give it minus
infinity, and `with_the_rest_last` makes that the lowest finite score of the query.
"""

import numpy as np
from scipy.special import log_ndtr

#: The lowest temperature, and the lowest unit of lexical log-odds, as a share of the highest absolute score: equal
#: scores have no spread.
LEAST = 2e-3
#: The lowest temperature of scores that are all 0.
OF_ZEROS = 1e-6
#: The lowest scale of surprisal, as shares of the standard deviation and of the highest absolute score.
_LEAST_DEVIATION = 0.1
_ROUNDING = 1e-5


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


# ---- evidence ------------------------------------------------------------------------------------------


def spread(scores: np.ndarray, least: float = LEAST) -> float:
    """Return half of the distance between the 16 % and 84 % quantiles of a query's scores, `[queries, vectors]`.

    It is the mean over queries, and the standard deviation for a normal distribution. A few high scores, such as the
    scores of the document from which a sentence was sampled, do not change it. It is at least the share `least` of the
    highest absolute score, so that scores divided by it are at most about `1 / least`.

    >>> round(spread(np.array([[-2.0, -1.0, 0.0, 1.0, 2.0]])), 2)
    1.36
    """
    low, high = np.quantile(scores, [0.16, 0.84], axis=1)
    floor = least * float(np.abs(scores).max(initial=0))
    return max(float((high - low).mean()) / 2, floor, OF_ZEROS)


def lexical_evidence(log_odds: np.ndarray, *, few: bool = False) -> np.ndarray:
    """Return the lexical log-odds `[queries, documents]` minus their median over the documents.

    The mean excess of documents above the median is expected by chance. If it is less than 1, it is the unit: a query
    with uninformative terms still ranks documents, and the best of them may stand out. The unit is at least the share
    `LEAST` of the highest absolute excess, and 1 if there are `few` documents.

    >>> lexical_evidence(np.array([[6.0, 0.0, 0.0], [0.2, 0.0, 0.0]])).tolist()
    [[6.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    """
    if not log_odds.size:
        return log_odds
    excess = log_odds - np.median(log_odds, axis=1, keepdims=True)
    if few:
        return excess.astype(np.float32)
    above = excess > 0
    mean = np.where(above, excess, 0).sum(axis=1, keepdims=True) / np.maximum(
        above.sum(axis=1, keepdims=True), 1
    )
    least = np.clip(LEAST * np.abs(excess).max(axis=1, keepdims=True), 1e-6, 1)
    return (excess / np.clip(mean, least, 1)).astype(np.float32)


def surprise(scores: np.ndarray, sampled: np.ndarray | None = None, *, few: bool = False) -> np.ndarray:
    """Return the surprisal of scores `[queries, documents]` among the scores of all documents: `-ln(1 - Phi(z))`.

    `z` is the distance to the median in robust standard deviations. The best of N documents has about `ln N` by chance.
    The robust deviation is at least a tenth of the ordinary one, which takes its place if there are `few` documents: of
    many equal scores it is 0. Minus infinity stays.

    Args:
        scores: the scores.
        sampled: the scores of a sample of all documents, `[queries, sample]`; None if `scores` cover all.
        few: whether there are few documents.

    >>> surprise(np.array([[-1.0, 0.0, 1.0, 4.0]])).round().tolist()
    [[0.0, 0.0, 1.0, 4.0]]
    """
    if not scores.size:
        return scores
    sampled = scores if sampled is None else sampled
    low, middle, high = np.quantile(sampled, [0.16, 0.5, 0.84], axis=1)[..., None]
    deviation = sampled.std(axis=1, keepdims=True, dtype=np.float64)
    scale = np.maximum((high - low) / 2, _LEAST_DEVIATION * deviation)
    if few:
        scale = deviation
    # scores that differ by rounding are equal
    scale = np.maximum(scale, _ROUNDING * np.maximum(np.abs(sampled).max(axis=1, keepdims=True), 0.1))
    surprisal = -log_ndtr(-(scores - middle) / scale).astype(np.float32)
    return np.where(np.isneginf(scores), scores, surprisal)
