"""yarn, dynamic and resonance: what they do to frequencies, which documents they leave alone, their rules."""

from __future__ import annotations

import math

import pytest
import torch

from mteb_longembed.encoders.strategies import STRATEGIES
from mteb_longembed.errors import InputError

LO, LT = 512, 4096
LENGTHS = {"trained_len": LO, "target_len": LT}
INV_FREQ = 10_000.0 ** -(torch.arange(0, 64, 2) / 64)


def frequencies(key: str, n: int, **params) -> torch.Tensor:
    return STRATEGIES[key](**LENGTHS, **params).inv_freq(INV_FREQ, 10_000.0, torch.tensor([n]))[0]


@pytest.mark.parametrize("key", ["yarn", "dynamic", "resonance"])
def test_documents_up_to_the_trained_length_keep_their_frequencies_bit_for_bit(key):
    for n in (1, LO - 1, LO):
        assert torch.equal(frequencies(key, n), INV_FREQ)
    assert not torch.equal(frequencies(key, LO + 1), INV_FREQ)


@pytest.mark.parametrize("key", ["yarn", "dynamic", "resonance"])
def test_each_document_of_a_batch_has_its_own(key):
    lengths = [LO, LO + 1, LT]
    together = STRATEGIES[key](**LENGTHS).inv_freq(INV_FREQ, 10_000.0, torch.tensor(lengths))
    for n, row in zip(lengths, together, strict=True):
        assert torch.equal(row, frequencies(key, n))


def test_yarn_keeps_fast_frequencies_and_divides_slow_ones():
    ratio = INV_FREQ / frequencies("yarn", LT)
    turns = LO * INV_FREQ / (2 * math.pi)
    assert torch.allclose(ratio[turns > 40], torch.ones(1))
    assert torch.allclose(ratio[turns < 0.7], torch.tensor(8.0))
    assert (ratio.diff() >= -1e-6).all()


def test_dynamic_follows_the_documents_length():
    # (n / Lo) ** (d / (d - 2)) on the base, so the slowest frequency is divided by n / Lo
    for n in (1024, 3000, LT):
        assert frequencies("dynamic", n)[-1].item() == pytest.approx(INV_FREQ[-1].item() * LO / n, rel=1e-5)
    wanted = (10_000 * (2 * LT / LO - 1) ** (64 / 62)) ** -(torch.arange(0, 64, 2) / 64)
    assert torch.allclose(frequencies("dynamic", LT, factor=2.0), wanted, rtol=1e-4)


def test_resonance_makes_every_wavelength_whole():
    wavelength = 2 * math.pi / frequencies("resonance", LT).double()
    assert (wavelength - wavelength.round()).abs().max() < 1e-5 * wavelength.max()
    assert (wavelength / (2 * math.pi / frequencies("yarn", LT).double()) - 1).abs().max() < 0.09


def test_dimensions_that_do_not_turn_stay_still():
    still = torch.cat([INV_FREQ[:4], torch.zeros(4)])
    for key in ("yarn", "dynamic", "resonance"):
        out = STRATEGIES[key](**LENGTHS).inv_freq(still, 10_000.0, torch.tensor([LT]))[0]
        assert torch.isfinite(out).all() and not out[4:].any()


def test_short_scale_stretches_all_inputs():
    assert torch.equal(frequencies("yarn", 5, short="scale"), frequencies("yarn", LT))


def test_yarns_temperature_stands_in_for_logn_and_not_beside_it():
    off = STRATEGIES["yarn"](**LENGTHS, logn=False)
    n = torch.tensor([LO, LT])
    # on the dimensions that turn, of queries and of keys
    assert off.rotary_scale(n).tolist() == pytest.approx([1.0, 0.1 * math.log(8) + 1])
    assert off.query_scale(n).tolist() == [1.0, 1.0]
    on = STRATEGIES["yarn"](**LENGTHS)
    assert on.query_scale(n).tolist() == pytest.approx([1.0, math.log(LT) / math.log(LO)])
    assert on.rotary_scale(n).tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("key", "params", "message"),
    [
        ("yarn", {"factor": 0.5}, "yarn's factor must be at least 1, got 0.5"),
        ("yarn", {"beta_slow": 40.0}, r"needs 0 < beta_slow < beta_fast turns, got 40.0 and 32.0"),
        ("resonance", {"factor": 0.5}, "resonance's factor must be at least 1, got 0.5"),
        ("dynamic", {"factor": 0.0}, "dynamic's factor must be at least 1, got 0.0"),
    ],
)
def test_parameters_are_checked(key, params, message):
    with pytest.raises(InputError, match=message):
        STRATEGIES[key](**LENGTHS, **params)
