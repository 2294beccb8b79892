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


@pytest.fixture(scope="module")
def hub(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackHub]:
    """A hub with `org/bert` and `org/modernbert`."""
    rotary = tiny.saved("modernbert", tmp_path_factory.mktemp("rotary"), tiny.CARD, local_attention=8)
    with LoopbackHub() as hub:
        hub.add("org/bert", folder)
        hub.add("org/modernbert", rotary)
        yield hub
