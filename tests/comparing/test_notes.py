"""Each sentence beside the answer, where it is true and where it is not."""

from dataclasses import replace

import pytest

from mteb_longembed.comparing.notes import short_documents, ties, unknown_tokens
from tests.comparing.frames import BASE, GOOD, KEY, answers, frame, summary


@pytest.mark.parametrize(("longest", "is_said"), [(512, True), (513, False)])
def test_documents_that_all_fit_the_window_are_called_short(longest, is_said) -> None:
    sentences = short_documents(summary({BASE: 20, GOOD: 10}, of={BASE: {"longest": longest}}))
    assert bool(sentences) == is_said
    assert all("the longest has 512 tokens, and base reads 512" in sentence for sentence in sentences)


def test_queries_that_equal_scores_decide_are_counted() -> None:
    made = summary({BASE: 4}, 8)
    (sentence,) = ties(frame({BASE: {KEY: answers(4, 8)}}, tied=3), made)
    assert "3 of 8 queries" in sentence and "mean over all orders" in sentence
    assert not ties(frame({BASE: {KEY: answers(4, 8)}}), made)


def test_tokenizers_that_do_not_know_tokens_are_one_sentence() -> None:
    other = replace(BASE, name="org/theirs+none@512", base="org/theirs")
    third = replace(BASE, name="org/known+none@512", base="org/known")
    unknown = {BASE: {"share_unknown": 0.9}, other: {"share_unknown": 0.05}, third: {"share_unknown": 0.01}}
    (sentence,) = unknown_tokens(summary({BASE: 20, other: 19, third: 18}, of=unknown))
    assert "the tokenizer of mine (90 %) and theirs (5 %): they" in sentence
