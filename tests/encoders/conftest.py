"""The base that most tests of this room extend."""

from __future__ import annotations

import pytest
from sentence_transformers import SentenceTransformer

from tests import tiny


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> SentenceTransformer:
    """A tiny BERT with prompts of two tokens and a layer behind the pooling."""
    folder, prompts = tmp_path_factory.mktemp("base"), {"query": "query : ", "document": "passage : "}
    return tiny.sentence_transformer("bert", folder, dense=True, prompts=prompts, name="tiny/bert")
