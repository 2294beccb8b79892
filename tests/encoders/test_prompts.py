"""A prompt has no weight, however it is brought: saved, named or at the call. Directions and lengths are compared."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mteb
import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

import mteb_longembed as longembed
from tests import tiny

CORPUS = [f"aa {tiny.text(8 + 4 * i, i)} bb" for i in range(12)]
TEXTS = ["aa", "zz aa bb cc", tiny.text(30), tiny.text(60)]
#: Three words of it are in no document.
PROMPT = "xx yy 9 : "
#: method -> how a model encodes
METHODS: dict[str, Callable[[Any], np.ndarray]] = {
    "saved": lambda model: model.encode_document(TEXTS),
    "named": lambda model: model.encode(TEXTS, prompt_name="document"),
    "at the call": lambda model: model.encode(TEXTS, prompt=PROMPT),
}
PROMPTS = {"document": PROMPT, "query": ""}


def expected(model: Any) -> np.ndarray:
    """By hand, in fp64: the weighted mean of the texts' own tokens, through the modules behind the pooling."""
    prompt = len(model.tokenizer(PROMPT, add_special_tokens=False)["input_ids"])
    table = next(iter(model[1].parameters()))[:, 0].double().numpy()
    means = []
    for text in TEXTS:
        row = model.tokenizer(PROMPT + text, truncation=True, max_length=model.max_seq_length)["input_ids"]
        features = {
            "input_ids": torch.tensor([row]),
            "attention_mask": torch.ones(1, len(row), dtype=torch.long),
        }
        with torch.inference_mode():
            states = model[0](features)["token_embeddings"][0].double().numpy()
        weights = table[row].copy()
        weights[: prompt + 1] = 0  # with the special token before it
        means.append(weights @ states / weights.sum())
    features = {"sentence_embedding": torch.tensor(np.array(means), dtype=torch.float32)}
    with torch.inference_mode():
        for module in list(model)[3:]:
            features = module(features)
    return features["sentence_embedding"].numpy()


@pytest.mark.parametrize("saved", [PROMPTS, None])
@pytest.mark.parametrize(("key", "dense"), [("none", False), ("pi", True)])
def test_vectors_of_an_extended_model_have_the_direction_and_length_of_their_own_tokens(
    key, dense, saved, tmp_path
) -> None:
    base = tiny.saved("bert", tmp_path, dense=dense, prompts=saved)
    model = longembed.load(f"{base}+{key}", device="cpu", similarity_fn_name="dot")
    del model[-1]  # its Normalize
    weighted = tiny.adapted(model, CORPUS, whiten=0)
    want = expected(weighted)
    for way in METHODS if saved else ["at the call"]:
        assert np.allclose(METHODS[way](weighted), want, rtol=1e-4, atol=1e-5), way


@pytest.mark.parametrize(("saved", "whiten"), [(PROMPTS, 0), (PROMPTS, 0.5), (None, 0.5)])
def test_stock_modules_give_the_directions_of_ours(saved, whiten, tmp_path: Path) -> None:
    base = tiny.saved("bert", tmp_path, prompts=saved)
    stock = tiny.adapted(base, CORPUS, whiten=whiten)
    ours = tiny.adapted(longembed.extend(base, "none", device="cpu"), CORPUS, whiten=whiten)
    assert type(stock) is SentenceTransformer and type(ours) is not SentenceTransformer
    documents = [model.encode_document(CORPUS) for model in (stock, ours)]
    for way in METHODS if saved else ["at the call"]:
        scores = [METHODS[way](model) @ rows.T for model, rows in zip((stock, ours), documents, strict=True)]
        assert np.abs(scores[0] - scores[1]).max() < 1e-5, way


@pytest.mark.parametrize("name", ["passage", "corpus"])
def test_a_prompt_saved_as_passage_or_corpus_is_that_of_documents(name: str, tmp_path: Path) -> None:
    base = tiny.saved("bert", tmp_path, prompts={"query": "query : ", name: "passage : "})
    file = base / "config_sentence_transformers.json"
    settings = json.loads(file.read_text())
    settings["prompts"] = {"query": "query : ", "document": "", name: "passage : "}
    file.write_text(json.dumps(settings))
    with pytest.warns(UserWarning, match="the prompt of documents is empty, and another one is 'passage : '"):
        model = longembed.load(f"{base}+pi@64", device="cpu")
    want = model.encode(TEXTS, prompt="passage : ")
    assert np.array_equal(model.encode_document(TEXTS), want)
    with pytest.warns(UserWarning, match="documents get that one"):
        encoder = mteb.get_model(f"{base}+pi@64", device="cpu")
    assert encoder.model.prompts["document"] == "passage : "
