"""What a name asks of a search, apart from the model."""

from pathlib import Path
from typing import Any

import mteb
import pytest

from mteb_longembed.encoders import repository
from mteb_longembed.encoders.spec import ModelSpec
from mteb_longembed.errors import IncompatibleError, InputError
from mteb_longembed.retrieval.scorer import full_name
from mteb_longembed.retrieval.settings import LEXICAL_WEIGHT, read_name, typed_name
from tests import tiny


@pytest.mark.parametrize(
    ("text", "model", "settings"),
    [
        ("e5-base", ModelSpec("e5-base"), {}),
        ("./a+b+pcw:fusion=bm25", ModelSpec("./a+b", "pcw"), {"fusion": "bm25"}),
        (
            "e5-base+pcw@4k:size=64,vectors=window,fusion=bm25,lexical_weight=0.3",
            ModelSpec("e5-base", "pcw", "4k", vectors="window", params={"size": "64"}),
            {"fusion": "bm25", "lexical_weight": 0.3},
        ),
        (
            f"e5-base+pcw:fusion=bm25,lexical_weight={LEXICAL_WEIGHT},score=max",
            ModelSpec("e5-base", "pcw"),
            {"fusion": "bm25"},
        ),
    ],
)  # fmt: skip
def test_a_name_is_a_model_and_a_search(text: str, model: ModelSpec, settings: dict[str, Any]) -> None:
    spec, found = read_name(text)
    assert spec == model and found.given == settings
    assert read_name(typed_name(spec, found)) == (spec, found)


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


@pytest.mark.parametrize("tail", ["ntk:weights=sif", "pcw:vectors=window,weights=idf"])
def test_weights_on_another_pooling_are_refused_before_weights_load(tail: str, tmp_path: Path) -> None:
    base = tiny.saved("bert", tmp_path, pooling="cls")
    (base / "model.safetensors").unlink()
    message = r"weights=\w+ averages the tokens of a document, .* cls pooling"
    with pytest.raises(IncompatibleError, match=message):
        mteb.get_model_meta(f"{base}+{tail}")
