"""What other tools see of our models: the name of a class, its bases, copies, and short representations."""

import copy
import pickle

import numpy as np
import pytest
from sentence_transformers import MultiVectorEncoder, SentenceTransformer

import mteb_longembed as longembed
from mteb_longembed.encoders import model as definitions
from tests import tiny

TEXTS = [tiny.text(n, n) for n in (5, 40)]


def made(name: str) -> SentenceTransformer:
    if name == "adapted":
        return longembed.adapt("mini-ape+pcw@1k", TEXTS * 20, device="cpu", show_progress_bar=False)
    if name == "adapted stock":
        return longembed.adapt("mini-ape", TEXTS * 20, device="cpu", show_progress_bar=False)
    return longembed.load(name, device="cpu")


NAMES = ["mini-ape", "mini-rope+ntk@1k", "mini-ape+pcw@1k:vectors=window", "adapted", "adapted stock"]


@pytest.fixture(scope="module", params=NAMES)
def model(request) -> SentenceTransformer:
    return made(request.param)


def test_tools_recognise_the_class_by_its_name(model):
    """BERTopic 0.17 and KeyBERT 0.9 ask exactly so, and load another model if it is not there."""
    assert "sentence_transformers" in str(type(model))
    assert isinstance(model, (SentenceTransformer, MultiVectorEncoder))


@pytest.mark.parametrize("again", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_are_of_the_same_class_and_encode_alike(model, again):
    other = again(model)
    assert type(other) is type(model)
    for a, b in zip(model.encode_document(TEXTS), other.encode_document(TEXTS), strict=True):
        assert np.abs(a - b).max() < 1e-6


def test_saved_folders_name_the_modules_that_older_versions_read(tmp_path):
    made("mini-ape+pi@1k").save_pretrained(str(tmp_path / "saved"))
    assert (
        "mteb_longembed.encoders.model.LongTransformer" in (tmp_path / "saved" / "modules.json").read_text()
    )
    loaded = longembed.load(str(tmp_path / "saved"), device="cpu")
    assert type(loaded) is definitions.LongSentenceTransformer


def test_what_a_notebook_shows_of_a_model_is_short(model):
    assert len(repr(model)) < 3_000
