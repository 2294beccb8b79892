"""A hub with a tiny BERT as intfloat/e5-base-v2, and a base of its own that mteb does not know."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mteb_longembed.zoo import ZOO
from tests import tiny
from tests.loopback_hub import LoopbackHub

CARD = "---\nlicense: mit\nlanguage: [en, de]\n---\n# A base\n"


@pytest.fixture(scope="package")
def base_folder(tmp_path_factory) -> Path:
    more = {"max_position_embeddings": 512, "prompts": {"query": "query: ", "document": "passage: "}}
    return tiny.saved("bert", tmp_path_factory.mktemp("base"), **more)


@pytest.fixture(scope="package")
def hub(base_folder, tmp_path_factory) -> Iterator[LoopbackHub]:
    wide = tmp_path_factory.mktemp("wide")
    made = tiny.sentence_transformer("bert", wide, dense=True)
    made.similarity_fn_name = "dot"
    made.save_pretrained(str(wide / "model"), create_model_card=False)
    (wide / "model" / "README.md").write_text(CARD)
    with LoopbackHub() as hub:
        hub.add("intfloat/e5-base-v2", base_folder, sha=str(ZOO["e5-base"].revision))
        hub.add("org/unlisted", wide / "model")
        yield hub
