"""Merging by log-sum-exp: two halves of the keys are the whole."""

import torch

from mteb_longembed.encoders.attention.kernels import attend, merge


def test_merging_is_stable_for_scores_that_overflow_when_exponentiated():
    q, k, v = (torch.randn(1, 1, 6, 8) * 200 for _ in range(3))
    full, full_lse = attend(q, k, v, scale=1.0)
    near = attend(q, k[:, :, :3], v[:, :, :3], scale=1.0)
    merged, lse = merge(*near, *attend(q, k[:, :, 3:], v[:, :, 3:], scale=1.0))
    assert torch.isfinite(merged).all()
    assert (merged - full).abs().max() < 1e-3
    assert torch.allclose(lse, full_lse)
