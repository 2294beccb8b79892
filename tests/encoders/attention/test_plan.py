"""Planned attention equals the dense form for every plan, type and length; short and long."""

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mteb_longembed.encoders.attention import kernels, merge
from mteb_longembed.encoders.attention.plan import (
    DualChunkPlan,
    RelativePositionAttention,
    ReRoPEPlan,
    SelfExtendPlan,
)
from mteb_longembed.encoders.attention.rotation import Rotation
from tests.limits import limit, same_attention

from . import oracles


def self_extend(g: int, w: int) -> SelfExtendPlan:
    return SelfExtendPlan(lambda n: (g, w))


PLANS = {
    "se": (self_extend(3, 5), oracles.self_extend(3, 5)),
    "rerope": (ReRoPEPlan(7), oracles.rerope(7)),
    "dca": (DualChunkPlan(6, 8), oracles.dual_chunk(6, 8)),
}


def inputs(n: int, *, b: int = 2, heads: int = 4, kv_heads: int = 4, seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    shapes = ((b, heads, n, 8), (b, kv_heads, n, 8), (b, kv_heads, n, 8))
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def inv_freq(pairs: int, theta: float = 100.0) -> torch.Tensor:
    return theta ** -(torch.arange(pairs) / pairs)


def run(plan, q, k, v, *, causal, dtype=torch.float32) -> torch.Tensor:
    """What a model does: rotate to the usual positions in float32, then our attention."""
    rotation = Rotation(inv_freq(4))
    at = torch.arange(q.shape[2]).double()
    q, k = (oracles.turned(x, at, rotation.inv_freq.double()).to(dtype) for x in (q, k))
    return RelativePositionAttention(plan, rotation)(q, k, v.to(dtype), scale=0.3, causal=causal)


#: Any plan, with its definition.
ANY = st.one_of(
    st.builds(
        lambda g, w: (self_extend(g, w), oracles.self_extend(g, w)), st.integers(1, 12), st.integers(1, 40)
    ),
    st.builds(lambda w: (ReRoPEPlan(w), oracles.rerope(w)), st.integers(1, 40)),
    st.builds(
        lambda chunk, more: (DualChunkPlan(chunk, chunk + more), oracles.dual_chunk(chunk, chunk + more)),
        st.integers(1, 40), st.integers(0, 12),
    ),
)  # fmt: skip


@settings(max_examples=100)
@given(st.integers(1, 70), ANY, st.booleans(), st.integers(0, 9))
@example(300, PLANS["se"], False, 0)
@example(300, PLANS["se"], True, 0)
@example(150, PLANS["rerope"], False, 0)
@example(150, PLANS["dca"], True, 0)
def test_equals_the_dense_form_for_any_plan(n, either, causal, seed):
    plan, relative = either
    q, k, v = inputs(n, b=1, heads=2, kv_heads=1, seed=seed)
    want = oracles.attention(q, k, v, relative, inv_freq(4), 0.3, causal)
    same_attention(run(plan, q, k, v, causal=causal), want, q, k, v, 0.3)


@pytest.mark.parametrize("name", PLANS)
def test_relative_positions_written_out_are_the_definition(name):
    plan, relative = PLANS[name]
    want = oracles.matrix(relative, 30)
    assert torch.equal(plan.relative(slice(0, 30), 30).double(), want)
    assert torch.equal(plan.relative(slice(7, 12), 30).double(), want[7:12])
    assert torch.equal(plan.relative(slice(7, 12), 30, causal=True).double(), want.tril()[7:12])


@pytest.mark.parametrize(("dtype", "bound"), [(torch.bfloat16, 0.06), (torch.float16, 0.008)])
@pytest.mark.parametrize("name", PLANS)
def test_half_precision_is_within_eight_units_of_its_rounding(name, dtype, bound):
    # values of size 3: 8 units in the last place of bf16 (2^-8) and fp16 (2^-11) are 0.09 and 0.012
    plan, relative = PLANS[name]
    q, k, v = inputs(150)
    want = oracles.attention(q, k, v, relative, inv_freq(4), 0.3, False)
    assert (run(plan, q, k, v, causal=False, dtype=dtype).double() - want).abs().max() < bound


def test_rotations_at_far_positions_undo_the_models_rounding():
    n, rotation = 120_000, Rotation(inv_freq(4, 10_000.0))
    x = torch.randn(1, 1, 1, 8, dtype=torch.float64)
    angle = (torch.arange(n).float()[:, None] * rotation.inv_freq).double()  # what a float32 model turns by
    a, b = x[..., :4], x[..., 4:]
    usual = torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1).float()
    back = rotation.apply(usual, rotation.turn(torch.zeros(n), torch.device("cpu")))
    # each number is a sum of two, turned twice
    assert (back - x).abs().max() < limit(2, float(x.abs().max()), sums=2)


