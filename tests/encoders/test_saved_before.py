"""Folders that version 0.6 saved still open, with the same vectors."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

import mteb_longembed as longembed
from tests import tiny

LO, LT = tiny.TRAINED, 8 * tiny.TRAINED
TEXTS = [tiny.text(n, n) for n in (5, LO, LO + 1, LT - 3)]
OURS = "mteb_longembed.encoders."
#: Where 0.6 had our classes.
BEFORE = {
    "trunk.LongTransformer": "modules.transformer.LongTransformer",
    "heads.pooling.GroupByDocument": "modules.span_pooling.GroupByDocument",
}


def as_before(folder: Path, key: str, vectors: bool) -> None:
    """The folder in 0.6's form: its classes, and a table with one row for each position of a long document."""
    modules = json.loads((folder / "modules.json").read_text())
    pooling = "modules.span_pooling.SpanPooling" if vectors else "modules.transformer.WindowPooling"
    for module in modules:
        name = module["type"].removeprefix(OURS)
        if name == "heads.pooling.LongPooling":
            module["type"] = OURS + pooling
            file = folder / module["path"] / "config.json"
            config = json.loads(file.read_text())
            if not vectors:
                del config["vectors"]
            file.write_text(json.dumps(config))
        elif name in BEFORE:
            module["type"] = OURS + BEFORE[name]
    (folder / "modules.json").write_text(json.dumps(modules))
    if key not in ("pi", "rp"):
        return
    (weights,) = folder.glob("0_LongTransformer/*.safetensors")
    state = load_file(weights)
    (name,) = [name for name in state if name.endswith("position_embeddings.weight")]
    state[name] = state[name][LO:].clone()
    save_file(state, weights, {"format": "pt"})
    file = weights.parent / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "max_position_embeddings": LT}))


@pytest.mark.parametrize("name", ["pi", "rp", "ntk", "pcw", "pi:vectors=5", "pcw:vectors=window"])
def test_a_folder_of_an_older_version_opens_with_the_same_vectors(tmp_path: Path, name: str) -> None:
    key, _, settings = name.partition(":")
    base = tiny.saved("bert", tmp_path)
    tail = f":{settings}" if settings else ""
    model: Any = longembed.load(f"{base}+{key}@{LT}{tail}", device="cpu")
    folder = tmp_path / "saved"
    model.save_pretrained(str(folder))
    as_before(folder, key, "vectors" in name)
    opened: Any = longembed.load(folder, device="cpu")
    for got, want in zip(opened.encode_document(TEXTS), model.encode_document(TEXTS), strict=True):
        assert np.array_equal(got, want)
