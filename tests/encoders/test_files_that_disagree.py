"""Folders whose files say two things: the model does what it was trained with, and says so once."""

import json
import warnings
from pathlib import Path

import mteb
import numpy as np
import pytest
from tokenizers import processors

import mteb_longembed as longembed
from tests import tiny

TEXT = tiny.text(12, 1)


def last_token_model(folder: Path, *, add_eos: bool) -> Path:
    """A model that pools the last token, whose tokenizer.json adds no end token."""
    tokens = tiny.tokenizer()
    tokens.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A", special_tokens=[("[CLS]", 0)]
    )
    tokens.eos_token = "[SEP]"
    base = tiny.saved("bert", folder, pooling="lasttoken", tokens=tokens)
    file = base / "tokenizer_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "add_eos_token": add_eos}))
    return base


def test_a_lost_end_token_is_added_and_said(tmp_path: Path) -> None:
    base = last_token_model(tmp_path, add_eos=True)
    message = r"says add_eos_token, but its tokenizer\.json adds none: every text gets \[SEP\]"
    with pytest.warns(UserWarning, match=message):
        model = longembed.load(f"{base}+none", device="cpu")
    assert model.tokenizer(TEXT)["input_ids"][-1] == model.tokenizer.eos_token_id
    (ids,) = model[0].token_ids([TEXT])
    assert ids[-1] == model.tokenizer.eos_token_id


def test_without_add_eos_token_nothing_is_added_or_said(tmp_path: Path) -> None:
    base = last_token_model(tmp_path, add_eos=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        model = longembed.load(f"{base}+none", device="cpu")
    assert model.tokenizer(TEXT)["input_ids"][-1] != model.tokenizer.eos_token_id


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
