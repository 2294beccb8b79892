"""Blocks of documents, tokenised ahead of the model."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mteb_longembed.encoders.engine.batching import divide, estimated_tokens, tokenised_blocks

sizes = st.lists(st.integers(0, 5000), max_size=60)


@given(sizes, st.integers(2, 600), st.integers(1, 500))
def test_every_text_is_in_exactly_one_block_and_longer_texts_come_first(sizes, max_len, batch_tokens) -> None:
    texts = ["x" * size for size in sizes]
    order = [i for block in divide(texts, max_len, batch_tokens) for i in block]
    assert sorted(order) == list(range(len(texts)))
    assert [sizes[i] for i in order] == sorted(sizes, reverse=True)


def test_the_first_block_is_small_so_that_encoding_starts_at_once() -> None:
    blocks = divide(["x" * 4500] * 2000, 512, 512)
    assert [len(block) for block in blocks] == [4, *[64] * 31, 12]


def test_a_text_counts_no_more_tokens_than_are_kept() -> None:
    assert estimated_tokens("x" * 45, 512) == 12
    assert estimated_tokens("x" * 45_000, 512) == 512


def test_the_next_block_is_tokenised_while_the_one_before_is_worked_on() -> None:
    started = [threading.Event() for _ in range(3)]

    def tokenise(texts: list[str]) -> list[np.ndarray]:
        started[int(texts[0])].set()
        return [np.array([int(text)], np.int32) for text in texts]

    for number, block in enumerate(tokenised_blocks(["0", "1", "2"], [[0], [1], [2]], tokenise)):
        assert block.ids[0].tolist() == [number]
        if number < 2:
            assert started[number + 1].wait(timeout=30)
        if number == 0:
            assert not started[2].is_set()


def test_a_failure_while_tokenising_ahead_is_raised() -> None:
    def tokenise(texts: list[str]) -> list[np.ndarray]:
        if texts == ["bad"]:
            raise ValueError("bad text")
        return [np.zeros(1, np.int32)]

    blocks = tokenised_blocks(["good", "bad"], [[0], [1]], tokenise)
    next(blocks)
    with pytest.raises(ValueError, match="bad text"):
        next(blocks)
