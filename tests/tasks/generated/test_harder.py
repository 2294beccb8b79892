"""Harder needles: the four documents of a group have the same words, so that only reading tells them apart."""

import random
import re
from collections import Counter, defaultdict

import pytest

from mteb_longembed.errors import UnknownNameError
from mteb_longembed.tasks import LongEmbedNeedle
from mteb_longembed.tasks.generated.harder import GROUP, KINDS, hidden_by, most_documents
from mteb_longembed.tasks.generated.haystack import Draws
from mteb_longembed.tasks.generated.languages import find_language, known_languages
from mteb_longembed.tasks.generated.synthetic import LENGTHS
from mteb_longembed.tasks.generated.variants import find_variant

EACH_KIND = pytest.mark.parametrize("kind", KINDS)
EACH_LANGUAGE = pytest.mark.parametrize("code", known_languages())

# set a version in _VERSIONS of synthetic.py where one of these changes
HASHES = {"distractors": "75395ea803bd", "twohop": "3c5163bca48c", "negation": "286969403a16"}


def hidden(kind: str, code: str = "eng"):
    return hidden_by(kind, find_language(code), Draws("any"), 100)


def bag(text: str) -> Counter:
    """Words in English and German; in Chinese, where words are not divided, characters."""
    return Counter(re.findall(r"[a-zà-ÿß]+|[一-鿿]", text.lower()))


@EACH_LANGUAGE
@EACH_KIND
def test_the_four_documents_of_a_group_hold_the_same_words_equally_often(kind: str, code: str) -> None:
    items = hidden(kind, code)
    for start in range(0, 100, GROUP):
        group = items[start : start + GROUP]
        bags = [bag(" ".join((item.text, *item.others))) for item in group]
        assert all(one == bags[0] for one in bags)
        assert len({frozenset((item.text, *item.others)) for item in group}) == GROUP


@EACH_LANGUAGE
@EACH_KIND
def test_a_hundred_documents_answer_a_hundred_different_questions(kind: str, code: str) -> None:
    assert most_documents(find_language(code)) == 100
    assert len({item.query for item in hidden(kind, code)}) == 100


def test_distractors_change_the_name_alone() -> None:
    """Only one document of the hundred speaks of the person asked for, each name of whom four have."""
    items = hidden("distractors")
    facts = []
    for item in items:
        texts = [item.text, *item.others]
        facts.append({re.fullmatch(r"(.+) spends every winter in \w+\.", text)[1] for text in texts})
    for number, item in enumerate(items):
        person = re.fullmatch(r"Where does (.+) spend every winter\?", item.query)[1]  # type: ignore[index]
        assert [i for i, known in enumerate(facts) if person in known] == [number]
        first, last = person.split()
        for name in (first, last):
            assert sum(name in " ".join(known).split() for known in facts) == GROUP


def test_two_sentences_together_answer_a_twohop_question_and_the_query_names_no_person() -> None:
    items = hidden("twohop")
    composed = []
    for item in items:
        sentences = [item.text, *item.others]
        owner = dict(text[:-1].split(" belongs to ") for text in sentences if "belongs" in text)
        town = dict(text[:-1].split(" comes from ") for text in sentences if "comes" in text)
        composed.append({(thing.lower(), town[person]) for thing, person in owner.items()})
    for number, item in enumerate(items):
        asked = re.fullmatch(r"Where does it say that (.+) belongs to someone from (.+)\?", item.query)
        assert asked is not None
        pair = (asked[1].lower(), asked[2])
        assert [i for i, known in enumerate(composed) if pair in known] == [number]


def test_the_person_asked_for_has_been_there_in_one_document_and_never_in_three() -> None:
    items = hidden("negation")
    for number, item in enumerate(items):
        asked = re.fullmatch(r"Where does it say that (.+) has been to (.+)\?", item.query)
        assert asked is not None
        claims = [
            (i, " never " in text)
            for i, one in enumerate(items)
            for text in (one.text, *one.others)
            if text.startswith(asked[1]) and asked[2] in text
        ]
        assert len(claims) == GROUP
        assert [i for i, denied in claims if not denied] == [number]


@EACH_KIND
def test_documents_are_as_long_as_those_of_plain_needles(kind: str) -> None:
    task = type(LongEmbedNeedle.variant(kind=kind))
    for length in LENGTHS[:4]:
        chars = [len(row["text"]) for row in task.generate(f"test_{length}")["corpus"]]
        assert sum(chars) / 100 == pytest.approx(LongEmbedNeedle.n_chars(length), rel=0.01)


@EACH_KIND
def test_sentences_stand_apart_at_sentence_ends_and_depth_tells_where_the_answer_is(kind: str) -> None:
    corpus = type(LongEmbedNeedle.variant(kind=kind, depth=0.5)).generate("test_2048")["corpus"]
    for item, row in zip(corpus.hidden, corpus, strict=True):
        for text in (item.text, *item.others):
            assert re.search(rf'(^|[.!?"]\s+){re.escape(text)}(\s|$)', row["text"]), text
        assert row["text"].index(item.text) / len(row["text"]) == pytest.approx(row["depth"], abs=0.1)
        assert row["depth"] == pytest.approx(0.5, abs=0.05)


@EACH_KIND
def test_their_data_never_change_unnoticed(kind: str) -> None:
    assert type(LongEmbedNeedle.variant(kind=kind)).content_hash(LENGTHS) == HASHES[kind]


def test_passkey_has_no_harder_form_and_an_unknown_kind_is_told() -> None:
    assert find_variant("LongEmbedPasskey-twohop") is None
    with pytest.raises(UnknownNameError, match="unknown kind of needle 'negations': did you mean 'negation'"):
        LongEmbedNeedle.variant(kind="negations")


@EACH_KIND
def test_a_model_that_only_matches_words_finds_one_in_four_and_a_reader_all(kind: str) -> None:
    """Slow oracles: a matcher that counts words, ties drawn by lot, and one that finds the sentence itself."""
    data = type(LongEmbedNeedle.variant(kind=kind)).generate("test_1024")
    answer = {item.query: {item.text, *item.others} for item in data["corpus"].hidden}
    texts = {row["id"]: row["text"] for row in data["corpus"]}
    bags = {name: bag(text) for name, text in texts.items()}
    lot = random.Random(0)
    matched: defaultdict[str, float] = defaultdict(float)
    for query in data["queries"]:
        (relevant,) = data["relevant_docs"][query["id"]]
        shared = {name: sum((bag(query["text"]) & words).values()) for name, words in bags.items()}
        best = [name for name, n in shared.items() if n == max(shared.values())]
        matched["words"] += lot.choice(best) == relevant
        sentences = answer[query["text"]]
        reading = [name for name, text in texts.items() if all(sentence in text for sentence in sentences)]
        matched["reader"] += reading == [relevant]
    assert matched["reader"] == 50
    assert matched["words"] <= 25
