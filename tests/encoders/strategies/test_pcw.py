"""Windows: every token once, exactly full, the last one moved back."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mteb_longembed.encoders.strategies import STRATEGIES
from mteb_longembed.errors import InputError


def windows(trained: int, n: int, prefix: int, suffix: int) -> list[list[int]]:
    strategy = STRATEGIES["pcw"](trained_len=trained, target_len=max(n, trained))
    return strategy.windows(n, prefix, suffix).tolist()


def test_last_window_moves_back_to_stay_full():
    assert windows(5, 10, 1, 1) == [[0, 1, 2, 3, 9], [0, 4, 5, 6, 9], [0, 6, 7, 8, 9]]


@given(
    trained=st.integers(4, 60), extra=st.integers(1, 500), prefix=st.integers(0, 2), suffix=st.integers(0, 1)
)
def test_windows_are_full_and_read_every_token(trained, extra, prefix, suffix):
    n = trained + extra
    cut = windows(trained, n, prefix, suffix)
    assert all(len(window) == trained for window in cut)
    assert {token for window in cut for token in window} == set(range(n))
    for window in cut:
        assert window[:prefix] == list(range(prefix))
        assert suffix == 0 or window[-1] == n - 1
    # no overlap but for the last window
    bodies = [window[prefix : trained - suffix] for window in cut]
    assert all(a[-1] < b[0] for a, b in pairwise(bodies[:-1]))


def test_a_prompt_that_fills_the_window_is_an_error():
    with pytest.raises(InputError, match="shorter than the window of 4 tokens, got 4"):
        windows(4, 9, 3, 1)


def test_attention_scaling_is_no_parameter_of_windows():
    with pytest.raises(InputError, match="logn=off only"):
        STRATEGIES["pcw"](trained_len=4, target_len=8, logn=True)
