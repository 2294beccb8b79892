"""Each sentence beside the answer, where it is true and where it is not."""

from dataclasses import replace

import pytest

from mteb_longembed.comparing.notes import findings, short_documents, ties, unknown_tokens
from mteb_longembed.comparing.verdict import Setting
from tests.comparing.frames import BASE, GOOD, KEY, answers, frame, summary

SETTING = Setting(tasks=["LongEmbedPasskey"], n_queries=50)


def test_the_score_to_expect_is_said_and_that_queries_were_drawn() -> None:
    (known,) = findings(SETTING, 71.0)
    assert known.text.startswith("Expected score on new queries: 71.0")
    drawn, unknown = findings(replace(SETTING, synthetic_queries=True), None)
    assert "sentences drawn from the documents" in drawn.text and "it needs 40 queries" in unknown.text


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


@pytest.mark.parametrize(("share", "is_said"), [(0.9, True), (0.01, False)])
def test_tokens_that_a_tokenizer_does_not_know_are_said(share, is_said) -> None:
    sentences = unknown_tokens(summary({BASE: 20}, of={BASE: {"share_unknown": share}}))
    assert bool(sentences) == is_said
    assert all("The tokenizer of mine does not know 90 %" in sentence for sentence in sentences)
