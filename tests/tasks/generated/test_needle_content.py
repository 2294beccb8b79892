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

DATA = Path(mteb_longembed.__file__).parent / "tasks" / "generated" / "data"
FACTS: list[dict[str, str]] = [
    json.loads(line) for line in (DATA / "needle_facts.jsonl").read_text(encoding="utf-8").splitlines()
]


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+(?:[,.'-][a-z0-9]+)*", text.lower())


STOP_WORDS = frozenset(
    words(
        "a about after all an and any are as at be been before between but by called can did do does each "
        "end for from had has have her his how in into is it its known like made make many more most much "
        "must name named not of on one only or out over own she he that the their them there they this to "
        "two up was we were what when where which while who whom whose will with would you your"
    )
)


def content_words(text: str) -> set[str]:
    return set(words(text)) - STOP_WORDS


def says(text: str, phrase: str) -> bool:
    return f" {' '.join(words(phrase))} " in f" {' '.join(words(text))} "


def sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.?!]) +", text)


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


ESSAYS: dict[str, str] = {
    path.name: path.read_text(encoding="utf-8") for path in sorted((DATA / "essays").glob("*.txt"))
}
PARAGRAPHS = [(name, text) for name, essay in ESSAYS.items() for text in essay.rstrip("\n").split("\n\n")]
ESSAY_WORDS = [word for _, text in PARAGRAPHS for word in words(text)]
DAYS_AND_MONTHS = re.compile(
    r"((Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?|Christmas|January|February|March|April|May|June|July|August"
    r"|(Sept|Nov|Dec)ember|October)"
)


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
    """Queries repeat some words of their facts; four use other words only (BM25: 95)."""
    shares = [
        len(content_words(fact["query"]) & content_words(fact["fact"])) / len(content_words(fact["query"]))
        for fact in FACTS
    ]
    assert shares.count(0.0) == 4
    assert 0.5 < mean(shares) < 0.7


def test_bm25_finds_at_least_95_of_the_bare_facts() -> None:
    ranks = bm25_ranks([fact["query"] for fact in FACTS], [fact["fact"] for fact in FACTS])
    assert ranks.count(1) >= 95


def test_a_document_of_32k_tokens_needs_no_essay_twice() -> None:
    assert sum(len(text.split()) for _, text in PARAGRAPHS) >= 32 * 1024 * 3 // 4


@pytest.mark.parametrize("name", ESSAYS)
def test_an_essay_is_plain_paragraphs_between_blank_lines(name: str) -> None:
    essay = ESSAYS[name]
    assert re.fullmatch(r"\d\d-[a-z]+(?:-[a-z]+)*\.txt", name)
    assert re.fullmatch(r"[A-Za-z ,.;:?!'\n-]+\n", essay), (
        "plain letters and punctuation, no digits, no quotes"
    )
    assert "  " not in essay and "\n\n\n" not in essay
    assert 1_100 <= len(essay.split()) <= 1_400
    for paragraph in essay.rstrip("\n").split("\n\n"):
        assert re.fullmatch(r"[A-Z].*[.?!]", paragraph), "a paragraph is one line of whole sentences"
        assert 60 <= len(paragraph.split()) <= 140
        assert len(sentences(paragraph)) >= 3


def test_no_sentence_of_the_essays_occurs_twice() -> None:
    counts = Counter(sentence for _, text in PARAGRAPHS for sentence in sentences(text))
    assert [sentence for sentence, n in counts.items() if n > 1] == []
    assert len(counts) > 1_500


def test_the_essays_hardly_ever_repeat_eight_words() -> None:
    runs = list(zip(*(ESSAY_WORDS[i:] for i in range(8)), strict=False))
    assert len(set(runs)) / len(runs) > 0.99


def test_the_essays_name_nobody_and_no_place() -> None:
    names = {
        word
        for _, text in PARAGRAPHS
        for sentence in sentences(text)
        for word in re.findall(r"[A-Za-z']+", sentence)[1:]
        if word[0].isupper() and word.split("'")[0] != "I"
    }
    assert {name for name in names if not DAYS_AND_MONTHS.fullmatch(name)} == set()


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact["id"])
def test_the_essays_neither_answer_nor_drown_a_query(fact: dict[str, str]) -> None:
    """No essay holds the answer, and if query and fact share a word, then one that no essay uses."""
    assert not says(" ".join(ESSAY_WORDS), fact["answer"])
    shared = content_words(fact["query"]) & content_words(fact["fact"])
    assert not shared or shared - set(ESSAY_WORDS)


def test_most_queries_share_two_words_with_their_fact_alone() -> None:
    vocabulary = set(ESSAY_WORDS)
    shared = [(content_words(fact["query"]) & content_words(fact["fact"])) - vocabulary for fact in FACTS]
    assert sum(len(found) >= 2 for found in shared) >= 85


def test_bm25_finds_at_least_95_of_the_facts_behind_all_the_essays() -> None:
    ranks = bm25_ranks([fact["query"] for fact in FACTS], [fact["fact"] for fact in FACTS], ESSAY_WORDS)
    assert ranks.count(1) >= 95
