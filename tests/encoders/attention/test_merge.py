"""Merging by log-sum-exp: two halves of the keys are the whole; rows without keys are zeros, not numbers."""

import torch

from mteb_longembed.encoders.attention.kernels import attend
from mteb_longembed.encoders.attention.merge import attend_tiles, merge_
from mteb_longembed.encoders.attention.tiles import Tile
from tests.limits import same_attention


def test_merging_is_stable_for_scores_that_overflow_when_exponentiated():
    q, k, v = (torch.randn(1, 1, 6, 8) * 200 for _ in range(3))
    full, _ = attend(q, k, v, scale=1.0)
    out, lse = attend(q, k[:, :, :3], v[:, :, :3], scale=1.0)
    merge_(out, lse, *attend(q, k[:, :, 3:], v[:, :, 3:], scale=1.0))
    assert torch.isfinite(out).all()
    assert (out - full).abs().max() < 1e-3


def test_rows_without_any_key_stay_zero():
    out, lse = torch.zeros(1, 1, 2, 4), torch.full((1, 1, 2), -torch.inf)
    other_lse = torch.tensor([[[-torch.inf, 0.5]]])
    merge_(out, lse, torch.ones(1, 1, 2, 4), other_lse)
    assert out[0, 0].tolist() == [[0.0] * 4, [1.0] * 4]
    assert torch.equal(lse, other_lse)


def test_rows_that_no_tile_covers_are_zeros():
    q, k, v = (torch.randn(1, 2, 6, 8) for _ in range(3))
    out = attend_tiles([(q, k, [Tile(slice(0, 3), slice(0, 6), "full")])], v, 0.4)
    same_attention(out[:, :, :3], attend(q[:, :, :3], k, v, scale=0.4)[0], q, k, v, 0.4)
    assert not out[:, :, 3:].any()
