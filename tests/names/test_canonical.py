from __future__ import annotations

from mteb_longembed.encoders.bases.spec import ModelSpec
from mteb_longembed.encoders.strategies import get_strategy


def test_settings_are_sorted_and_spelled_in_one_way() -> None:
    name = str(ModelSpec("org/model", "ntk", 4096, params={"sigma": 4.0, "logn": False, "factor": 12.5}))
    assert name == "org/model+ntk@4096,factor=12.5,logn=off,sigma=4"


def test_the_target_defaults_to_eight_times_the_trained_length_and_for_none_to_it() -> None:
    assert get_strategy("pi").default_target_len(4096) == 32768
    assert get_strategy("none").default_target_len(512) == 512
