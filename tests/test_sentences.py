"""The one splitter of sentences, against Unicode's rules, and what a word is."""

import itertools
import re
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mteb_longembed.sentences import count_words, sentence_ends, sentences
from mteb_longembed.word_borders import n_words


@pytest.mark.parametrize(
    "expected",
    [
        ["It costs 3.14 etc. and more. ", "Yes!  ", 'He asked: "Why?" ', "She left.\n", "A.B. came"],
        ["Das ist z. ", "B. gut. ", "你好。", "今天好吗？“", "好!”", "好"],
        [
            "3. Then Dr. Smith came. ",
            "He met J. R. Brown. ",
            "It was 1984. ",
            "Prof. Gray left. ",
            "So did I",
        ],
        ["यह है। ", "वह है॥ ", "هل أنت؟ ", "نعم۔ ", "Да. ", "Нет… да\r\n\r\n", "Как"],
    ],
)
def test_sentences_are_those_of_unicode_without_its_ends_at_abbreviations(expected: list[str]):
    ends = list(sentence_ends("".join(expected)))
    assert ends == list(itertools.accumulate(map(len, expected[:-1])))


def test_a_heading_ends_whatever_stands_before_it() -> None:
    assert sentences("Chapter 3.\nThe keeper. He") == ["Chapter 3.", "The keeper.", "He"]


PROSE = (
    "The lamp of the old lighthouse was later found by the keeper, who had come from Brandt Island with two sons. "
    "He met Anna Smith and J. R. Brown there, and they paid 3.5 million to the U.S. office of Dr. Gray. "
    "Why did nobody ask? It rained."
)
WHOLE = [
    "The lamp of the old lighthouse was later found by the keeper, who had come from Brandt Island with two sons.",
    "He met Anna Smith and J. R. Brown there, and they paid 3.5 million to the U.S. office of Dr. Gray.",
    "Why did nobody ask?",
    "It rained.",
]


@pytest.mark.parametrize("width", [40, 44, 57, 60, 72, 79])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\n    "])
def test_lines_that_were_set_to_a_width_are_one_text(width: int, newline: str) -> None:
    assert sentences(textwrap.fill(PROSE, width).replace("\n", newline)) == WHOLE
    two = newline.join(["Heading", textwrap.fill(PROSE, width), "", textwrap.fill(PROSE, width)])
    assert sentences(two.replace("\n", newline)) == ["Heading", *WHOLE, *WHOLE]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The lamp was later\nfound by the keeper.", ["The lamp was later found by the keeper."]),
        ("A title\n\nthe rest of it", ["A title", "the rest of it"]),
        ("Bring:\n- a lamp\n- two keys\n  and a map", ["Bring:", "- a lamp", "- two keys and a map"]),
        ("We saw\n1. the reef\n2) the kiln", ["We saw", "1. the reef", "2) the kiln"]),
        ("# A lamp\nwas found", ["# A lamp", "was found"]),
        ("A lamp\n======\nwas found", ["A lamp", "======", "was found"]),
        ("Anna: yes\nBert: no\nAnna: perhaps", ["Anna: yes", "Bert: no", "Anna: perhaps"]),
        ("第一章\n他来了。她走了。", ["第一章", "他来了。", "她走了。"]),
    ],
)
def test_line_breaks_are_blanks_but_behind_headings_items_and_blank_lines(
    text: str, expected: list[str]
) -> None:
    assert sentences(text) == expected
    assert sentences(text.replace("\n", "\r\n")) == expected


@given(st.text(st.characters(max_codepoint=0x24F, exclude_categories=["Cf", "Cs"]), max_size=60))
def test_words_are_runs_of_letters_and_digits(text: str) -> None:
    assert n_words(text) == len(re.findall(r"\w+", text))
    assert count_words("甲" * 600) == 800
