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
        ({"g": 0}, "g must be at least 1 token, or the word document, got 0"),
        ({"g": "banana"}, "g must be at least 1 token, or the word document, got 'banana'"),
        ({"g": "document", "w": 5}, "with g=document, se computes w for each document itself, got w=5"),
        ({"w": 0}, "w must be at least 1 and below the trained length of 512 tokens, got 0"),
        ({"w": 512}, "w must be at least 1 and below the trained length of 512 tokens, got 512"),
    ],
)
def test_parameters_are_checked(params, message):
    with pytest.raises(InputError, match=message):
        SelfExtend(**E5, **params)


def test_positions_beyond_the_trained_length_are_warned_of():
    with pytest.warns(
        UserWarning, match="reaches relative position 855 at 4096 tokens, beyond the trained length of 512"
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


def by_document(trained: int, n: int, i: int, j: int) -> int:
    """g=document by hand: s, g and w are made anew from n."""
    s = 1
    while s * trained < n:
        s += 1
    g, w = s + 1, trained // s
    if abs(i - j) < w:
        return i - j
    c = w - w // g
    return i // g - j // g + (c if i > j else -c)


@pytest.mark.parametrize("causal", [False, True])
def test_g_document_takes_group_and_window_from_the_documents_own_length(causal):
    se = SelfExtend(trained_len=16, target_len=64, g="document")
    for n in (17, 31, 32, 33, 48, 49, 63, 64):
        want = torch.tensor(
            [[by_document(16, n, i, j) if j <= i or not causal else 0 for j in range(n)] for i in range(n)]
        )
        got = se.attention().relative(slice(0, n), n, causal=causal).long()
        assert torch.equal(got, want)
        assert want.abs().max() <= 16


def test_g_document_is_the_default_at_the_target_and_gentler_before_it():
    lengths = {"trained_len": 512, "target_len": 4096}
    default, document = SelfExtend(**lengths), SelfExtend(**lengths, g="document")
    assert [document.sizes(n) for n in (513, 1024, 1025, 4096)] == [(3, 256), (3, 256), (4, 170), (9, 64)]
    assert document.sizes(4096) == default.sizes(4096) == default.sizes(513)
    # at 513 tokens the farthest token stands at 341, with the default at 113
    assert (document.relative(512, 0, 513), default.relative(512, 0, 513)) == (341, 113)


def test_the_default_window_may_be_given_beside_g_document():
    # a default filled in from the lengths is no choice of the user's
    assert SelfExtend(**E5, g="document", w=64).sizes(513) == (3, 256)
