"""Each sentence beside the answer, where it is true and where it is not."""

from dataclasses import replace

import pytest

from mteb_longembed.comparing.notes import cautions
from tests.comparing.frames import BASE, GOOD, KEY, answers, frame, summary

SCORES = frame({BASE: {KEY: answers(4, 8)}})


@pytest.mark.parametrize(("longest", "is_said"), [(512, True), (513, False)])
def test_documents_that_all_fit_the_window_are_called_short(longest, is_said) -> None:
    sentences = cautions(SCORES, summary({BASE: 20, GOOD: 10}, of={BASE: {"longest": longest}}))
    assert bool(sentences) == is_said
    assert all("the longest has 512 tokens, and base reads 512" in note.text for note in sentences)


def test_queries_that_equal_scores_decide_are_counted() -> None:
    made = summary({BASE: 4}, 8)
    ((_, sentence),) = cautions(frame({BASE: {KEY: answers(4, 8)}}, tied=3), made)
    assert "(3 queries)" in sentence and "mean over all orders" in sentence
    assert not cautions(SCORES, made)


def test_a_tokenizer_that_does_not_know_the_documents_is_named() -> None:
    other = replace(BASE, name="org/theirs+none@512", base="org/theirs")
    unknown = {BASE: {"share_unknown": 0.9}, other: {"share_unknown": 0.01}}
    ((_, sentence),) = cautions(SCORES, summary({BASE: 20, other: 19}, of=unknown))
    assert sentence.startswith("90 % of the documents' tokens are unknown to the tokenizer of mine:")
