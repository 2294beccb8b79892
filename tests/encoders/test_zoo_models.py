"""Every alias loads through a hub as its repository is laid out, with the right prompts, pooling and ends."""

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from mteb_longembed.encoders.load import load
from mteb_longembed.zoo import ZOO
from tests import miniatures
from tests.loopback_hub import LoopbackHub

TEXTS = ["fox", "pack my aa ab box", " ".join(miniatures.TEXT[:2])]


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    with pytest.MonkeyPatch.context() as monkeypatch, LoopbackHub() as served:
        for alias in miniatures.MINIATURES:
            folder = miniatures.build(alias, tmp_path_factory.mktemp(alias))
            served.add(ZOO[alias].hub_id, folder, sha=ZOO[alias].revision)
        served.patch(monkeypatch, tmp_path_factory.mktemp("home"))
        yield served


@pytest.mark.parametrize("alias", miniatures.MINIATURES)
def test_alias_equals_the_repository_on_short_inputs_and_takes_long_ones(hub, alias):
    entry, mini = ZOO[alias], miniatures.MINIATURES[alias]
    model = load(alias)
    trained = model[0].strategy.trained_len
    assert trained == entry.trained_len or entry.trained_len is None
    assert model.model_card_data.model_name == f"{entry.hub_id}+none@{model.max_seq_length}"
    if entry.revision:
        assert model.model_card_data.base_model_revision == entry.revision
    assert model[1].pooling_mode == (entry.pooling or mini.pooling)
    for kind, prompt in (("query", entry.query_prompt), ("document", entry.document_prompt)):
        assert model.prompts.get(kind) == (mini.prompts.get(kind, "") if prompt is None else prompt)
    if mini.pooling is not None and not entry.append_eos:
        stock = SentenceTransformer(entry.hub_id, revision=entry.revision, device="cpu")
        assert np.abs(model.encode(TEXTS) - stock.encode(TEXTS)).max() < 1e-5


def test_the_pinned_revision_is_requested(hub):
    hub.requests.clear()
    load("bge-base+gp")
    requested = [path for path in hub.requests if "resolve" in path]
    assert requested and all(ZOO["bge-base"].revision in path for path in requested)


def test_e5_mistral_ends_every_input_in_eos_and_has_no_sliding_window(hub):
    model = load("e5-mistral")
    ids = model.preprocess(["the fox", "a much longer text " * 3000])
    last = ids["attention_mask"].sum(1) - 1
    assert (ids["input_ids"][torch.arange(2), last] == model.tokenizer.eos_token_id).all()
    assert ids["input_ids"].shape[1] == 4096
    assert model[0].config.sliding_window is None
    assert model.prompts["query"].endswith("Query: ") and model.prompts["document"] == ""
