"""Real weights of a learned sparse model, and all-MiniLM-L6-v2 as a model with late interaction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from sentence_transformers import MultiVectorEncoder, SparseEncoder
from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
from sentence_transformers.sentence_transformer.modules import Normalize, Transformer
from sentence_transformers.sparse_encoder.modules import SpladePooling

import mteb_longembed as longembed

pytestmark = pytest.mark.real

LICENSE = (Path(__file__).parents[2] / "LICENSE").read_text(encoding="utf-8")
SHORT = ["Who may use the work?", LICENSE[:300]]
STRATEGIES = ["none", "pcw", "ntk", "pi", "gp", "rp"]


@pytest.fixture(scope="module")
def sparse(splade: Path) -> SparseEncoder:
    inner = Transformer(str(splade), transformer_task="fill-mask")
    made = SparseEncoder(modules=[inner, SpladePooling()], device="cpu")
    made.model_card_data.model_name = "real/splade-tiny"
    return made


@pytest.fixture(scope="module")
def late(minilm: Path) -> MultiVectorEncoder:
    expansion: Any = {"strategy": "fixed", "attend": False, "length": 32}
    inner = Transformer(str(minilm), query_expansion=expansion)
    behind = [MultiVectorMask([",", "."]), Normalize(module_input_name="token_embeddings")]
    made = MultiVectorEncoder(modules=[inner, *behind], device="cpu")
    made.model_card_data.model_name = "real/minilm"
    return made


@pytest.mark.parametrize("key", STRATEGIES)
def test_short_texts_and_first_windows_of_a_sparse_model_are_those_of_stock(
    sparse: SparseEncoder, key: str
) -> None:
    model: Any = longembed.extend(sparse, key)
    for encode in ("encode_query", "encode_document"):
        got, want = getattr(model, encode)(SHORT), getattr(sparse, encode)(SHORT)
        assert torch.equal(got.to_dense(), want.to_dense())
    if key == "pcw":
        # a longer text has all words of its first window, and more
        whole, first = (one.encode_document([LICENSE]).to_dense() for one in (model, sparse))
        assert (whole >= first - 1e-5).all() and (whole > 0).sum() > (first > 0).sum()


@pytest.mark.parametrize("key", STRATEGIES)
def test_short_texts_and_first_windows_of_late_interaction_are_those_of_stock(
    late: MultiVectorEncoder, key: str
) -> None:
    model: Any = longembed.extend(late, key)
    for encode in ("encode_query", "encode_document"):
        got, want = getattr(model, encode)(SHORT), getattr(late, encode)(SHORT)
        assert all(torch.equal(one, two) for one, two in zip(got, want, strict=True))
    if key == "pcw":
        [whole], [first] = model.encode_document([LICENSE]), late.encode_document([LICENSE])
        assert len(whole) > 4 * len(first)
        # the last token of the first window is special
        assert float((whole[: len(first) - 1] - first[:-1]).abs().max()) < 1e-6
