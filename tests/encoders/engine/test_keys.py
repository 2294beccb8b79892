"""A row is found by everything that determines its embedding, and by nothing else."""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers.base.modules import Dense, Router
from sentence_transformers.sentence_transformer.modules import LayerNorm, Normalize

import mteb_longembed as longembed
from mteb_longembed.encoders.model import with_head
from mteb_longembed.encoders.store import EmbeddingStore, row_keys
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


def test_heads_that_differ_behind_the_pooling_share_rows(base_folder: Path) -> None:
    model: Any = longembed.extend(base_folder, "pcw")
    maps = [Dense(32, 8), Router.for_query_document([Dense(32, 8)], [Dense(32, 8)]), LayerNorm(32)]
    heads = [model.head.unscaled(), *(replace(model.head, behind=(part, Normalize())) for part in maps)]
    assert all(keys(with_head(model, head)) == keys(model) for head in heads)
    several = with_head(model, model.head.several("window", "cosine"))
    assert keys(with_head(several, several.head.unscaled())) == keys(several) != keys(model)


@pytest.mark.parametrize("key", ["none", "pi", "rp", "gp", "pcw"])
def test_a_folder_with_the_same_weights_finds_the_rows_of_a_name(base_folder, tmp_path, key) -> None:
    model: Any = longembed.extend(base_folder, key)
    model.save_pretrained(str(tmp_path / "saved"))
    assert keys(longembed.load(tmp_path / "saved")) == keys(model)
    with (
        torch.no_grad()
    ):  # the last row of the table is that of long documents alone, where there are such rows
        model[0].model.embeddings.position_embeddings.weight[-1] += 1
    model.save_pretrained(str(tmp_path / "changed"))
    short, long = keys(longembed.load(tmp_path / "changed"))
    assert long != keys(longembed.load(tmp_path / "saved"))[1] or key == "none"
    assert (short == keys(longembed.load(tmp_path / "saved"))[0]) == (key in ("pi", "rp"))


def test_a_module_of_somebodys_own_behind_the_pooling_is_part_of_a_row(base_folder, tmp_path) -> None:
    class OfTokens(torch.nn.Module):
        def forward(self, features: dict[str, Any]) -> dict[str, Any]:
            return {**features, "sentence_embedding": features["token_embeddings"].amax(1)}

    plain: Any = longembed.extend(base_folder, "pi")
    model: Any = with_head(plain, replace(plain.head, behind=(OfTokens(), Normalize())))
    assert keys(model) != keys(plain)
    texts = [tiny.text(n) for n in (10, 50)]
    want = model.encode(texts, batch_size=1)
    model.store = EmbeddingStore(tmp_path / "store")
    for _ in range(2):
        assert np.abs(model.encode(texts, batch_size=1) - want).max() < 1e-6
    assert model.store.counts.rows_read == 2
