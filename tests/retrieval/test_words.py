"""Words: those of mteb's BM25 in English, whole letters in every script, the same for each Unicode form."""

import unicodedata

import bm25s
import pytest
import Stemmer
from hypothesis import given
from hypothesis import strategies as st

from mteb_longembed.retrieval.words import Words
from tests.own_data import words_of

ENGLISH = [
    "The lamps of O'Brien's house were lit; x = 3.5 and snake_case, e-mail!",
    "A naïve café in İstanbul's ﬁrst district",
    "",
    "the of and",
    "Running runs ran; 2nd half² of “quotes”",
]


def words_of_mteb(texts: list[str]) -> list[list[str]]:
    stemmer = Stemmer.Stemmer("english")
    cut: list[list[str]] = bm25s.tokenize(
        texts, stopwords="en", stemmer=stemmer, show_progress=False, return_ids=False
    )
    return cut


def test_english_words_are_those_of_mtebs_bm25() -> None:
    assert words_of(ENGLISH[:1] + ENGLISH[2:], "eng-Latn") == words_of_mteb(ENGLISH[:1] + ENGLISH[2:])


@given(st.text(st.characters(max_codepoint=0x24F, exclude_categories=["Cs", "Cf"]), max_size=40))
def test_latin_words_are_those_of_mtebs_bm25(text: str) -> None:
    if "İ" not in text:  # its lower case has a mark, at which mteb cuts
        composed = unicodedata.normalize("NFC", text)
        assert words_of([text], "eng-Latn") == words_of_mteb([composed])


def test_a_document_and_a_query_have_the_same_words() -> None:
    for language, text in (("eng-Latn", ENGLISH[0]), ("jpn-Jpan", "東京タワーはBM25"), ("hin-Deva", "हिन्दी")):
        words = Words(language)
        names = list(words.numbers)
        ids = words.read(text).ids
        names = list(words.numbers)
        assert [names[number] for number in ids] == [asked.word for asked in words.of_query(text)]


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("jpn-Jpan", "東京タワー。", ["東", "京", "タ", "ワ", "ー"]),
        ("zho-Hans", "中文和English", ["中", "文", "english"]),  # 和 is a stop word
        ("tha-Thai", "ดีมาก", ["ดี", "ม", "า", "ก"]),
        ("khm-Khmr", "ភាសា", ["ភា", "សា"]),
        ("eng-Latn", "read 東京 now", ["read", "東", "京", "now"]),
        ("ben-Beng", "কলকাতা", ["কলকাতা"]),
        ("fas-Arab", "می‌خواهم", ["می‌خواهم"]),
        ("pol-Latn", "Wrocław jest piękny", ["wrocław", "jest", "piękny"]),
        ("jpn-Jpan", "ＢＭ２５", ["bm25"]),
    ],
)
def test_marks_belong_to_letters_and_scripts_without_blanks_are_cut(language, text, expected) -> None:
    assert words_of([text], language) == [expected]


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("deu-Latn", "Müller", "Mu\u0308ller"),
        ("ara-Arab", "كِتَاب", "كتاب"),  # with vowel marks and without
        ("tam-Taml", "கொ", "க\u0bc6\u0bbe"),
    ],
)
def test_words_are_the_same_however_they_are_typed(language: str, one: str, other: str) -> None:
    assert words_of([one], language) == words_of([other], language)


def test_starts_and_pieces_are_places_in_the_text_as_it_was_given() -> None:
    text = "  Mu\u0308ller sah 東京。 Dann"
    cut = Words("deu-Latn").read(text)
    assert [text[start:end] for start, end in cut.pieces] == ["Mu\u0308ller", "sah", "東", "京。", "Dann"]
    assert [text[start] for start in cut.starts] == ["M", "s", "東", "京"]


def test_the_form_of_a_word_is_the_one_that_is_read_most_often() -> None:
    words = Words("eng-Latn")
    words.read("Lighted lights. The light of Lights was the lights")
    assert words.forms()[words.numbers["light"]] == "lights"
