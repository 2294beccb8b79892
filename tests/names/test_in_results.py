from __future__ import annotations

import pytest

from mteb_longembed.names.grammar import split_model_name


@pytest.mark.parametrize(
    ("name", "base", "strategy", "target", "params"),
    [
        ("intfloat/e5-base-v2", "intfloat/e5-base-v2", "none", None, ""),
        ("intfloat/e5-base-v2+none@512", "intfloat/e5-base-v2", "none", 512, ""),
        ("dwzhu/e5rope-base+se@4096:g=9,w=64", "dwzhu/e5rope-base", "se", 4096, "g=9,w=64"),
        ("local/mine+pi@2k", "local/mine", "pi", 2048, ""),
        ("openai/ada+pcw", "openai/ada", "pcw", None, ""),
        ("someone/c++", "someone/c++", "none", None, ""),
    ],
)
def test_a_name_splits_at_its_first_plus(name, base, strategy, target, params):
    parts = split_model_name(name)
    assert (parts.full, parts.base, parts.strategy, parts.target_len, parts.params) == (
        name,
        base,
        strategy,
        target,
        params,
    )


def test_a_variant_is_what_is_added_whatever_the_target_length():
    assert (
        split_model_name("a/b+ntk@1024:logn=off").variant == split_model_name("a/b+ntk@4096:logn=off").variant
    )
