"""SelfExtend in attention equals the dense form for every group, window, type and length; short and long."""

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mteb_longembed.encoders import self_extend as kernels
from mteb_longembed.encoders.self_extend import angles, rotate, self_extend, turns_of
from tests.limits import limit, same_attention

from . import attention_oracles as oracles

#: Groups of 3 tokens beyond a window of 5.
SIZES = (3, 5)


def inputs(n: int, *, b: int = 2, heads: int = 4, kv_heads: int = 4, seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    shapes = ((b, heads, n, 8), (b, kv_heads, n, 8), (b, kv_heads, n, 8))
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def inv_freq(pairs: int, theta: float = 100.0) -> torch.Tensor:
    return theta ** -(torch.arange(pairs) / pairs)


def run(q, k, v, *, causal, sizes=SIZES, dtype=torch.float32) -> torch.Tensor:
    """What a model does: rotate to the usual positions in float32, then our attention."""
    at = torch.arange(q.shape[2]).double()
    q, k = (oracles.rotated(x, at, inv_freq(4).double()).to(dtype) for x in (q, k))
    turns = turns_of(q.shape[2], *sizes, inv_freq(4), q.device)
    return self_extend(q, k, v.to(dtype), sizes[1], turns, scale=0.3, causal=causal)


def dense(q, k, v, *, causal, sizes=SIZES) -> torch.Tensor:
    return oracles.attention(q, k, v, oracles.self_extend(*sizes), inv_freq(4), 0.3, causal)


@settings(max_examples=100)
@given(st.integers(1, 70), st.integers(1, 12), st.integers(1, 40), st.booleans(), st.integers(0, 9))
@example(300, 3, 5, False, 0)
@example(300, 3, 5, True, 0)
def test_equals_the_dense_form_for_any_group_and_window(n, g, w, causal, seed):
    q, k, v = inputs(n, b=1, heads=2, kv_heads=1, seed=seed)
    how = {"causal": causal, "sizes": (g, w)}
    same_attention(run(q, k, v, **how), dense(q, k, v, **how), q, k, v, 0.3)


@pytest.mark.parametrize(("dtype", "bound"), [(torch.bfloat16, 0.06), (torch.float16, 0.008)])
def test_half_precision_is_within_eight_units_of_its_rounding(dtype, bound):
    # values of size 3: 8 units in the last place of bf16 (2^-8) and fp16 (2^-11) are 0.09 and 0.012
    q, k, v = inputs(150)
    got = run(q, k, v, causal=False, dtype=dtype)
    assert (got.double() - dense(q, k, v, causal=False)).abs().max() < bound


def test_rotations_at_far_positions_undo_the_models_rounding():
    n, frequencies = 120_000, inv_freq(4, 10_000.0)
    x = torch.randn(1, 1, 1, 8, dtype=torch.float64)
    angle = (torch.arange(n).float()[:, None] * frequencies).double()  # what a float32 model rotates by
    a, b = x[..., :4], x[..., 4:]
    usual = torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1).float()
    back = rotate(usual, angles(torch.zeros(n), frequencies, torch.device("cpu")))
    # each number is a sum of two, rotated twice
    assert (back - x).abs().max() < limit(2, float(x.abs().max()), sums=2)


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_and_what_runs_without_a_kernel_equal_the_dense_form(causal, monkeypatch):
    monkeypatch.setattr(kernels, "_SCORES", 4000)  # some rows at a time
    q, k, v = (x.requires_grad_() for x in inputs(40, kv_heads=2))
    ours = run(q, k, v, causal=causal)
    want = dense(q, k, v, causal=causal)
    same_attention(ours, want, q, k, v, 0.3)
    for a, b in zip(
        torch.autograd.grad(ours.pow(2).sum(), (q, k, v)),
        torch.autograd.grad(want.pow(2).sum(), (q, k, v)),
        strict=True,
    ):
        same_attention(a, b, q, k, v, 0.3, gradients=8)


def test_merging_is_stable_for_scores_that_overflow_when_exponentiated():
    q, k, v = (torch.randn(1, 1, 6, 8) * 200 for _ in range(3))
    full, full_lse = kernels.attend(q, k, v, scale=1.0)
    halves = [kernels.attend(q, k[:, :, rows], v[:, :, rows], scale=1.0) for rows in (slice(3), slice(3, 6))]
    merged, lse = kernels.merge(*halves[0], *halves[1])
    assert torch.isfinite(merged).all()
    assert (merged - full).abs().max() < 1e-3
    assert torch.allclose(lse, full_lse)


def test_nothing_of_size_n_by_n_is_ever_made(monkeypatch):
    n, w, largest = 2000, 9, 0
    attend = kernels.attend

    def watched(q, k, v, *, scale, causal=False, mask=None):
        nonlocal largest
        largest = max(largest, 0 if mask is None else mask.numel())
        return attend(q, k, v, scale=scale, causal=causal, mask=mask)

    monkeypatch.setattr(kernels, "attend", watched)
    q, k, v = inputs(n, b=1, heads=1, kv_heads=1)
    run(q, k, v, causal=False, sizes=(5, w))
    rows = 64
    assert 0 < largest <= rows * (rows + 2 * w)
