"""NTK: the rope base, its two ends, and our form for learned tables."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mteb_longembed.encoders.strategies import STRATEGIES
from mteb_longembed.errors import InputError


def inv_freq(base: float, d: int) -> torch.Tensor:
    return 1.0 / base ** (torch.arange(0, d, 2, dtype=torch.float64) / d)


@given(base=st.floats(1e3, 1e6), half=st.integers(2, 64), scale=st.sampled_from([2, 4, 8]))
def test_frequencies_are_those_of_the_larger_rope_base(base, half, scale):
    ntk = STRATEGIES["ntk"](trained_len=512, target_len=512 * scale)
    got = ntk.inv_freq(inv_freq(base, 2 * half), base, torch.tensor([4]))
    assert torch.allclose(got, inv_freq(base * ntk.factor, 2 * half), rtol=1e-9)


def test_short_keep_changes_only_documents_beyond_the_trained_length():
    ntk = STRATEGIES["ntk"](trained_len=16, target_len=64, short="keep")
    plain = inv_freq(1e4, 8)
    got = ntk.inv_freq(plain, 1e4, torch.tensor([16, 17]))
    assert torch.equal(got[0], plain) and not torch.equal(got[1], plain)


TABLE = torch.randn(32, 8, generator=torch.Generator().manual_seed(0))


def test_tiny_sigma_is_pi_from_row_s_on_and_row_one_below():
    lengths = {"trained_len": 32, "target_len": 128}
    pi = STRATEGIES["pi"](**lengths).position_table(TABLE)
    almost_pi = STRATEGIES["ntk"](**lengths, sigma=1e-3).position_table(TABLE)[32:]
    assert torch.equal(almost_pi[0], TABLE[0])
    # row 0 is mixed into nothing, where pi would mix it into the rows below s
    assert torch.allclose(almost_pi[1:4], TABLE[1].expand(3, -1), atol=1e-5)
    assert torch.allclose(almost_pi[4:], pi[4:], atol=1e-5)


def test_huge_sigma_repeats_the_rows_from_one_on():
    lengths = {"trained_len": 32, "target_len": 128}
    almost_rp = STRATEGIES["ntk"](**lengths, sigma=1e6).position_table(TABLE)[32:]
    want = torch.stack([TABLE[0], *[TABLE[1 + (t - 1) % 31] for t in range(1, 128)]])
    assert torch.allclose(almost_rp, want, atol=1e-4)
    # rp's rows up to Lo, then one row ahead for each round: row 0 does not come again
    rp = STRATEGIES["rp"](trained_len=32, target_len=128).position_table(TABLE)
    assert torch.allclose(almost_rp[:32], rp[:32], atol=1e-4)
    assert not torch.allclose(almost_rp[32], rp[32], atol=1e-1)
    assert torch.allclose(almost_rp[32:62], rp[33:63], atol=1e-4)


@settings(deadline=None)
@given(n=st.integers(1, 128))
def test_short_documents_read_the_original_rows(n):
    ntk = STRATEGIES["ntk"](trained_len=32, target_len=128)
    rows = ntk.position_table(TABLE)[ntk.table_rows(torch.arange(n), torch.tensor(n))]
    assert torch.equal(rows, TABLE[:n]) if n <= 32 else len(rows) == n


@pytest.mark.parametrize("params", [{"factor": 0.5}, {"sigma": 0.0}, {"short": "no"}])
def test_parameters_are_checked(params):
    with pytest.raises(InputError, match=f"ntk's {next(iter(params))} must be"):
        STRATEGIES["ntk"](trained_len=16, target_len=64, **params)
