import pytest

from mteb_longembed.encoders.checkpoint import ModelSpec
from mteb_longembed.errors import InputError, UnknownNameError
from mteb_longembed.names import ZOO, is_extended_name


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("intfloat/e5-large-v2+pcw@4096", ModelSpec("intfloat/e5-large-v2", "pcw", "4096")),
        ("./my-model+gp@8192", ModelSpec("./my-model", "gp", "8192")),
        ("C:\\models\\mine+gp", ModelSpec("C:\\models\\mine", "gp")),
        ("openai/text-embedding-ada-002+pcw@32K", ModelSpec("openai/text-embedding-ada-002", "pcw", "32K")),
        ("e5-base", ModelSpec("e5-base")),
        ("org/model", ModelSpec("org/model")),
        ("./c++/model+rp", ModelSpec("./c++/model", "rp")),
        ("a/b+ntk:sigma=1e+5", ModelSpec("a/b", "ntk", params={"sigma": "1e+5"})),
        (
            "e5-base+pcw@4k:size=64,vectors=window",
            ModelSpec("e5-base", "pcw", "4k", vectors="window", params={"size": "64"}),
        ),
        ("./a+b+pcw:size=8", ModelSpec("./a+b", "pcw", params={"size": 8})),
        (
            "e5-base+ntk@4k:revision=refs/pr/3,dtype=bf16,trained_len=256,trust_remote_code=on,logn=off",
            ModelSpec("e5-base", "ntk", "4k", "256", "refs/pr/3", "bf16", "on", params={"logn": "off"}),
        ),
    ],
)  # fmt: skip
def test_a_name_is_taken_apart(text: str, parts: ModelSpec) -> None:
    assert ModelSpec.parse(text) == parts


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("e5-bse+ntk", r"^unknown base .*'e5-bse': did you mean 'e5-base'\? known: .*bm25.*qwen3-8b"),
        ("e5-base+ntk:logn", "^parameters must be written as key=value with commas.*, got 'logn' in"),
        ("e5-base+ntk:logn=", "^parameters must be written as key=value"),
        ("e5-base+ntk:logn=off,logn=on", "^a parameter may be given only once, got logn twice"),
        ("e5-base+ntk:target_len=4k", "^unknown parameter of ntk 'target_len': known: factor, logn"),
        ("mini-rope@1k", r"^unknown base .*'mini-rope@1k': did you mean 'mini-rope'"),
    ],
)
def test_a_malformed_name_gets_one_sentence(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        ModelSpec.parse(text)
    assert str(error.value).endswith(".") and "\n" not in str(error.value)


def test_an_unknown_alias_names_all_known_ones() -> None:
    with pytest.raises(UnknownNameError) as error:
        ModelSpec.parse("mini")
    assert all(alias in str(error.value) for alias in ZOO)


def test_a_folder_without_a_slash_is_a_base(tmp_path, monkeypatch) -> None:
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path)
    assert ModelSpec.parse("mine+pi") == ModelSpec("mine", "pi")


OURS = ["e5-base+ntk", "a/b+nonsense", "a/b+", "e5-base", "mini-rope", "a/b+ntk@x:y"]
MTEBS = ["a/b", "bm25", "ada-002", "./c++/model", "voyage (dim=1e+5)", "+ntk", ""]


@pytest.mark.parametrize("text", OURS + MTEBS)
def test_names_are_ours_to_resolve_or_left_to_mteb(text: str) -> None:
    assert is_extended_name(text) == (text in OURS)
