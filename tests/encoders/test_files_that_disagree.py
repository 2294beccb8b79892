"""Folders whose files say two things: the model does what it was trained with, and says so once."""

import json
from pathlib import Path

import mteb
import numpy as np
import pytest

import mteb_longembed as longembed
from tests import tiny

TEXT = tiny.text(12, 1)


@pytest.mark.parametrize("name", ["passage", "corpus"])
def test_a_prompt_saved_as_passage_or_corpus_is_that_of_documents(name: str, tmp_path: Path) -> None:
    base = tiny.saved("bert", tmp_path, prompts={"query": "query : ", name: "passage : "})
    file = base / "config_sentence_transformers.json"
    settings = json.loads(file.read_text())
    settings["prompts"] = {"query": "query : ", "document": "", name: "passage : "}
    file.write_text(json.dumps(settings))
    with pytest.warns(UserWarning, match="the prompt of documents is empty, and another one is 'passage : '"):
        model = longembed.load(f"{base}+pi@64", device="cpu")
    want = model.encode([TEXT], prompt="passage : ")
    assert np.array_equal(model.encode_document([TEXT]), want)
    with pytest.warns(UserWarning, match="documents get that one"):
        encoder = mteb.get_model(f"{base}+pi@64", device="cpu")
    assert encoder.model.prompts["document"] == "passage : "
