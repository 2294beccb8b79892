from __future__ import annotations

from mteb_longembed.names.canonical import canonical_name, default_target_len


def test_settings_are_sorted_and_spelled_in_one_way() -> None:
    name = canonical_name("org/model", "ntk", 4096, {"sigma": 4.0, "logn": False, "factor": 12.5})
    assert name == "org/model+ntk@4096,factor=12.5,logn=off,sigma=4"


def test_the_target_defaults_to_eight_times_the_trained_length_and_for_none_to_it() -> None:
    assert default_target_len("pi", 4096) == 32768 and default_target_len("none", 512) == 512
