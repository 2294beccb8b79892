from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mteb_longembed.encoders.names import ModelName, canonical_name, is_extended_name, parse_name
from mteb_longembed.encoders.strategies import STRATEGIES
from mteb_longembed.encoders.zoo import ZOO
from mteb_longembed.errors import InputError, UnknownNameError


def canonical(text: str, base: str = "org/model", trained_len: int = 512) -> str:
    return canonical_name(base, trained_len, parse_name(text))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("e5-base+ntk", ModelName("e5-base", "ntk")),
        ("e5-base+pi@2k", ModelName("e5-base", "pi", 2048)),
        ("intfloat/e5-large-v2+pcw@4096", ModelName("intfloat/e5-large-v2", "pcw", 4096)),
        ("./my-model+gp@8192", ModelName("./my-model", "gp", 8192)),
        ("C:\\models\\mine+gp", ModelName("C:\\models\\mine", "gp")),
        ("openai/text-embedding-ada-002+pcw@32K", ModelName("openai/text-embedding-ada-002", "pcw", 32768)),
        ("e5-base", ModelName("e5-base")),
        ("org/model", ModelName("org/model")),
        ("./c++/model+rp", ModelName("./c++/model", "rp")),
        ("a/b+ntk:sigma=1e+5", ModelName("a/b", "ntk", params={"sigma": 1e5})),
        (
            "e5-base+ntk@4k:revision=refs/pr/3,dtype=bf16,trained_len=256,trust_remote_code=on,logn=off",
            ModelName("e5-base", "ntk", 4096, "refs/pr/3", "bf16", {"logn": False}, 256, True),
        ),
    ],
)
def test_a_name_is_taken_apart(text: str, parts: ModelName) -> None:
    assert parse_name(text) == parts


def test_parameters_take_the_types_that_the_strategy_declares() -> None:
    params = parse_name("e5-base+ntk:logn=off,factor=10,short=keep,sigma=2").params
    assert params == {"logn": False, "factor": 10.0, "short": "keep", "sigma": 2.0}
    assert [type(value) for value in params.values()] == [bool, float, str, float]
    assert type(parse_name("e5-base+se:g=9").params["g"]) is int


@pytest.mark.parametrize("key", STRATEGIES)
def test_every_parameter_can_be_written_in_a_name(key: str) -> None:
    written = {bool: "on", int: "3", float: "1.5", str: None}
    for name, default in STRATEGIES[key].parameters().items():
        value = written[type(default)] if default is not None else "3"
        text = f"org/model+{key}:{name}={value or default}"
        assert set(parse_name(text).params) == {name}


def test_an_alias_and_its_full_form_are_one_model() -> None:
    long_form = parse_name("intfloat/e5-base-v2+ntk@4096:logn=on,sigma=4")
    assert canonical("e5-base+ntk:sigma=4") == canonical_name("org/model", 512, long_form)


def test_the_canonical_name_keeps_only_what_is_no_default_and_sorts_it() -> None:
    assert canonical("e5-base+ntk:sigma=4,logn=off,factor=12.5") == (
        "org/model+ntk@4096,factor=12.5,logn=off,sigma=4"
    )
    assert canonical("e5-base+ntk:revision=abc,trust_remote_code=on") == "org/model+ntk@4096"
    assert canonical("e5-base+ntk:dtype=bfloat16") == canonical("e5-base+ntk:dtype=bf16")
    assert canonical("e5-base+ntk:trained_len=256", trained_len=256) == "org/model+ntk@2048,trained_len=256"


def test_the_target_defaults_to_eight_times_the_trained_length_and_for_none_to_it() -> None:
    assert canonical("e5-base+pi") == "org/model+pi@4096"
    assert canonical("e5-mistral+pi", trained_len=4096) == "org/model+pi@32768"
    assert canonical("e5-base") == "org/model+none@512"


@given(
    key=st.sampled_from(sorted(STRATEGIES)),
    target=st.one_of(st.none(), st.integers(2, 2**20)),
    trained_len=st.integers(2, 40_000),
    data=st.data(),
)
def test_a_canonical_name_names_itself_and_is_a_legal_folder_everywhere(
    key, target, trained_len, data
) -> None:
    values = {
        bool: st.booleans(),
        int: st.integers(1, 10**6),
        float: st.floats(0.001, 1e20, allow_nan=False),
    }
    params = {}
    for name, default in STRATEGIES[key].parameters().items():
        if type(default) in values and data.draw(st.booleans()):
            params[name] = data.draw(values[type(default)])
    name = canonical_name("org/model", trained_len, ModelName("org/model", key, target, params=params))
    assert canonical_name("org/model", trained_len, parse_name(name)) == name
    assert not re.search(r'[<>:"|?*\\\x00-\x1f ]', name)
    assert is_extended_name(name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("e5-base+nkt", r"^unknown strategy 'nkt': did you mean 'ntk'\? known: .*\bgp\b.*\bse\b"),
        ("e5-base+", "^unknown strategy ''"),
        ("e5-bse+ntk", r"^unknown base .*'e5-bse': did you mean 'e5-base'\? known: .*bm25.*qwen3-8b"),
        ("e5-base+ntk@", "^the target must be a whole number of tokens such as 4096 or 4k, got ''"),
        ("e5-base+ntk@4x", "^the target must be .*, got '4x'"),
        ("e5-base+ntk@-4", "^the target must be .*, got '-4'"),
        ("e5-base+ntk@4.5k", "^the target must be .*, got '4.5k'"),
        ("e5-base+ntk:logn", "^parameters must be written key=value, joined by commas, got 'logn' in"),
        ("e5-base+ntk:logn=", "^parameters must be written key=value"),
        ("e5-base+ntk:logn=off,logn=on", "^a parameter may be given once, got logn twice"),
        ("e5-base+ntk:logn=maybe", "^ntk's logn must be on or off, got 'maybe'"),
        ("e5-base+ntk:short=cut", "^ntk's short must be one of keep, scale, got 'cut'"),
        ("e5-base+ntk:sigma=wide", "^ntk's sigma must be a number, got 'wide'"),
        ("e5-base+se:g=2.5", "^se's g must be a whole number, got '2.5'"),
        ("e5-base+rp:sigma=2", "^rp has no parameter 'sigma'; a name with rp takes dtype, logn, revision"),
        ("e5-base+ntk:trained_len=many", "^trained_len must be a whole number of tokens"),
        ("e5-base+ntk:trust_remote_code=yes", "^trust_remote_code must be on or off, got 'yes'"),
    ],
)
def test_a_malformed_name_gets_one_sentence(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        parse_name(text)
    assert str(error.value).endswith(".") and "\n" not in str(error.value)


def test_an_unknown_alias_names_all_known_ones() -> None:
    with pytest.raises(UnknownNameError) as error:
        parse_name("mini")
    assert all(alias in str(error.value) for alias in ZOO)


def test_a_folder_without_a_slash_is_a_base(tmp_path, monkeypatch) -> None:
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path)
    assert parse_name("mine+pi") == ModelName("mine", "pi")


@pytest.mark.parametrize(
    "text", ["e5-base+ntk", "a/b+nonsense", "a/b+", "e5-base", "mini-rope", "a/b+ntk@x:y"]
)
def test_names_that_are_ours_to_resolve(text: str) -> None:
    assert is_extended_name(text)


@pytest.mark.parametrize("text", ["a/b", "bm25", "ada-002", "./c++/model", "voyage (dim=1e+5)", "+ntk", ""])
def test_names_that_are_left_to_mteb(text: str) -> None:
    assert not is_extended_name(text)
