"""The generated data mean what the paper's data mean. `test_regression.py` holds them by their hashes."""

import re
from statistics import mean

import mteb
import pytest
import Stemmer

from mteb_longembed.tasks import LongEmbedNeedle, LongEmbedPasskey
from mteb_longembed.tasks.generated.needle import PUBLISHED_CHARS, facts, paragraphs
from mteb_longembed.tasks.generated.synthetic import LENGTHS
from tests.own_data import bm25

# Mean characters of the published data, documents and queries (mteb's statistics of LEMBPasskey- and
# LEMBNeedleRetrieval), and what we allow: characters of Passkey, shares of Needle.
PASSKEY = (875.24, 1785.19, 3607.18, 7242.19, 14518.16, 29071.16, 58174.16, 116380.16)
PASSKEY_QUERIES = (38.1, 37.76, 37.68, 37.8, 37.64, 37.54, 38.12, 37.74)
NEEDLE_QUERIES = (60.48, 57.3, 58.28, 59.92, 55.86, 59.6, 59.12, 58.34)
STEMMER = Stemmer.Stemmer("english")


@pytest.mark.parametrize("number", range(8))
def test_lengths_are_near_the_published_ones(number: int) -> None:
    def means(task) -> tuple[float, float]:
        data = task.generate(f"test_{LENGTHS[number]}")
        return tuple(mean(len(row["text"]) for row in data[kind]) for kind in ("corpus", "queries"))

    documents, queries = means(LongEmbedPasskey)
    assert abs(documents - PASSKEY[number]) <= 2 and abs(queries - PASSKEY_QUERIES[number]) <= 1
    documents, queries = means(LongEmbedNeedle)
    assert documents == pytest.approx(PUBLISHED_CHARS[LENGTHS[number]], rel=0.01)
    assert queries == pytest.approx(NEEDLE_QUERIES[number], rel=0.1)


@pytest.mark.parametrize(
    "task", [LongEmbedPasskey, LongEmbedNeedle, type(LongEmbedNeedle.variant(kind="paraphrase"))]
)
@pytest.mark.parametrize("length", [256, 32768])
def test_only_the_relevant_document_has_what_answers(task, length) -> None:
    split = f"test_{length}"
    data = task.generate(split)
    texts = {row["id"]: row["text"] for row in data["corpus"]}
    queries = {query["id"]: query["text"] for query in data["queries"]}
    assert len(set(texts.values())) == 100 and len(set(queries.values())) == len(queries) == 50
    for query, relevant in data["relevant_docs"].items():
        (document,) = relevant
        item = data["corpus"].hidden[int(document[1:])]
        answer = item.text
        assert {name for name, text in texts.items() if answer in text} == {document}
        assert queries[query] == item.query
        if task is LongEmbedPasskey:
            person = queries[query].removeprefix("what is the pass key for ").removesuffix("?")
            assert answer.startswith(f"{person}'s pass key is ")


def words(text: str) -> str:
    return f" {' '.join(re.findall(r'[a-z0-9]+', text.lower()))} "


def test_a_fact_holds_its_answer_which_neither_its_question_nor_an_essay_gives_away() -> None:
    essays = words(" ".join(paragraphs()))
    assert len(facts()) == 100
    for item in facts():
        answer = words(item.answer)
        assert answer in words(item.text) and answer not in words(item.query) and answer not in essays


def test_no_paraphrase_shares_a_stem_with_its_fact() -> None:
    """The hundred pairs were read one by one: each fact answers its question for a reader, and no other one does."""

    def stems(text: str) -> set[str]:
        return set(STEMMER.stemWords(re.findall(r"\w+", text.lower())))

    pairs = facts("paraphrase")
    assert len({pair.text for pair in pairs}) == len({pair.query for pair in pairs}) == 100
    assert not [pair for pair in pairs if stems(pair.text) & stems(pair.query)]
    task = mteb.get_task("LongEmbedNeedle-paraphrase-queries100").filter_eval_splits(["test_1024"])
    assert bm25(task).scores["test_1024"][0]["ndcg_at_1"] <= 0.05


@pytest.mark.long  # the data are held by their hash
def test_bm25_scores_as_in_the_papers_table() -> None:
    scores = {split: rows[0]["main_score"] for split, rows in bm25(LongEmbedPasskey()).scores.items()}
    assert scores == {f"test_{length}": 1.0 for length in LENGTHS}
    assert 0.93 <= bm25(LongEmbedNeedle()).get_score() <= 0.97
