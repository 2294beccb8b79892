"""Words of texts: runs of letters, and single letters of scripts without blanks."""

import re

from hypothesis import given
from hypothesis import strategies as st

from mteb_longembed.sentences import count_words
from mteb_longembed.word_borders import first_words, n_words


@given(st.text(st.characters(max_codepoint=0x24F, exclude_categories=["Cf", "Cs"]), max_size=60))
def test_words_are_runs_of_letters_and_digits(text: str) -> None:
    assert n_words(text) == len(re.findall(r"\w+", text))


def test_the_first_words_end_with_the_last_one() -> None:
    assert first_words(" one two  three", 2) == "one two"
    assert first_words("東京タワーは高い", 3) == "東京タ"
    assert first_words(" ", 3) == ""


def test_a_chinese_text_has_as_many_tokens_as_its_letters_say() -> None:
    assert count_words("甲" * 600) == 800
