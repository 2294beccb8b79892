"""Ordinary attention: padding is never seen, windows are as wide as transformers', grouped queries too."""

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import mteb_longembed as longembed
from mteb_longembed.encoders import attention
from mteb_longembed.encoders.attention import Batch, attend_plain
from mteb_longembed.encoders.strategies import STRATEGIES
from tests import tiny


def of(lengths: list[int]) -> Batch:
    return Batch(STRATEGIES["none"](trained_len=16, target_len=16), lengths, torch.device("cpu"))


def dense(q, k, v, scale, causal, window, n):
    """One document of n tokens, float64."""
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    distance = torch.arange(n)[:, None] - torch.arange(n)
    hidden = (distance < 0) & torch.tensor(causal)
    if window is not None:
        hidden = hidden | (distance.abs() >= window)
    scores = (q[:, :, :n].double() @ k[:, :, :n].double().transpose(-1, -2)) * scale
    return scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v[:, :, :n].double()


@settings(max_examples=60)
@given(
    st.lists(st.integers(1, 90), min_size=1, max_size=3), st.booleans(), st.one_of(st.none(), st.integers(1,
    100)), st.sampled_from([1, 2, 4]), st.booleans(),
)  # fmt: skip
@example([600, 70], False, 200, 4, True)
@example([600], True, 70, 1, False)
@example([130, 1], False, 4, 2, True)
def test_every_document_equals_the_dense_form_and_padding_is_never_seen(
    lengths, causal, window, kv_heads, padded
):
    n = torch.tensor(lengths if padded else [max(lengths)] * len(lengths))
    width = int(n.max())
    q, k, v = (torch.randn(len(n), h, width, 8) for h in (4, kv_heads, kv_heads))
    for row, length in enumerate(n.tolist()):
        for x in (q, k, v):
            x[row, :, length:] = 1e4  # if it were seen, it would win
    out = attend_plain(q, k, v, of(n.tolist()), scale=0.3, causal=causal, window=window)
    assert torch.isfinite(out).all()
    for row, length in enumerate(n.tolist()):
        one = slice(row, row + 1)
        want = dense(q[one], k[one], v[one], 0.3, causal, window, length)
        assert (out[one, :, :length] - want).abs().max() < 1e-5


@pytest.mark.parametrize(("causal", "window"), [(False, None), (True, 7)])
def test_dropout_keeps_the_expected_value(causal, window):
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 1, 30, 8) for _ in range(3))
    kwargs = {"scale": 0.3, "causal": causal, "window": window}
    exact = attend_plain(q, k, v, of([30]), **kwargs)
    drops = torch.stack([attend_plain(q, k, v, of([30]), **kwargs, dropout=0.2) for _ in range(500)])
    assert (drops.mean(0) - exact).abs().max() < 0.15
    assert drops.std(0).max() > 0.05


def test_gradients_of_a_window_equal_the_dense_form():
    q, k, v = (torch.randn(1, h, 40, 8, dtype=torch.float64, requires_grad=True) for h in (4, 2, 2))
    ours = attend_plain(q, k, v, of([40]), scale=0.3, causal=False, window=5).pow(2).sum()
    want = dense(q, k, v, 0.3, False, 5, 40).pow(2).sum()
    for a, b in zip(torch.autograd.grad(ours, (q, k, v)), torch.autograd.grad(want, (q, k, v)), strict=True):
        assert (a - b).abs().max() < 1e-9


@pytest.mark.parametrize("lengths", [(16, 16), (16, 5)])
def test_tokens_and_gradients_of_mpnet_are_those_of_transformers(lengths, tmp_path, monkeypatch) -> None:
    base = tiny.sentence_transformer("mpnet", tmp_path, name="tiny/mpnet")
    calls = []
    function = attention.F.scaled_dot_product_attention
    monkeypatch.setattr(
        attention.F, "scaled_dot_product_attention", lambda *a, **k: calls.append(1) or function(*a, **k)
    )
    mask = (torch.arange(16) < torch.tensor(lengths)[:, None]).long()
    ids = torch.where(mask.bool(), torch.arange(10, 26), 1)
    found = []
    for model in (base[0].model, longembed.extend(base, "none")[0].model):
        tokens = model(input_ids=ids, attention_mask=mask).last_hidden_state
        (tokens * mask[..., None]).sin().sum().backward()
        found.append((tokens[mask.bool()], model.encoder.relative_attention_bias.weight.grad))
    assert len(calls) == 2  # one for each layer
    for plain, fused in zip(*found, strict=True):
        torch.testing.assert_close(fused, plain, atol=1e-4, rtol=1e-4)
