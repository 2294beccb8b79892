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


@pytest.mark.parametrize("limit", [383, 512])
def test_the_limit_is_checked(limit):
    message = (
        f"limit must be at least the chunk of 384 tokens and below the trained length of 512, got {limit}"
    )
    with pytest.raises(InputError, match=message):
        DualChunkAttention(trained_len=512, target_len=4096, limit=limit)


def chunk_llama(i: int, j: int, trained: int) -> int:
    """ChunkLlama's code, token by token: `chunk_size`, `local_window` and its three sets of positions."""
    chunk_size, local_window = trained * 3 // 4, trained // 16
    chunk_len = chunk_size - local_window
    key = j % chunk_len
    if i // chunk_len == j // chunk_len:
        return i % chunk_len - key
    if i // chunk_len == j // chunk_len + 1:
        return min(i % chunk_len + chunk_len, chunk_size) - key
    return chunk_size - key


def test_chunk_llamas_own_sizes_can_be_given():
    dca = DualChunkAttention(trained_len=64, target_len=256, chunk=11 * 64 // 16, limit=3 * 64 // 4)
    n = 200
    relative = dca.attention().relative(slice(0, n), n, causal=True)
    assert all(relative[i, j] == chunk_llama(i, j, 64) for i in range(n) for j in range(i + 1))
    assert relative.max() == 48
