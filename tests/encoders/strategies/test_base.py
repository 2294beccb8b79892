"""What holds for every strategy: the registry, the hooks, the lengths, attention scaling."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mteb_longembed.encoders.strategies import STRATEGIES, get_strategy
from mteb_longembed.errors import InputError, UnknownNameError


@pytest.mark.parametrize("key", STRATEGIES)
def test_every_strategy_is_documented_and_found_under_its_file_name(key):
    kind = get_strategy(key)
    assert kind.key() == key and dataclasses.is_dataclass(kind)
    assert "Source:" in kind.__doc__
    assert kind(trained_len=512, target_len=4096).scale == 8


def test_unknown_strategy_names_the_nearest_and_all():
    with pytest.raises(UnknownNameError, match=r"unknown strategy 'gpp': did you mean 'gp'\? known: .*gp"):
        get_strategy("gpp")


@pytest.mark.parametrize(("trained", "target"), [(1, 8), (16, 15)])
def test_lengths_are_checked(trained, target):
    with pytest.raises(InputError, match="tokens"):
        STRATEGIES["gp"](trained_len=trained, target_len=target)


@given(n=st.integers(1, 100_000), trained=st.integers(2, 8192))
def test_attention_scaling_is_the_ratio_of_logarithms_and_never_below_one(n, trained):
    strategy = STRATEGIES["gp"](trained_len=trained, target_len=max(trained, n))
    want = max(1.0, math.log(n) / math.log(trained))
    assert strategy.query_scale(torch.tensor([n])).item() == pytest.approx(want, rel=1e-6)
    off = dataclasses.replace(strategy, logn=False)
    assert off.query_scale(torch.tensor([n])).item() == 1


@pytest.mark.parametrize("key", STRATEGIES)
def test_a_word_that_a_parameter_does_not_know_is_refused(key):
    for name, rule in STRATEGIES[key].declared().items():
        if rule.choices and rule.number is None:
            with pytest.raises(InputError, match=f"{key}'s {name} must be one of .*{rule.choices[0]}"):
                STRATEGIES[key](trained_len=16, target_len=32, **{name: "no"})


@given(n=st.integers(1, 600), trained=st.integers(2, 64), scale=st.integers(1, 9))
def test_positions_stay_in_the_trained_range_and_short_documents_keep_theirs(n, trained, scale):
    n = min(n, trained * scale)
    p = torch.arange(n)
    for key in ("gp", "rp", "pi"):
        strategy = STRATEGIES[key](trained_len=trained, target_len=trained * scale)
        ids = strategy.position_ids(p, torch.tensor(n))
        assert ids.min() >= 0 and ids.max() < trained
        if n <= trained:
            assert (ids == p).all()


@given(n=st.integers(2, 500), trained=st.integers(2, 64))
def test_grouped_positions_use_the_smallest_group_that_fits(n, trained):
    strategy = STRATEGIES["gp"](trained_len=trained, target_len=10_000)
    ids = strategy.position_ids(torch.arange(n), torch.tensor(n)).tolist()
    group = max(ids.count(0), 1)
    if n > group:
        assert ids == [p // group for p in range(n)]
        assert (n - 1) // group < trained
        assert group == 1 or (n - 1) // (group - 1) >= trained
