"""Dual chunk attention's parameters and its relative positions, by the paper's figure."""

from __future__ import annotations

import pytest

from mteb_longembed.encoders.strategies.dca import DualChunkAttention
from mteb_longembed.errors import InputError


@pytest.mark.parametrize("chunk", [0, 512])
def test_the_chunk_is_checked(chunk):
    message = f"chunk must be at least 1 and below the trained length of 512 tokens, got {chunk}"
    with pytest.raises(InputError, match=message):
        DualChunkAttention(trained_len=512, target_len=4096, chunk=chunk)


def test_the_papers_figure_of_twelve_tokens():
    # An et al. 2024, figure 2: trained on 10 tokens, chunks of 6
    dca = DualChunkAttention(trained_len=10, target_len=12, chunk=6)
    relative = dca.attention().relative(slice(0, 12), 12, causal=True)
    assert relative[5, :6].tolist() == [5, 4, 3, 2, 1, 0]
    assert relative[6].tolist() == [6, 5, 4, 3, 2, 1, 0, 0, 0, 0, 0, 0]
    assert relative[11].tolist() == [9, 8, 7, 6, 5, 4, 5, 4, 3, 2, 1, 0]


def test_neighbours_stay_exact_across_the_border_and_nothing_exceeds_training():
    dca = DualChunkAttention(trained_len=16, target_len=64)
    relative = dca.attention().relative(slice(0, 64), 64)
    assert relative.abs().max() == 15
    assert all(relative[i, i - d] == d for i in range(4, 64) for d in range(4))
    assert (relative == -relative.T).all()
