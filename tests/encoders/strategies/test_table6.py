"""The paper's hyperparameters (Table 6) come out of the defaults for every scale it uses."""

import warnings

import pytest
import torch

from mteb_longembed.encoders.strategies import STRATEGIES

#: trained length -> targets: E5 and E5-RoPE go from 512 to 4,096, E5-Mistral from 4,096 to 32,768
LENGTHS = [(512, 1024), (512, 2048), (512, 4096), (4096, 8192), (4096, 16384), (4096, 32768)]
#: scale -> (group of gp/rp/pi, factor of ntk, g of se)
TABLE = {2: (2, 3, 3), 4: (4, 5, 5), 8: (8, 10, 9)}


@pytest.mark.parametrize(("trained", "target"), LENGTHS)
def test_defaults_are_the_papers(trained, target):
    lengths = {"trained_len": trained, "target_len": target}
    scale = target // trained
    group, factor, g = TABLE[scale]
    p, n = torch.arange(target), torch.tensor(target)
    assert STRATEGIES["gp"](**lengths).scale == group
    assert torch.equal(STRATEGIES["gp"](**lengths).position_ids(p, n), p // group)
    assert torch.equal(STRATEGIES["gp"](**lengths, factor="target").position_ids(p, n), p // group)
    assert torch.equal(STRATEGIES["rp"](**lengths).position_ids(p, n), p % trained)
    assert torch.allclose(STRATEGIES["pi"](**lengths).position_ids(p, n), p / group)
    ntk = STRATEGIES["ntk"](**lengths)
    assert ntk.factor == factor
    plain = 10_000.0 ** -(torch.arange(0, 64, 2) / 64)
    wanted = (10_000.0 * factor) ** -(torch.arange(0, 64, 2) / 64)
    assert torch.allclose(ntk.inv_freq(plain, 10_000.0, n[None]), wanted)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        se = STRATEGIES["se"](**lengths)
    assert se.sizes(target) == (g, trained // scale)


@pytest.mark.parametrize(("trained", "target"), LENGTHS)
def test_the_largest_relative_position_of_se_is_the_trained_length(trained, target):
    se = STRATEGIES["se"](trained_len=trained, target_len=target)
    assert se.relative(target - 1, 0) == trained
    assert se.relative(0, target - 1) == -trained


@pytest.mark.parametrize("key", sorted(STRATEGIES))
def test_a_target_equal_to_the_trained_length_is_legal_and_changes_nothing(key):
    strategy = STRATEGIES[key](trained_len=512, target_len=512)
    assert strategy.scale == 1
    if key == "ntk":
        assert strategy.factor == 1
