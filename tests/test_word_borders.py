"""Pieces of texts, which windows count: what stands between blanks, and letters of scripts without blanks."""

import re

from hypothesis import given
from hypothesis import strategies as st

from mteb_longembed.sentences import count_words
from mteb_longembed.word_borders import count_pieces, first_pieces


@given(st.text(max_size=60))
def test_pieces_of_a_text_with_blanks_are_what_stands_between_them(text: str) -> None:
    if not re.search(r"[\u0e00-\uffff]|[^\u0000-\uffff]", text):
        assert count_pieces(text) == len(text.split())


def test_the_first_pieces_are_words_or_letters() -> None:
    assert first_pieces(" one two  three", 2) == "one two"
    assert first_pieces("東京タワーは高い", 3) == "東京タ"
    assert first_pieces(" ", 3) == ""


def test_a_chinese_text_has_as_many_tokens_as_its_letters_say() -> None:
    assert count_words("甲" * 600) == 800
