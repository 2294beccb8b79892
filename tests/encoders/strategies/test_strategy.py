"""Strategies without a model: the registry, lengths, positions, frequencies, parameters, the paper's Table 6."""

import dataclasses
import math
import warnings
from typing import ClassVar, Literal, get_args, get_origin

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mteb_longembed.encoders.strategies import STRATEGIES, Strategy
from mteb_longembed.encoders.strategies.strategy import parameter
from mteb_longembed.errors import InputError
from tests.encoders import attention_oracles as oracles

E5 = {"trained_len": 512, "target_len": 4096}
INV_FREQ = 10_000.0 ** -(torch.arange(0, 64, 2) / 64)


@pytest.mark.parametrize(("trained", "target"), [(1, 8), (16, 15)])
def test_lengths_are_checked(trained, target):
    with pytest.raises(InputError, match="tokens"):
        STRATEGIES["gp"](trained_len=trained, target_len=target)


@given(n=st.integers(1, 100_000), trained=st.integers(2, 8192))
def test_attention_scaling_is_the_ratio_of_logarithms_and_never_below_one(n, trained):
    strategy = STRATEGIES["gp"](trained_len=trained, target_len=max(trained, n))
    want = max(1.0, math.log(n) / math.log(trained))
    assert strategy.query_factor(torch.tensor([n])).item() == pytest.approx(want, rel=1e-6)
    off = dataclasses.replace(strategy, logn=False)
    assert off.query_factor(torch.tensor([n])).item() == 1


@given(n=st.integers(1, 600), trained=st.integers(2, 64), scale=st.integers(1, 9))
def test_positions_stay_in_the_trained_range_and_short_documents_keep_theirs(n, trained, scale):
    n = min(n, trained * scale)
    p = torch.arange(n)
    for key in ("gp", "rp", "pi"):
        strategy = STRATEGIES[key](trained_len=trained, target_len=trained * scale)
        ids = strategy.position_ids(p, torch.tensor(n))
        assert ids.min() >= 0 and ids.max() < trained
        assert strategy.changes(n) == (n > trained)


@given(trained=st.integers(2, 40), scale=st.integers(1, 9), short=st.integers(0, 8))
def test_original_rows_are_bit_identical_in_pi_wherever_the_target_ends(trained, scale, short):
    target = max(trained, trained * scale - min(short, trained - 1))
    pi = STRATEGIES["pi"](trained_len=trained, target_len=target)
    table = torch.randn(trained, 3)
    long = pi.long_rows(table)
    assert len(long) == target
    whole = long[:: pi.scale]
    assert torch.equal(whole, table[: len(whole)])
    assert (long[(trained - 1) * pi.scale :] == table[-1]).all()


def test_short_scale_squeezes_short_inputs_too():
    pi = STRATEGIES["pi"](trained_len=4, target_len=8, short="scale")
    assert pi.position_ids(torch.arange(3), torch.tensor(3)).tolist() == [0, 0.5, 1]
    assert pi.changes(3) and not STRATEGIES["pi"](trained_len=4, target_len=8).changes(3)


# ---- frequencies -------------------------------------------------------------------------------------------


def test_yarn_changes_long_documents_and_no_frequency_that_does_not_turn():
    yarn = STRATEGIES["yarn"](**E5)
    assert [bool(yarn.changes(n)) for n in (1, 511, 512, 513)] == [False, False, False, True]
    assert not torch.equal(yarn.inv_freq(INV_FREQ, 10_000.0), INV_FREQ)
    still = yarn.inv_freq(torch.cat([INV_FREQ[:4], torch.zeros(4)]), 10_000.0)
    assert torch.isfinite(still).all() and not still[4:].any()


# ---- relative positions ------------------------------------------------------------------------------------

SELF_EXTEND = STRATEGIES["se"]


def test_positions_beyond_the_trained_length_are_warned_of():
    with pytest.warns(UserWarning, match="reaches relative position 855 at 4096 tokens, beyond .* 512"):
        SELF_EXTEND(**E5, g=5, w=44)
    with warnings.catch_warnings(action="error"):
        SELF_EXTEND(**E5, g=9, w=64)
        SELF_EXTEND(**E5, g=20, w=100)


@given(st.integers(2, 60), st.integers(1, 8))
def test_the_relative_position_of_a_pair_follows_the_definition(trained, scale):
    with warnings.catch_warnings(action="ignore"):
        se = SELF_EXTEND(trained_len=trained, target_len=trained * scale)
    relative = oracles.self_extend(*se.sizes(se.target_len))
    tokens = range(min(se.target_len, 40))
    assert all(se.relative(i, j) == relative(i, j) for i in tokens for j in tokens)