@pytest.fixture(params=["kernels", "no kernels"])
def path(request, monkeypatch) -> str:
    """The kernels of this machine, or what devices without a kernel of ours run (a stand-in on the CPU)."""
    if request.param == "no kernels":
        monkeypatch.setattr(
            merge, "attend", lambda *qkv, **how: kernels._math(*qkv, kernels.TileScores(**how))
        )
        monkeypatch.setattr(merge, "attend_backward", kernels._math_backward)
        monkeypatch.setattr(kernels, "_MATH_ROWS", 16)
    return request.param


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", PLANS)
def test_attention_and_its_gradients_equal_those_of_the_dense_form_with_kernels_and_without(name, causal):
    plan, relative = PLANS[name]
    q, k, v = (x.requires_grad_() for x in inputs(40, kv_heads=2))
    dense = oracles.attention(q, k, v, relative, inv_freq(4), 0.3, causal)
    ours = run(plan, q, k, v, causal=causal)
    same_attention(ours, dense, q, k, v, 0.3)
    for a, b in zip(
        torch.autograd.grad(ours.pow(2).sum(), (q, k, v)),
        torch.autograd.grad(dense.pow(2).sum(), (q, k, v)),
        strict=True,
    ):
        same_attention(a, b, q, k, v, 0.3, gradients=8)


@pytest.mark.parametrize("causal", [False, True])
def test_a_windowed_kernel_takes_the_band_in_one_call(causal, monkeypatch):
    """Where a device has one (a stand-in on the CPU): the band is asked for once, with both of its sides."""
    asked = []

    def windowed(q, k, v, *, scale, left, right):
        asked.append((left, right))
        i, j = torch.arange(q.shape[2])[:, None], torch.arange(q.shape[2])
        hidden = (i - j > left) | (j - i > right)
        mask = torch.zeros(hidden.shape).masked_fill(hidden, -torch.inf)
        return kernels.attend(q, k, v, scale=scale, mask=mask)

    monkeypatch.setattr(merge, "attend_band", windowed)
    plan, relative = PLANS["se"]
    q, k, v = inputs(40)
    want = oracles.attention(q, k, v, relative, inv_freq(4), 0.3, causal)
    same_attention(run(plan, q, k, v, causal=causal), want, q, k, v, 0.3)
    assert asked == [(4, 0 if causal else 4)]


def test_nothing_of_size_n_by_n_is_ever_made(monkeypatch):
    n, w, largest = 2000, 9, 0
    attend = kernels.attend

    def watched(q, k, v, *, scale, causal=False, mask=None):
        nonlocal largest
        largest = max(largest, 0 if mask is None else mask.numel())
        return attend(q, k, v, scale=scale, causal=causal, mask=mask)

    monkeypatch.setattr(merge, "attend", watched)
    q, k, v = inputs(n, b=1, heads=1, kv_heads=1)
    run(self_extend(5, w), q, k, v, causal=False)
    rows = 64
    assert 0 < largest <= rows * (rows + 2 * w)
