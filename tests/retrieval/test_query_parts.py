"""What is asked for each query."""

import numpy as np

from mteb_longembed.retrieval.query_parts import QueryParts

QUERIES = ["Where is it? It was here.", "Who?"]


def test_without_a_rule_each_query_is_its_only_part() -> None:
    parts = QueryParts.of(QUERIES, None)
    assert parts.texts == QUERIES and parts.counts == [1, 1]


def test_sentences_of_all_queries_are_split_back_into_one_matrix_a_query() -> None:
    parts = QueryParts.of(QUERIES, "sentences")
    assert parts.texts == ["Where is it?", "It was here.", "Who?"]
    rows = np.arange(6.0).reshape(3, 2)
    of_queries = parts.split(rows)
    assert [part.tolist() for part in of_queries] == [[[0, 1], [2, 3]], [[4, 5]]]
