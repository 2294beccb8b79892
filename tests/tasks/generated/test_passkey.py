"""LongEmbedPasskey means what the paper's Passkey means."""

import re
from statistics import mean

import pytest

from mteb_longembed.tasks import LongEmbedPasskey
from mteb_longembed.tasks.generated.passkey import texts
from mteb_longembed.tasks.generated.synthetic import LENGTHS
from tests.own_data import bm25

ENGLISH = texts()
FILLER = ENGLISH.filler

# Characters of the published data: shortest, mean and longest document; mean query (LEMBPasskeyRetrieval).
PUBLISHED = {
    256: (866, 875.24, 890, 38.1),
    512: (1776, 1785.19, 1800, 37.76),
    1024: (3598, 3607.18, 3622, 37.68),
    2048: (7233, 7242.19, 7257, 37.8),
    4096: (14509, 14518.16, 14533, 37.64),
    8192: (29062, 29071.16, 29086, 37.54),
    16384: (58165, 58174.16, 58189, 38.12),
    32768: (116371, 116380.16, 116395, 37.74),
}


@pytest.mark.parametrize("length", LENGTHS)
def test_character_statistics_meet_the_published_ones(length: int) -> None:
    data = LongEmbedPasskey.generate(f"test_{length}")
    shortest, average, longest, query = PUBLISHED[length]
    chars = [len(row["text"]) for row in data["corpus"]]
    assert abs(min(chars) - shortest) <= 10
    assert abs(mean(chars) - average) <= 2
    assert abs(max(chars) - longest) <= 20
    assert abs(mean(len(row["text"]) for row in data["queries"]) - query) <= 1


@pytest.mark.parametrize("length", [256, 32768])
def test_only_the_relevant_document_tells_the_key_of_the_person_asked_for(length: int) -> None:
    data = LongEmbedPasskey.generate(f"test_{length}")
    texts = {row["id"]: row["text"] for row in data["corpus"]}
    for query in data["queries"]:
        person = query["text"].removeprefix("what is the pass key for ").removesuffix("?")
        telling = {name for name, text in texts.items() if f"{person}'s pass key is" in text}
        assert telling == set(data["relevant_docs"][query["id"]])


def test_all_else_is_the_papers_filler() -> None:
    text = LongEmbedPasskey.generate("test_1024")["corpus"][3]["text"]
    rest = re.sub(r"\S+ \S+'s pass key is (\d+)\. Remember it\. \1 is the pass key for [^.]+\. ?", "", text)
    assert rest.startswith(("".join(FILLER) * 2)[:100])
    assert set(rest.split()) == set("".join(FILLER).split())


@pytest.mark.long  # the data are held by their hash
def test_bm25_finds_every_key_at_every_length() -> None:
    """As in the paper's table: BM25 scores 100."""
    scores = {split: rows[0]["main_score"] for split, rows in bm25(LongEmbedPasskey()).scores.items()}
    assert scores == {f"test_{length}": 1.0 for length in LENGTHS}
