"""Names of models, the values in them, and the table of aliases."""

import re
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pytest
from mteb.models.model_implementations import MODEL_REGISTRY
from pydantic import Field

from mteb_longembed.encoders.method import Method
from mteb_longembed.errors import InputError
from mteb_longembed.names import is_extended_name, with_preset
from mteb_longembed.retrieval.recommended import recommended
from mteb_longembed.values import read, read_tokens
from mteb_longembed.zoo import ZOO, entry_of, full_base


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("intfloat/e5-large-v2+pcw@4096", Method("intfloat/e5-large-v2", "pcw", "4096")),
        ("./my-model+gp@8192", Method("./my-model", "gp", "8192")),
        ("C:\\models\\mine+gp", Method("C:\\models\\mine", "gp")),
        ("openai/text-embedding-ada-002+pcw@32K", Method("openai/text-embedding-ada-002", "pcw", "32K")),
        ("e5-base", Method("e5-base")),
        ("org/model", Method("org/model")),
        ("./c++/model+rp", Method("./c++/model", "rp")),
        ("a/b+ntk:sigma=1e+5", Method("a/b", "ntk", params={"sigma": "1e+5"})),
        (
            "e5-base+pcw@4k:size=64,vectors=window",
            Method("e5-base", "pcw", "4k", vectors="window", params={"size": "64"}),
        ),
        ("all-MiniLM-L6-v2+pcw", Method("sentence-transformers/all-MiniLM-L6-v2", "pcw")),
        ("gtr-t5-base+none", Method("sentence-transformers/gtr-t5-base")),
        ("./a+b+pcw:size=8", Method("./a+b", "pcw", params={"size": 8})),
        (
            "e5-base+ntk@4k:revision=refs/pr/3,dtype=bf16,trained_len=256,trust_remote_code=on,logn=off",
            Method("e5-base", "ntk", "4k", "256", "refs/pr/3", "bf16", "on", params={"logn": "off"}),
        ),
    ],
)  # fmt: skip
def test_a_name_is_taken_apart(text: str, parts: Method) -> None:
    assert Method.parse_model(text) == parts


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("e5-bse+ntk", r"^unknown base .*'e5-bse': did you mean 'e5-base'\? known: .*bm25.*qwen3-8b"),
        ("e5-base+ntk:logn", "^parameters must be written as key=value with commas.*, got 'logn' in"),
        ("e5-base+ntk:logn=", "^parameters must be written as key=value"),
        ("e5-base+ntk:logn=off,logn=on", "^a parameter may be given only once, got logn twice"),
        ("e5-base+ntk:target_len=4k", "^unknown parameter of ntk 'target_len': known: factor, logn"),
        ("mini-rope@1k", r"^a target and settings must follow .STRATEGY, such as mini-rope.pcw@1k, got"),
        ("MINI-APE+pi", r"^unknown base .*'MINI-APE': did you mean 'mini-ape'"),
        ("mini_ape+pi", r"^unknown base .*'mini_ape': did you mean 'mini-ape'"),
        ("a b+pi", r"^unknown base .*'a b': known: "),
    ],
)
def test_a_malformed_name_gets_one_sentence(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        Method.parse_model(text)
    assert str(error.value).endswith(".") and "\n" not in str(error.value)


OURS = ["e5-base+ntk", "mini-rope@1k", "a/b+nonsense", "a/b+", "e5-base", "mini-rope", "a/b+ntk@x:y"]
MTEBS = ["a/b", "bm25", "ada-002", "./c++/model", "voyage (dim=1e+5)", "+ntk", ""]


@pytest.mark.parametrize("text", OURS + MTEBS)
def test_names_are_ours_to_resolve_or_left_to_mteb(text: str) -> None:
    assert is_extended_name(text) == (text in OURS)


# ---- values ------------------------------------------------------------------------------------------------

WORDS = Annotated[int, Field(ge=2), "words"]


@pytest.mark.parametrize(
    ("annotation", "value", "typed"),
    [
        (bool, "off", False),
        (bool, True, True),
        (float, "10", 10.0),
        (float, "1e1", 10.0),
        (float, 10, 10.0),
        (int, "10.0", 10),
        (int, 1e1, 10),
        (int, np.int64(9), 9),
        (float, np.float32(0.5), 0.5),
        (int | None, None, None),
        (Literal["keep", "scale"], "keep", "keep"),
        (int | Literal["document"] | None, "document", "document"),
        (int | Literal["document"] | None, "9", 9),
    ],
)
def test_a_value_gets_the_declared_type_whoever_gave_it(annotation, value, typed) -> None:
    found = read("x", annotation, value)
    assert found == typed and type(found) is type(typed)


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        (bool, "maybe", "^ntk's x must be on or off, got 'maybe'"),
        (bool, 1.5, "^ntk's x must be on or off, got 1.5"),
        (int, "banana", "^ntk's x must be a whole number, got 'banana'"),
        (int, "2.5", "^ntk's x must be a whole number, got '2.5'"),
        (int, True, "^ntk's x must be a whole number, got True"),
        (float, "nan", "^ntk's x must be a number, got 'nan'"),
        (float, None, "^ntk's x must be a number, got None"),
        (float, [1], "^ntk's x must be a number"),
        (Literal["keep", "scale"], "cut", "^ntk's x must be one of keep, scale, got 'cut'"),
        (int | Literal["document"], "all", "^ntk's x must be a whole number or document, got 'all'"),
        (WORDS, "1", "^ntk's x must be a whole number of at least 2 words, got '1'"),
        (WORDS | Literal["all"], 0, "^ntk's x must be a whole number of at least 2 words or all, got 0"),
        (
            Annotated[float, Field(gt=0, le=1)],
            1.5,
            "^ntk's x must be a number above 0 and at most 1, got 1.5",
        ),
    ],
)
def test_a_value_of_another_kind_gets_one_sentence(annotation, value, message) -> None:
    with pytest.raises(InputError, match=message):
        read("ntk's x", annotation, value)


