"""SelfExtend: relative positions of the paper, the warning beyond what training saw."""

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mteb_longembed.encoders.strategies.se import SelfExtend
from tests.encoders import attention_oracles as oracles

E5 = {"trained_len": 512, "target_len": 4096}


def test_positions_beyond_the_trained_length_are_warned_of():
    with pytest.warns(UserWarning, match="reaches relative position 855 at 4096 tokens, beyond .* 512"):
        SelfExtend(**E5, g=5, w=44)
    with warnings.catch_warnings(action="error"):
        SelfExtend(**E5, g=9, w=64)
        SelfExtend(**E5, g=20, w=100)


@given(st.integers(2, 60), st.integers(1, 8))
def test_the_relative_position_of_a_pair_follows_the_definition(trained, scale):
    with warnings.catch_warnings(action="ignore"):
        se = SelfExtend(trained_len=trained, target_len=trained * scale)
    relative = oracles.self_extend(*se.sizes(se.target_len))
    tokens = range(min(se.target_len, 40))
    assert all(se.relative(i, j) == relative(i, j) for i in tokens for j in tokens)


@pytest.mark.parametrize("n", [17, 31, 32, 33, 48, 49, 63, 64])
def test_g_document_takes_group_and_window_from_the_documents_own_length(n):
    se = SelfExtend(trained_len=16, target_len=64, g="document")
    assert se.sizes(n) == (-(-n // 16) + 1, 16 // -(-n // 16))
    relative = oracles.self_extend(*se.sizes(n))
    assert max(abs(relative(i, j)) for i in range(n) for j in range(n)) <= 16


def test_the_default_window_may_be_given_beside_g_document():
    # a default filled in from the lengths is no choice of the user's
    assert SelfExtend(**E5, g="document", w=64).sizes(513) == (3, 256)
