"""Claims about the texts of the Needle task: the hundred facts and the essays that hide them."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

import pytest

import mteb_longembed

DATA = Path(mteb_longembed.__file__).parent / "tasks" / "data"
FACTS: list[dict[str, str]] = [
    json.loads(line) for line in (DATA / "needle_facts.jsonl").read_text(encoding="utf-8").splitlines()
]


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+(?:[,.'-][a-z0-9]+)*", text.lower())


STOP_WORDS = frozenset(
    words(
        "a about after all an and any are as at be been before between but by called can did do does each "
        "end for from had has have her his how in into is it its known like made make many more most much must "
        "name named not of on one only or out over own she he that the their them there they this to two "
        "up was we were what when where which while who whom whose will with would you your"
    )
)


def content_words(text: str) -> set[str]:
    return set(words(text)) - STOP_WORDS


def says(text: str, phrase: str) -> bool:
    return f" {' '.join(words(phrase))} " in f" {' '.join(words(text))} "


def bm25_ranks(
    queries: Sequence[str],
    documents: Sequence[str],
    shared: Sequence[str] = (),
    k1: float = 1.5,
    b: float = 0.75,
) -> list[int]:
    """Rank (1 is best) of document i for query i, each document being followed by the words of `shared`."""
    common = Counter(shared)
    counts = [Counter(words(document)) for document in documents]
    lengths = [len(shared) + count.total() for count in counts]
    mean_length, ranks = mean(lengths), []
    for target, query in enumerate(queries):
        scores = [0.0] * len(documents)
        for word in content_words(query):
            found = [count[word] + common[word] for count in counts]
            n_with = sum(n > 0 for n in found)
            idf = math.log(1 + (len(documents) - n_with + 0.5) / (n_with + 0.5))
            for i, n in enumerate(found):
                scores[i] += idf * n * (k1 + 1) / (n + k1 * (1 - b + b * lengths[i] / mean_length))
        # A tie counts against us.
        ranks.append(sum(score >= scores[target] for score in scores))
    return ranks


def test_there_are_a_hundred_numbered_facts() -> None:
    assert [fact["id"] for fact in FACTS] == [f"fact-{n:03d}" for n in range(1, 101)]
    assert all(set(fact) == {"id", "topic", "fact", "query", "answer"} for fact in FACTS)
    assert len({fact["topic"] for fact in FACTS}) >= 15


@pytest.mark.parametrize("field", ["fact", "query", "answer"])
def test_no_fact_query_or_answer_occurs_twice(field: str) -> None:
    assert len({" ".join(words(fact[field])) for fact in FACTS}) == len(FACTS)


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact["id"])
def test_a_fact_is_one_sentence_that_holds_its_answer(fact: dict[str, str]) -> None:
    assert fact["fact"].isascii() and fact["query"].isascii()
    assert re.fullmatch(r"[A-Z][^?!]*\.", fact["fact"]) and ". " not in fact["fact"]
    assert re.fullmatch(r"[A-Z][^?!]*\?", fact["query"])
    assert says(fact["fact"], fact["answer"])
    assert not says(fact["query"], fact["answer"])


def test_lengths_are_those_of_the_published_queries() -> None:
    facts = [len(fact["fact"]) for fact in FACTS]
    queries = [len(fact["query"]) for fact in FACTS]
    assert min(facts) >= 60 and max(facts) <= 110 and 80 <= mean(facts) <= 90
    assert min(queries) >= 30 and max(queries) <= 95 and 55 <= mean(queries) <= 62


def test_no_query_is_answered_by_a_second_fact() -> None:
    """Another fact may share a query's words or hold its answer, never both."""
    twice = [
        (asked["id"], other["id"])
        for asked in FACTS
        for other in FACTS
        if other is not asked
        and says(other["fact"], asked["answer"])
        and content_words(asked["query"]) & content_words(other["fact"])
    ]
    assert twice == []


def test_queries_paraphrase_rather_than_quote() -> None:
    """A query repeats some words of its fact, so that BM25 can find it, and is not a copy of it."""
    shares = [
        len(content_words(fact["query"]) & content_words(fact["fact"])) / len(content_words(fact["query"]))
        for fact in FACTS
    ]
    assert min(shares) >= 0.2 and mean(shares) < 0.8


def test_bm25_finds_at_least_95_of_the_bare_facts() -> None:
    ranks = bm25_ranks([fact["query"] for fact in FACTS], [fact["fact"] for fact in FACTS])
    assert ranks.count(1) >= 95
