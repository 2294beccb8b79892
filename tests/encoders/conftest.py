"""The bases that most tests of this room extend, loaded and on a hub."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sentence_transformers import SentenceTransformer

from tests import tiny
from tests.loopback_hub import LoopbackHub


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> SentenceTransformer:
    """A tiny BERT with prompts of two tokens and a layer behind the pooling."""
    more = {"dense": True, "prompts": tiny.PROMPTS, "name": "tiny/bert"}
    return tiny.sentence_transformer("bert", tmp_path_factory.mktemp("base"), **more)


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
    prompts = {"query": "query: ", "document": "passage: "}
    return tiny.saved("bert", tmp_path_factory.mktemp("base"), BASE_CARD, prompts=prompts)


@pytest.fixture(scope="module")
def hub(base_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackHub]:
    """A hub with `org/bert` and `org/modernbert`."""
    card = BASE_CARD.replace("license: other", "license: mit")
    rotary = tiny.saved("modernbert", tmp_path_factory.mktemp("rotary"), card, local_attention=8)
    with LoopbackHub() as hub:
        hub.add("org/bert", base_folder)
        hub.add("org/modernbert", rotary)
        yield hub
