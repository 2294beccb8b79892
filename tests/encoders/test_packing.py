"""Whole models on packed batches, on a CPU with the slow kernel in the place of FlashAttention: equal embeddings."""

import functools

import pytest
import torch
from sentence_transformers import SentenceTransformer

import mteb_longembed as longembed
from mteb_longembed.encoders.attention import devices
from mteb_longembed.encoders.families import attention_functions as interface
from tests import tiny
from tests.limits import same_vectors

from .families import test_rotary as rotary

TEXTS, gap = rotary.TEXTS, rotary.gap
ABSOLUTE = ("bert", "roberta", "xlm-roberta", "distilbert", "electra")


@pytest.fixture
def packed(monkeypatch) -> list[int]:
    """While this is used, documents run packed; the tokens of each attention call."""
    calls: list[int] = []

    def counted(original, documents, *args, **kwargs):
        calls.append(sum(documents.lengths))
        return original(documents, *args, **kwargs)

    for name in ("attend_packed", "attend_packed_by_plan"):
        monkeypatch.setattr(interface, name, functools.partial(counted, getattr(interface, name)))
    monkeypatch.setattr(devices, "packs", lambda *given: True)
    return calls


@pytest.mark.parametrize("key", ["none", "pi", "se", "dynamic"])
@pytest.mark.parametrize("name", ["jina-v3", "modernbert", "mistral", "embeddinggemma"])
def test_rotary_models_equal_the_oracle(name, key, packed, tmp_path_factory):
    base = rotary.make(name, tmp_path_factory)
    model = rotary.extended(base, key, logn=True)
    oracle = rotary.Oracle(base, key, logn=True)
    for text, got in zip(TEXTS, model.encode(TEXTS), strict=True):
        assert gap(got, oracle.encode(text)) < 1e-5
    assert packed


@pytest.fixture(scope="module", params=ABSOLUTE)
def absolute(request, tmp_path_factory) -> SentenceTransformer:
    folder = tmp_path_factory.mktemp(request.param)
    return tiny.sentence_transformer(request.param, folder, name=f"tiny/{request.param}")


@pytest.mark.parametrize("key", ["none", "pcw", "pi"])
def test_every_kind_of_strategy_on_absolute_positions_equals_its_padded_form(absolute, key, request):
    kwargs = {} if key == "none" else {"target_len": 64, "logn": key != "pcw"}
    texts = TEXTS + ["[PAD] ab [PAD] cd " * 3]
    padded = longembed.extend(absolute, key, **kwargs).encode(texts)
    calls = request.getfixturevalue("packed")
    model = longembed.extend(absolute, key, **kwargs)
    same_vectors(model.encode(texts), padded)
    assert calls and model[0].model.config._attn_implementation == interface.PACKED
    # one document with a short and a long mate, in one forward pass
    alone = model.encode(texts[-2:-1])
    same_vectors(model.encode(texts)[-2], alone[0])


def test_training_and_models_with_attention_of_their_own_stay_padded(packed, tmp_path_factory):
    base = tiny.sentence_transformer("mpnet", tmp_path_factory.mktemp("mpnet"), name="tiny/mpnet")
    longembed.extend(base, "pi", 64).encode(TEXTS)
    model = rotary.extended(rotary.make("jina-v3", tmp_path_factory), "se")
    model(model.preprocess(TEXTS))
    assert not packed
    with torch.no_grad():
        model(model.preprocess(TEXTS))
    assert packed


def test_a_device_that_does_not_pack_gets_what_transformers_own_attention_gives(absolute):
    model = longembed.extend(absolute, "pi", 64)
    ours = model.encode(TEXTS)
    model[0].model.set_attn_implementation("sdpa")
    assert gap(model.encode(TEXTS), ours) == 0
