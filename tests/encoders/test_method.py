"""What a name asks of a search, apart from the model."""

from pathlib import Path
from typing import Any

import mteb
import pytest

from mteb_longembed.encoders import repository
from mteb_longembed.encoders.method import (
    BM25_SETTINGS,
    LEXICAL_WEIGHT,
    MODEL_SETTINGS,
    SEARCH_SETTINGS,
    SETTINGS,
    Method,
)
from mteb_longembed.errors import IncompatibleError, InputError
from mteb_longembed.names import MTEB_BM25
from tests import tiny
from tests.metas import full_name


@pytest.mark.parametrize(
    ("text", "method", "label"),
    [
        ("e5-base", Method("e5-base"), "e5-base"),
        ("./a+b+pcw:fusion=bm25", Method("./a+b", "pcw", fusion="bm25"), "./a+b+pcw:fusion=bm25"),
        (
            "e5-base+pcw@4k:size=64,vectors=window,fusion=bm25,lexical_weight=0.3",
            Method(
                "e5-base", "pcw", "4k", vectors="window", fusion="bm25", lexical_weight=0.3, params={"size": "64"}
            ),
            "e5-base+windows@4096:fusion=bm25,lexical_weight=0.3,size=64",
        ),
        (
            f"e5-base+pcw:fusion=bm25,lexical_weight={LEXICAL_WEIGHT},score=max",
            Method("e5-base", "pcw", fusion="bm25"),
            "e5-base+pcw:fusion=bm25",
        ),
        ("bm25", Method(MTEB_BM25, None), "bm25"),
        ("bm25@512:window=9,score=softmax", Method(MTEB_BM25, None, 512, window=9), "bm25@512:window=9"),
        ("e5-base+lexical", Method("e5-base", "lexical", window=200), "e5-base+lexical"),
        (
            "e5-base+lexical@4k:dtype=bf16,query=sentences",
            Method("e5-base", "lexical", 4096, dtype="bf16", query="sentences", window=200),
            "e5-base+lexical@4096:dtype=bf16,query=sentences",
        ),
    ],
)  # fmt: skip
def test_a_name_is_one_value_and_its_label_means_the_same(text: str, method: Method, label: str) -> None:
    assert Method.parse(text) == method and method.label == label
    assert Method.parse(label) == method and Method.parse(str(method)) == method


def test_every_setting_says_what_it_means_and_where_it_belongs() -> None:
    assert set(SETTINGS) == {*MODEL_SETTINGS, *SEARCH_SETTINGS, *BM25_SETTINGS}
    assert all(SETTINGS.values()) and {"vectors", "dtype"} <= set(MODEL_SETTINGS)
    assert set(BM25_SETTINGS) == {"window", "query", "score"}


def test_what_a_document_is_and_how_it_is_searched_stand_in_the_canonical_name(folder: Path) -> None:
    name = f"{folder}+pi:vectors=8,fusion=bm25,lexical_weight={LEXICAL_WEIGHT}"
    assert full_name(mteb.get_model_meta(name)) == "local/model+pi@128,fusion=bm25,vectors=8"
    weighted = mteb.get_model_meta(f"{folder}+pi:fusion=bm25,lexical_weight=2.5e-1")
    assert full_name(weighted) == "local/model+pi@128,fusion=bm25,lexical_weight=0.25"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("index=ivf", "^unknown parameter of se 'index'"),
        ("fusion=splade", "^fusion must be bm25, got 'splade'"),
        ("lexical_weight=0.5", "^lexical_weight needs fusion=bm25, got lexical_weight=0.5 without"),
        ("temperature=0.5", "^temperature needs fusion=bm25 or score=softmax, got temperature=0.5 without"),
        ("fusion=bm25,lexical_weight=0", "^lexical_weight must be a number above 0, got '0'"),
        ("query=tokens,vectors=4,temperature=0.1", "^query=tokens has no temperature"),
        ("query=tokens,vectors=4,weights=idf", "^query=tokens compares each token"),
        ("whiten=2", "^whiten must be a number above 0 and at most 1"),
        ("fusion=bm25,expand=mini-ape", r"^expand= of an older version is MODEL\+lexical now"),
        ("vectors=4,query=words", "^query must be one of sentences, tokens, got 'words'"),
    ],
)
def test_a_wrong_value_is_told_before_the_base_is_read(settings: str, message: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(repository.Files, "open", lambda *a, **k: pytest.fail("the base was read"))
    with pytest.raises(InputError, match=message):
        mteb.get_model_meta(f"org/x+se:{settings}")


def test_queries_by_sentence_need_several_vectors(folder: Path) -> None:
    with pytest.raises(InputError, match=r"^query=sentences compares .* it needs vectors="):
        mteb.get_model_meta(f"{folder}+pi@128:query=sentences")


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        ("pcw@128:score=softmax", r"^score=softmax joins the vectors of a document, so it needs vectors="),
        ("pcw@128:score=softmax,fusion=bm25", r"^score=softmax joins the vectors"),
    ],
)
def test_a_setting_without_an_effect_on_the_model_is_refused(folder: Path, tail: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        mteb.get_model_meta(f"{folder}+{tail}")


@pytest.mark.parametrize("tail", ["ntk:weights=sif", "pcw:vectors=window,weights=idf"])
def test_weights_on_another_pooling_are_refused_before_weights_load(tail: str, tmp_path: Path) -> None:
    base = tiny.saved("bert", tmp_path, pooling="cls")
    (base / "model.safetensors").unlink()
    message = r"weights=\w+ averages the tokens of a document, .* cls pooling"
    with pytest.raises(IncompatibleError, match=message):
        mteb.get_model_meta(f"{base}+{tail}")