@pytest.mark.parametrize("n", [17, 31, 32, 33, 48, 49, 63, 64])
def test_g_document_takes_group_and_window_from_the_documents_own_length(n):
    se = SELF_EXTEND(trained_len=16, target_len=64, g="document")
    assert se.sizes(n) == (-(-n // 16) + 1, 16 // -(-n // 16))
    relative = oracles.self_extend(*se.sizes(n))
    assert max(abs(relative(i, j)) for i in range(n) for j in range(n)) <= 16


def test_the_default_window_may_be_given_beside_g_document():
    # a default filled in from the lengths is no choice of the user's
    assert SELF_EXTEND(**E5, g="document", w=64).sizes(513) == (3, 256)


# ---- Table 6 of the paper: its hyperparameters come out of the defaults ------------------------------------

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
    wanted = (10_000.0 * factor) ** -(torch.arange(0, 64, 2) / 64)
    assert torch.allclose(ntk.inv_freq(INV_FREQ, 10_000.0), wanted)
    with warnings.catch_warnings(action="error"):
        se = STRATEGIES["se"](**lengths)
    assert se.sizes(target) == (g, trained // scale)
    # its largest relative position is the trained length
    assert se.relative(target - 1, 0) == trained == -se.relative(0, target - 1)


@pytest.mark.parametrize("key", sorted(STRATEGIES))
def test_a_target_equal_to_the_trained_length_is_legal_and_changes_nothing(key):
    strategy = STRATEGIES[key](trained_len=512, target_len=512)
    assert strategy.scale == 1
    if key == "ntk":
        assert strategy.factor == 1


# ---- parameters --------------------------------------------------------------------------------------------

BELOW = "must be at least 1 token and below the trained length of 512 tokens, got"
RULES = [
    ("se", {"w": 0}, f"w {BELOW} 0"),
    ("se", {"w": 512}, f"w {BELOW} 512"),
    ("se", {"g": 0}, "g must be a whole number of at least 1 token or document, got 0"),
    ("se", {"g": "banana"}, "g must be a whole number of at least 1 token or document, got 'banana'"),
    ("se", {"g": "document", "w": 5}, "with g=document, se computes w for each document itself, got w=5"),
    ("ntk", {"factor": 0.5}, "ntk's factor must be a number of at least 1, got 0.5"),
    ("ntk", {"sigma": 0.0}, "ntk's sigma must be a number above 0, got 0.0"),
    ("yarn", {"factor": 0.5}, "yarn's factor must be a number of at least 1, got 0.5"),
    ("yarn", {"beta_slow": 40.0}, "needs 0 < beta_slow < beta_fast turns, got 40.0 and 32.0"),
    ("pcw", {"size": 513}, "^pcw's size must be from 2 to the trained length of 512 tokens, got 513"),
    ("pcw", {"size": 1}, "^pcw's size must be from 2 to the trained length"),
    ("pcw", {"overlap": -1}, "^pcw's overlap must be at least 0 and below its size of 512 tokens, got -1"),
    ("pcw", {"size": 8, "overlap": 8}, "^pcw's overlap must be at least 0 and below its size of 8 tokens, got"),
    ("pcw", {"logn": True}, "pcw takes only logn=off"),
    *(
        (key, {name: "no"}, f"{key}'s {name} must be one of .*{get_args(kind)[0]}")
        for key, strategy in STRATEGIES.items()
        for name, kind in strategy.declared().items()
        if get_origin(kind) is Literal
    ),
]  # fmt: skip


@pytest.mark.parametrize(("key", "params", "message"), RULES)
def test_a_parameter_that_breaks_its_rule_gets_one_sentence(key, params, message):
    with pytest.raises(InputError, match=message):
        STRATEGIES[key](**E5, **params)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Own(Strategy):
    KEY: ClassVar[str] = "own"
    step: int = parameter(None, "tokens")

    def defaults_by_length(self):
        return {"step": self.scale}


def test_a_custom_strategy_reads_its_own_and_inherited_values_by_their_types():
    own = Own(trained_len="8", target_len=16, logn="off")
    assert (own.trained_len, own.logn, own.step) == (8, False, 2)
    assert dataclasses.replace(own, step="5").step == 5
    with pytest.raises(InputError, match=r"^own's step must be a whole number, got True"):
        Own(trained_len=8, target_len=16, step=True)
    with pytest.raises(TypeError, match="steps"):
        Own(trained_len=8, target_len=16, steps=1)
