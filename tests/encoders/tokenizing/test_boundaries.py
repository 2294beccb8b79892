"""The one splitter of sentences, against Unicode's rules."""

import itertools

import pytest

from mteb_longembed.encoders.tokenizing.boundaries import sentence_ends


@pytest.mark.parametrize(
    "sentences",
    [
        ["It costs 3.14 etc. and more. ", "Yes!  ", 'He asked: "Why?" ', "She left.\n", "A.B. came"],
        ["Das ist z. ", "B. gut. ", "你好。", "今天好吗？“", "好!”", "好"],
        ["यह है। ", "वह है॥ ", "هل أنت؟ ", "نعم۔ ", "Да. ", "Нет… да\r\n", "Как"],
    ],
)
def test_sentences_are_those_of_unicode(sentences: list[str]):
    ends = list(sentence_ends("".join(sentences)))
    assert ends == list(itertools.accumulate(map(len, sentences[:-1])))
