"""BM25 from an inverted index: equal to loops over texts of term ids, by hand, and after texts come and go."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from scipy import sparse

from mteb_longembed.retrieval.postings import Postings, QueryTerms

#: Term ids of each text.
TEXTS = [
    [0, 1, 2, 3, 5, 6, 7],
    [0, 0, 3, 5, 7],
    [1, 1, 1, 6],
    [],
    [0, 2, 4, 6, 6],
    [5],
    [8, 0, 2, 3, 9, 9],
    [8, 8, 1, 1],
]
#: First and last text and number of terms of each call: ever fewer postings, so that each is a block of its own.
CALLS = [(0, 6, 8), (6, 7, 10), (7, 8, 10)]
TEXT_BY_TEXT = [(i, i + 1, 10) for i in range(8)]
#: Each term of a query matches these terms.
ALONE: list[Mapping[int, float]] = [{term: 1.0} for term in range(10)]
NEAR: list[Mapping[int, float]] = [
    {term: 1.0, (3 * term + 1) % 10: 0.4, (term + 5) % 10: 0.3} for term in range(10)
]
TWO: list[Mapping[int, float]] = [{term: 1.0, (term + 5) % 10: 0.9} for term in range(10)]
QUERIES = [[0, 6], [9, 9, 3], [], [8, 1, 5, 5, 5, 6]]


def made(texts: Sequence[Sequence[int]] = TEXTS, calls: Sequence[tuple[int, int, int]] = CALLS) -> Postings:
    postings = Postings()
    for first, last, n_terms in calls:
        postings.append([np.array(row, np.int32) for row in texts[first:last]], n_terms)
    return postings


def query_terms(
    queries: Sequence[Sequence[int]], matches: Sequence[Mapping[int, float]], n: int = 10
) -> QueryTerms:
    """The terms of queries, with their matches among the terms 0 to `n - 1`."""
    terms = sorted({term for query in queries for term in query})
    counts = np.array([[query.count(term) for term in terms] for query in queries], np.float32)
    weights = np.array([[matches[term].get(other, 0) for other in range(n)] for term in terms], np.float32)
    return QueryTerms(
        list(map(str, terms)),
        np.array(terms, int),
        sparse.csr_array(counts.reshape(len(queries), len(terms))),
        sparse.csr_array(weights.reshape(len(terms), n)),
    )


def by_loops(
    texts: Sequence[Sequence[int]], queries: Sequence[Sequence[int]], matches: Sequence[Mapping[int, float]]
) -> list[list[float]]:
    """Lucene's BM25 with k1 = 1.5 and b = 0.75; of the terms that a term matches, the best one counts."""
    mean = sum(map(len, texts)) / len(texts)

    def idf(term: int) -> float:
        n = sum(term in text for text in texts)
        return math.log(1 + (len(texts) - n + 0.5) / (n + 0.5))

    def score(text: Sequence[int], term: int) -> float:
        found = [0.0]
        for other, weight in matches[term].items():
            frequency = text.count(other) / (text.count(other) + 1.5 * (0.25 + 0.75 * len(text) / mean))
            found.append(weight * min(idf(term), idf(other)) * frequency)
        return max(found)

    return [[sum(score(text, term) for term in query) for text in texts] for query in queries]


@pytest.mark.parametrize(("calls", "n_blocks"), [(CALLS, 3), (TEXT_BY_TEXT, 3)])
@pytest.mark.parametrize("matches", [ALONE, NEAR, TWO])
def test_scores_equal_loops_in_blocks_for_one_query_and_for_several(matches, calls, n_blocks) -> None:
    postings = made(TEXTS, calls)
    assert len(postings._blocks) == n_blocks and len(postings) == 8
    want = np.array(by_loops(TEXTS, QUERIES, matches))
    assert postings.scores(query_terms(QUERIES, matches)) == pytest.approx(want, abs=1e-6)
    for query, row in zip(QUERIES, want, strict=True):
        assert postings.scores(query_terms([query], matches))[0] == pytest.approx(row, abs=1e-6)


def test_a_score_and_idfs_are_those_by_hand() -> None:
    postings = made([[0, 0, 1], [1]], [(0, 2, 2)])
    # idf = ln(1 + 1.5 / 1.5), and 1.5 * (0.25 + 0.75 * 3 / 2) = 2.0625
    assert postings.scores(query_terms([[0]], ALONE, 2)).tolist() == [
        pytest.approx([math.log(2) * 2 / 4.0625, 0])
    ]
    assert postings.idf.tolist() == pytest.approx([math.log(2), math.log(1.2)])
    assert postings.idf_of(np.array([1, -1])).tolist() == pytest.approx([math.log(1.2), math.log(6)])


def test_many_texts_of_few_terms_are_scored_for_a_later_term() -> None:
    texts = [*[[0]] * 6, [1]]
    got = made(texts, [(0, 6, 1), (6, 7, 2)]).scores(query_terms([[1, 0]], ALONE, 2))
    assert got == pytest.approx(np.array(by_loops(texts, [[1, 0]], ALONE)))


def test_what_stays_scores_as_if_there_had_never_been_more() -> None:
    # no text of the second call stays, and no text that stays has term 4 or 9
    texts = np.array([True, True, True, True, False, True, False, True])
    terms = np.array([True] * 4 + [False] + [True] * 4 + [False])
    postings = made()
    postings.keep(texts, terms)
    ids = {old: new for new, old in enumerate(np.flatnonzero(terms).tolist())}
    kept = [
        [ids[term] for term in text if term in ids] for text, stays in zip(TEXTS, texts, strict=True) if stays
    ]
    fresh = made(kept, [(0, 6, 8)])
    assert postings.idf.tolist() == fresh.idf.tolist() and postings.highest_idf == fresh.highest_idf
    query = query_terms([[0, 5], [7, 7]], ALONE, 8)
    assert postings.scores(query) == pytest.approx(fresh.scores(query), abs=1e-6)
    assert postings.has(5, np.array([7, 0])).tolist() == [True, False]


def test_saved_postings_score_as_before_and_know_the_terms_of_each_text() -> None:
    postings = made()
    restored = Postings()
    restored.restore(dict(postings.state()))
    assert np.array_equal(
        restored.scores(query_terms(QUERIES, NEAR)), postings.scores(query_terms(QUERIES, NEAR))
    )
    terms = np.array([9, 0, 6])
    for index, text in enumerate(TEXTS):
        assert restored.has(index, terms).tolist() == [term in text for term in terms]


def test_without_texts_or_terms_there_are_no_scores() -> None:
    assert Postings().scores(query_terms([[]], ALONE, 0)).shape == (1, 0)
    assert made([[], []], [(0, 2, 1)]).scores(query_terms([[0]], ALONE, 1)).tolist() == [[0, 0]]
