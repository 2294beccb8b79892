"""ReRoPE's parameters and its relative positions."""

import pytest

from mteb_longembed.encoders.strategies.rerope import RectifiedRoPE
from mteb_longembed.errors import InputError


@pytest.mark.parametrize("w", [0, 512])
def test_the_window_is_checked(w):
    with pytest.raises(
        InputError, match=f"w must be at least 1 and below the trained length of 512 tokens, got {w}"
    ):
        RectifiedRoPE(trained_len=512, target_len=4096, w=w)


def test_relative_positions_are_exact_up_to_the_window_and_capped_beyond():
    relative = RectifiedRoPE(trained_len=8, target_len=32).attention().relative(slice(0, 10), 10)
    assert relative[9].tolist() == [4, 4, 4, 4, 4, 4, 3, 2, 1, 0]
    assert relative[2].tolist() == [2, 1, 0, -1, -2, -3, -4, -4, -4, -4]
