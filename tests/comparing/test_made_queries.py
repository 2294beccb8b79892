from __future__ import annotations

import pytest

from mteb_longembed.comparing.documents import make_queries
from mteb_longembed.errors import DataError


def story(n: int, start: int = 0) -> str:
    return " ".join(
        f"The keeper number {i} walked past the old gate {i * 7} with lamp {i + 3}." for i in range(start, n)
    )


def test_each_query_is_a_sentence_of_the_document_that_answers_it() -> None:
    corpus = {"a": story(10), "b": story(30, 20)}
    queries, relevant = make_queries(corpus)
    assert len(queries) == 2
    for name, text in queries.items():
        (document,) = relevant[name]
        assert text in corpus[document] and not any(text in corpus[d] for d in corpus if d != document)


def test_near_duplicates_are_left_out() -> None:
    corpus = {
        "a": story(10),
        "copy": story(10) + " One more sentence stands here at the very end.",
        "b": story(30, 20),
    }
    _, relevant = make_queries(corpus)
    assert list(relevant.values()) == [{"b": 1}]


def test_the_draw_is_the_same_for_the_same_seed() -> None:
    corpus = {str(i): story(10 * i + 10, 10 * i) for i in range(8)}
    assert make_queries(corpus, 4) == make_queries(corpus, 4) != make_queries(corpus, 4, seed=1)
    assert len(make_queries(corpus, 4)[0]) == 4


def test_documents_without_a_sentence_say_so() -> None:
    with pytest.raises(DataError, match="none of the 2 documents has one"):
        make_queries({"a": "too short.", "b": ""})
