"""The one splitter of sentences, against Unicode's rules."""

import itertools

import pytest

from mteb_longembed.sentences import query_parts, sentence_ends, sentences


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
        ["यह है। ", "वह है॥ ", "هل أنت؟ ", "نعم۔ ", "Да. ", "Нет… да\r\n", "Как"],
    ],
)
def test_sentences_are_those_of_unicode_without_its_ends_at_abbreviations(expected: list[str]):
    ends = list(sentence_ends("".join(expected)))
    assert ends == list(itertools.accumulate(map(len, expected[:-1])))


def test_each_query_is_its_own_only_part_unless_sentences_are_asked() -> None:
    queries = ["Where is it? It was here.", "Who?"]
    assert query_parts(queries, None) == [["Where is it? It was here."], ["Who?"]]
    assert query_parts(queries, "sentences") == [["Where is it?", "It was here."], ["Who?"]]


def test_a_line_break_ends_a_sentence_whatever_stands_before_it() -> None:
    assert sentences("Chapter 3.\nThe keeper. He") == ["Chapter 3.", "The keeper.", "He"]
