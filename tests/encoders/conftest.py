"""The bases that most tests of this room extend, loaded and on a hub."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from mteb.models import model_implementations
from sentence_transformers import SentenceTransformer

from tests import tiny
from tests.loopback_hub import LoopbackHub


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> SentenceTransformer:
    """A tiny BERT with prompts of two tokens and a layer behind the pooling."""
    folder, prompts = tmp_path_factory.mktemp("base"), {"query": "query : ", "document": "passage : "}
    return tiny.sentence_transformer("bert", folder, dense=True, prompts=prompts, name="tiny/bert")


BASE_CARD = """---
license: other
license_name: some-licence
license_link: https://example.org/licence
language:
- en
- de
tags: [mteb]
---
# A base
"""


@pytest.fixture(scope="module")
def base_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved BERT with a card."""
    folder = tmp_path_factory.mktemp("base")
    tiny.sentence_transformer("bert", folder, prompts={"query": "query: ", "document": "passage: "})
    (folder / "model" / "README.md").write_text(BASE_CARD)
    return folder / "model"


@pytest.fixture(scope="module")
def hub(base_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackHub]:
    """A hub with `org/bert` and `org/modernbert`."""
    rotary = tmp_path_factory.mktemp("rotary")
    tiny.sentence_transformer("modernbert", rotary, local_attention=8)
    (rotary / "model" / "README.md").write_text(BASE_CARD.replace("license: other", "license: mit"))
    with LoopbackHub() as hub:
        hub.add("org/bert", base_folder)
        hub.add("org/modernbert", rotary / "model")
        yield hub


@pytest.fixture
def online(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch, tmp_path_factory) -> LoopbackHub:
    """This process uses that hub, and mteb knows nothing of its models yet."""
    hub.patch(monkeypatch, tmp_path_factory.getbasetemp() / "hf-home")
    monkeypatch.setenv("HF_TOKEN", "hf_of_a_test")
    for kept in ("_made", "_asked"):
        monkeypatch.setattr(model_implementations.MODEL_REGISTRY, kept, {})
    hub.requests.clear()
    return hub
