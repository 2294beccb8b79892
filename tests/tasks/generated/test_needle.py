"""LongEmbedNeedle: facts in essays, each query answered by one document."""

import re
from statistics import mean

import pytest

from mteb_longembed.tasks import LongEmbedNeedle
from mteb_longembed.tasks.generated.needle import PUBLISHED_CHARS, facts, paragraphs, split_sentences
from mteb_longembed.tasks.generated.synthetic import LENGTHS
from tests.own_data import bm25

# Mean characters of the published queries (mteb, LEMBNeedleRetrieval).
QUERIES = (60.48, 57.3, 58.28, 59.92, 55.86, 59.6, 59.12, 58.34)


@pytest.mark.parametrize(("length", "query"), list(zip(LENGTHS, QUERIES, strict=True)))
def test_character_statistics_are_near_the_published_ones(length: int, query: float) -> None:
    """Documents within one percent."""
    data = LongEmbedNeedle.generate(f"test_{length}")
    documents, queries = (mean(len(row["text"]) for row in data[kind]) for kind in ("corpus", "queries"))
    assert documents == pytest.approx(PUBLISHED_CHARS[length], rel=0.01)
    assert queries == pytest.approx(query, rel=0.1)


@pytest.mark.parametrize("length", LENGTHS)
def test_a_fact_is_in_the_relevant_document_and_in_no_other(length: int) -> None:
    data = LongEmbedNeedle.generate(f"test_{length}")
    texts = {row["id"]: row["text"] for row in data["corpus"]}
    by_query = {item.query: item.fact for item in facts()}
    for query in data["queries"]:
        holding = {name for name, text in texts.items() if by_query[query["text"]] in text}
        assert holding == set(data["relevant_docs"][query["id"]])


def test_no_essay_gives_a_needles_answer_away() -> None:
    text = " ".join(paragraphs())
    assert [item.answer for item in facts() if re.search(rf"\b{re.escape(item.answer)}\b", text)] == []


def words(text: str) -> str:
    return f" {' '.join(re.findall(r'[a-z0-9]+', text.lower()))} "


def test_a_hundred_different_facts_are_one_sentence_each_that_holds_its_answer() -> None:
    known = facts()
    for texts in zip(*((item.fact, item.query, item.answer) for item in known), strict=True):
        assert len(set(map(words, texts))) == 100
    for item in known:
        assert re.fullmatch(r"[A-Z][^?!]*\.", item.fact) and ". " not in item.fact
        assert re.fullmatch(r"[A-Z][^?!]*\?", item.query)
        assert words(item.answer) in words(item.fact) and words(item.answer) not in words(item.query)


def test_the_documents_of_a_split_share_one_text() -> None:
    """As in the published data: they differ by the needle alone."""
    corpus = LongEmbedNeedle.generate("test_512")["corpus"]
    known = [item.fact for item in facts()]
    rests = set()
    for row in corpus:
        fact = next(fact for fact in known if fact in row["text"])
        rests.add(" ".join(row["text"].replace(fact, "").split()))
    assert len(rests) == 1


@pytest.mark.long  # the data are held by their hash
def test_bm25_scores_as_the_paper_says() -> None:
    """The paper's table: 95.3 as the mean of the eight lengths."""
    assert 0.93 <= bm25(LongEmbedNeedle()).get_score() <= 0.97


@pytest.mark.parametrize(
    ("paragraph", "sentences"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("He said “no.” She left.", ["He said “no.”", "She left."]),
        ("It cost 3.50 today. We paid.", ["It cost 3.50 today.", "We paid."]),
        ("Dr. Voss came. Mr. Lund left.", ["Dr. Voss came.", "Mr. Lund left."]),
        ("Fruit, e.g. Apples and pears.", ["Fruit, e.g. Apples and pears."]),
        ("no end", ["no end"]),
    ],
)
def test_sentences_end_where_a_reader_says(paragraph: str, sentences: list[str]) -> None:
    parts = split_sentences(paragraph)
    assert [sentence.strip() for sentence in parts] == sentences
    assert "".join(parts) == paragraph + "\n\n"