def test_tokens_are_numbers_or_thousands_and_others_get_one_sentence() -> None:
    for text, tokens in (("4096", 4096), ("4k", 4096), ("32K", 32768), (512, 512)):
        assert read_tokens("the target", text) == tokens
    for other in ("", "4x", "-4", "4.5k", "many", 0, -1, 4.5, True, None):
        with pytest.raises(InputError, match=r"^the target must be a whole number of at least 1 token"):
            read_tokens("the target", other)


# ---- the zoo -----------------------------------------------------------------------------------------------

PAPER = {
    "e5-base": "intfloat/e5-base-v2",
    "e5-rope-base": "dwzhu/e5rope-base",
    "e5-base-4k": "dwzhu/e5-base-4k",
    "gte-base": "thenlper/gte-base",
    "bge-base": "BAAI/bge-base-en-v1.5",
    "contriever": "facebook/contriever",
    "gtr-base": "sentence-transformers/gtr-t5-base",
    "e5-mistral": "intfloat/e5-mistral-7b-instruct",
    "jina-v2": "jinaai/jina-embeddings-v2-base-en",
    "nomic-v1": "nomic-ai/nomic-embed-text-v1",
    "bge-m3": "BAAI/bge-m3",
    "ada-002": "openai/text-embedding-ada-002",
    "bm25": "mteb/baseline-bm25s",
}


def test_every_model_of_the_paper_has_its_alias() -> None:
    assert {alias: ZOO[alias].hub_id for alias in PAPER} == PAPER


#: What the files of a model do not say, or say wrongly: by its paper, its card or mteb's registry.
TRAINED = {
    "e5-base": 512, "e5-rope-base": 512, "e5-base-4k": 512, "gtr-base": 512, "e5-mistral": 4096, "nomic-v1": 2048,
    "ada-002": 8191, "nomic-v1.5": 2048, "qwen3-0.6b": 32768, "qwen3-4b": 32768, "qwen3-8b": 32768,
    "nemotron3-1b": 32768, "nemotron3-8b": 32768, "harrier-270m": 32768, "harrier-0.6b": 32768, "ultrabert": 32768,
    "mdenseon": 8192, "granite-r2": 8192, "granite-small-r2": 8192, "granite-multi-r2": 8192,
    "gte-moderncolbert": 8192,
}  # fmt: skip


def test_trained_lengths_are_those_of_the_models() -> None:
    assert {alias: entry.trained_len for alias, entry in ZOO.items() if entry.trained_len} == TRAINED


def test_aliases_are_short_and_each_is_one_entry_with_its_hub_id_at_a_whole_commit() -> None:
    assert len({entry.hub_id for entry in ZOO.values()}) == len(ZOO)
    for alias, entry in ZOO.items():
        assert re.fullmatch(r"[a-z0-9.-]{3,20}", alias)
        assert entry_of(entry.hub_id) is entry is entry_of(alias)
        assert not entry.revision or re.fullmatch(r"[0-9a-f]{40}", entry.revision), alias
    assert entry_of("org/unheard-of") is None


def test_prompts_and_revisions_are_those_of_mteb() -> None:
    """mteb may move on; then this tells which entry to look at."""
    entries = [entry for name in MODEL_REGISTRY if (entry := entry_of(name)) and entry.source == "hub"]
    assert len(entries) > 60
    for entry in entries:
        meta = MODEL_REGISTRY[entry.hub_id]
        assert meta.revision == entry.revision, entry.hub_id
        prompts = meta.loader_kwargs.get("model_prompts", {})
        query = prompts.get("Retrieval-query") or prompts.get("query")
        if query:
            assert entry.query_prompt == query, entry.hub_id


@pytest.mark.parametrize("tail", ["@4k", ":weights=idf", ",weights=idf", "@4k:size=128,overlap=8"])
@pytest.mark.parametrize("base", ["../mini", "mini-ape", "org/name", "name"])
def test_settings_without_a_strategy_are_told_where_they_belong(base: str, tail: str) -> None:
    for resolve in (full_base, recommended):
        with pytest.raises(
            InputError, match=rf"must follow \+STRATEGY, such as {re.escape(f'{base}+pcw{tail}')}, got"
        ):
            resolve(base + tail)


def test_a_folder_may_have_any_signs_in_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "a@b,c=d"
    folder.mkdir()
    assert full_base(str(folder)) == str(folder)


@pytest.mark.parametrize(
    ("full", "short"),
    [
        ("pcw@32768:fusion=bm25,query=tokens,vectors=16,whiten=0.5", "hybrid:whiten=0.5"),
        ("pcw@32k:size=128,vectors=window", "windows:size=128"),
        ("pcw@32768:score=softmax,vectors=window", "windows:score=softmax"),
        ("pcw@8192:fusion=bm25,vectors=window", "windows@8192:fusion=bm25"),
        ("pcw@32768:query=tokens,vectors=32", "pcw@32768:query=tokens,vectors=32"),
        ("none@512:fusion=bm25,query=tokens,vectors=16", "none@512:fusion=bm25,query=tokens,vectors=16"),
    ],
)
def test_the_shortest_name_that_means_the_same_is_shown(full: str, short: str) -> None:
    found = with_preset(f"e5-base+{full}")
    assert found == f"e5-base+{short}"
    method = Method.parse(found)
    assert method == Method.parse(f"e5-base+{full}") and method.label == found
