"""A row is found by everything that determines its embedding, and by nothing else."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import mteb_longembed as longembed
from mteb_longembed.encoders.engine.keys import row_keys
from mteb_longembed.encoders.engine.store import EmbeddingStore
from tests import tiny

CPU = torch.device("cpu")
SHORT, LONG = np.arange(5, 15, dtype=np.int32), np.arange(5, 55, dtype=np.int32)


def keys(model: Any, prompt: str | None = None, **kwargs) -> list[bytes]:
    """The keys of a short and of a long document."""
    with warnings.catch_warnings(action="error"):
        keys_of = row_keys(model, CPU, kwargs)
    assert keys_of is not None
    return keys_of([SHORT, LONG], prompt)


def test_strategies_of_one_base_share_what_they_leave_alone_and_nothing_else(base_folder: Path) -> None:
    models = [longembed.extend(base_folder, key) for key in ("none", "pi", "gp", "rp", "pcw")]
    models += [longembed.extend(base_folder, "pi", 64), longembed.extend(base_folder, "pi", logn=False)]
    pairs = [keys(model) for model in models]
    assert len({short for short, _ in pairs}) == 1
    assert len({long for _, long in pairs}) == len(models)


def test_a_strategy_that_changes_short_documents_too_gives_them_another_key() -> None:
    plain, ntk = longembed.load("mini-rope"), longembed.load("mini-rope+ntk")
    assert keys(plain)[0] != keys(ntk)[0]


def test_a_row_depends_on_prompt_and_how_torch_computes(base_folder: Path) -> None:
    model: Any = longembed.extend(base_folder, "pi")
    model[1].include_prompt = False
    model.remember(model.checkpoint)
    pairs = [keys(model), keys(model, prompt="query : ")]
    old = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        pairs.append(keys(model))
    finally:
        torch.set_float32_matmul_precision(old)
    with torch.autocast("cpu", torch.bfloat16):
        pairs.append(keys(model))
    assert len({short for short, _ in pairs}) == len({long for _, long in pairs}) == len(pairs)


def test_another_base_or_number_type_gives_other_keys(base_folder: Path, tmp_path: Path) -> None:
    other = tiny.saved("bert", tmp_path, dense=True, seed=1)
    models = [longembed.extend(folder, "pi") for folder in (base_folder, other)]
    models.append(longembed.extend(base_folder, "pi", dtype="bf16"))
    assert len({keys(model)[0] for model in models}) == 3


def test_a_changed_model_never_reads_old_rows_and_says_so(base_folder, tmp_path: Path) -> None:
    model: Any = longembed.extend(base_folder, "pi")
    model.store = EmbeddingStore(tmp_path / "store")
    texts = [tiny.text(10), tiny.text(50)]
    original = model.encode(texts)
    with torch.no_grad():
        model[0].model.encoder.layer[0].output.dense.weight.mul_(-1)
    with pytest.warns(RuntimeWarning, match="store of embeddings is off for this model: it was changed"):
        changed = model.encode(texts)
    assert np.abs(changed - original).max() > 1e-3
