"""SelfExtend's parameters: defaults, rules, the warning beyond what training saw."""

from __future__ import annotations

import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mteb_longembed.encoders.strategies.se import SelfExtend
from mteb_longembed.errors import InputError

E5 = {"trained_len": 512, "target_len": 4096}


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"g": 0}, "g must be at least 1 token, got 0"),
        ({"w": 0}, "w must be at least 1 and below the trained length of 512 tokens, got 0"),
        ({"w": 512}, "w must be at least 1 and below the trained length of 512 tokens, got 512"),
    ],
)
def test_parameters_are_checked(params, message):
    with pytest.raises(InputError, match=message):
        SelfExtend(**E5, **params)


def test_positions_beyond_the_trained_length_are_warned_of():
    with pytest.warns(
        UserWarning, match="reaches relative position 855 at 4096 tokens, beyond the trained 512"
    ):
        SelfExtend(**E5, g=5, w=44)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SelfExtend(**E5, g=9, w=64)
        SelfExtend(**E5, g=20, w=100)


def test_the_papers_example():
    se = SelfExtend(trained_len=9, target_len=10, g=2, w=4)
    assert [[-se.relative(i, j) for j in range(10)] for i in (0, 4, 9)] == [
        [0, 1, 2, 3, 4, 4, 5, 5, 6, 6],
        [-4, -3, -2, -1, 0, 1, 2, 3, 4, 4],
        [-6, -6, -5, -5, -4, -4, -3, -2, -1, 0],
    ]


@given(st.integers(2, 300), st.integers(1, 8), st.integers(0, 2000), st.integers(0, 2000))
def test_relative_positions_mirror_and_never_fall_with_distance(trained, scale, i, j):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        se = SelfExtend(trained_len=trained, target_len=trained * scale)
    assert se.relative(i, j) == -se.relative(j, i)
    if i > 0:
        assert abs(se.relative(i, 0) - se.relative(i - 1, 0)) <= 1
        assert se.relative(i, 0) >= se.relative(i - 1, 0)


@given(st.integers(2, 60), st.integers(1, 8), st.booleans())
def test_the_plan_follows_the_definition(trained, scale, causal):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        se = SelfExtend(trained_len=trained, target_len=trained * scale)
    n = min(se.target_len, 40)
    want = torch.tensor(
        [[se.relative(i, j) if j <= i or not causal else 0 for j in range(n)] for i in range(n)]
    )
    assert torch.equal(se.attention().relative(slice(0, n), n, causal=causal).long(), want)
