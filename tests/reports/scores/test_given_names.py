from __future__ import annotations

import pytest

from mteb_longembed.errors import InputError, UnknownNameError
from mteb_longembed.reports.scores.bases import given_name

KNOWN = (
    "intfloat/e5-base-v2",
    "intfloat/e5-base-v2+pi@4096",
    "intfloat/e5-base-v2+pi@2048",
    "intfloat/e5-base-v2+ntk@4096,logn=off",
    "mteb-longembed/mini-rope+se@4096,g=9,w=64",
)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("intfloat/e5-base-v2+pi@4096", "intfloat/e5-base-v2+pi@4096"),
        ("e5-base+pi@4k", "intfloat/e5-base-v2+pi@4096"),
        ("e5-base", "intfloat/e5-base-v2"),
        ("e5-base+ntk", "intfloat/e5-base-v2+ntk@4096,logn=off"),
        ("mini-rope+se", "mteb-longembed/mini-rope+se@4096,g=9,w=64"),
        ("mini-rope+se@4096:w=64,g=9", "mteb-longembed/mini-rope+se@4096,g=9,w=64"),
    ],
)
def test_a_name_is_found_by_alias_and_by_what_was_given_of_it(typed, meant):
    assert given_name("model", typed, KNOWN) == meant


def test_a_name_that_fits_several_is_not_guessed():
    with pytest.raises(InputError, match=r"'e5-base\+pi' fits .*@2048, .*@4096"):
        given_name("model", "e5-base+pi", KNOWN)


@pytest.mark.parametrize("typed", ["e5-base+rp", "gte-base", "mini-rope+se:w=65"])
def test_a_name_that_fits_none_is_unknown(typed):
    with pytest.raises(UnknownNameError, match="unknown model"):
        given_name("model", typed, KNOWN)
