"""Words: as in mteb's BM25 in English, whole letters in every script, the same for each Unicode form."""

import unicodedata

import bm25s
import pytest
import Stemmer
from hypothesis import example, given
from hypothesis import strategies as st

import mteb_longembed as longembed
from mteb_longembed.retrieval.analyzer import Analyzer, Language
from tests.own_data import terms_of


def terms_of_mteb(texts: list[str]) -> list[list[str]]:
    stemmer = Stemmer.Stemmer("english")
    cut: list[list[str]] = bm25s.tokenize(
        texts, stopwords="en", stemmer=stemmer, show_progress=False, return_ids=False
    )
    return cut


@example("The lamps of O'Brien's house were lit; x = 3.5 and snake_case, e-mail!")
@example("the of and")
@example("Running runs ran; 2nd half of “quotes”")
@given(st.text(st.characters(max_codepoint=0x24F, exclude_categories=["Cs", "Cf", "No"]), max_size=40))
def test_english_and_latin_words_are_those_of_mtebs_bm25(text: str) -> None:
    if not set("İĿŀŉ") & set(text):  # their other forms have a mark or a sign, at which mteb cuts
        composed = unicodedata.normalize("NFKC", text)
        assert terms_of([text], "eng-Latn") == terms_of_mteb([composed])


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("jpn-Jpan", "東京タワー。", ["東", "京", "タ", "ワ", "ー"]),
        ("zho-Hans", "中文和English", ["中", "文", "english"]),  # 和 is a stop word
        ("tha-Thai", "ดีมาก", ["ดี", "ม", "า", "ก"]),
        ("eng-Latn", "read 東京 now", ["read", "東", "京", "now"]),
        ("ben-Beng", "কলকাতা", ["কলকাতা"]),
    ],
)
def test_marks_belong_to_letters_and_scripts_without_blanks_are_cut(language, text, expected) -> None:
    assert terms_of([text], language) == [expected]


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("deu-Latn", "Müller", "Mu\u0308ller"),
        ("ara-Arab", "كِتَاب", "كتاب"),  # with vowel marks and without
        ("tam-Taml", "கொ", "க\u0bc6\u0bbe"),
        ("eng-Latn", "fireplace office", "\ufb01replace o\ufb03ce"),  # letters that are two or three
        ("eng-Latn", "fireplace", "fire\u00adplace"),
        ("eng-Latn", "lighthouse", "light\u00ad\r\n  house"),  # a page that was set in lines
        ("eng-Latn", "fireplace", "\ufefffire\u200bpl\u2060ace\ufeff"),
        ("eng-Latn", "H2O and CO2", "H₂O and CO²"),
        ("eng-Latn", "hello", "𝐡𝐞𝐥𝐥𝐨"),
        ("eng-Latn", "istanbul", "İSTANBUL"),
        ("tur-Latn", "ışık istanbul", "IŞIK İSTANBUL"),
        ("fas-Arab", "میخواهم", "می\u200cخواهم"),
        ("jpn-Jpan", "ガラス", "ｶﾞﾗｽ"),
    ],
)
def test_words_are_the_same_however_they_are_typed(language: str, one: str, other: str) -> None:
    assert terms_of([one], language) == terms_of([other], language)


def test_a_passage_of_a_text_with_ligatures_is_that_of_the_text() -> None:
    texts = [
        "Nothing was there. " * 30 + "The fire\u00adplace of the o\ufb03ce is cold. " + "It rained. " * 50,
        "moss",
    ]
    searcher = longembed.search("bm25:window=20")
    searcher.add(["a", "b"], texts)
    for query in ("fireplace", "office"):
        (hit,) = searcher.search(query)
        assert "fire\u00adplace of the o\ufb03ce" in hit.passage
        assert hit.passage == texts[0][hit.start : hit.end] == hit.passage.strip()


def test_the_form_of_a_word_is_the_one_that_is_read_most_often() -> None:
    analyzer = Analyzer(Language.of("eng-Latn"))
    analyzer.analyze("Lighted lights. The light of Lights was the lights")
    assert analyzer.forms()[analyzer.vocabulary["light"]] == "lights"


def test_a_forgotten_text_leaves_the_forms_and_terms_of_the_others() -> None:
    texts = ["lights of the house", "lights and lighted lamps", "light"]
    analyzer = Analyzer(Language.of("eng-Latn"))
    for text in texts:
        analyzer.analyze(text)
    analyzer.forget(texts[1])
    kept = analyzer.drop_unused()
    other = Analyzer(Language.of("eng-Latn"))
    for text in (texts[0], texts[2]):
        other.analyze(text)
    assert analyzer.vocabulary == other.vocabulary == {"light": 0, "hous": 1}
    assert analyzer.forms() == other.forms() and kept.tolist() == [True, True, False]
    # a form that is gone is new again
    again = "new lamps and lighted lights"
    assert analyzer.analyze(again).ids.tolist() == other.analyze(again).ids.tolist() == [2, 3, 0, 0]
    assert analyzer.known_forms == other.known_forms


def test_languages_have_the_stemmer_and_the_stop_words_of_mtebs_bm25() -> None:
    from mteb.models.model_implementations.bm25 import _ISO3_TO_LANG

    for code in (*_ISO3_TO_LANG, "pol"):
        stop_words, stemmer, _ = _ISO3_TO_LANG.get(code, (None, None, None))
        found = Language.of(f"{code}-Latn")
        assert found.stemmer == stemmer
        assert found.stop_words == frozenset(
            bm25s.tokenization.Tokenizer(stopwords=stop_words or []).stopwords
        )
