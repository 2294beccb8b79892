"""Results that are read behind the work: the same numbers, the same store, the same errors."""

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import torch

import mteb_longembed as longembed
from mteb_longembed.encoders.engine import engine as engine_module
from mteb_longembed.encoders.engine.batching import Budget, delayed
from mteb_longembed.encoders.engine.running import FEWEST, MOST, tokens_that_fit
from mteb_longembed.encoders.store.store import EmbeddingStore
from mteb_longembed.errors import NumberError
from tests import tiny

TEXTS = [tiny.text(n, seed) for seed, n in enumerate([5, 16, 17, 64, 64, 40, 100, 3, 90])]


@pytest.fixture
def model(base: Any) -> Any:
    return longembed.extend(base, "pi", 128)


@pytest.fixture
def late_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are read two batches late, as on an accelerator."""

    def late(items: Iterable[Any], ahead: int) -> Iterator[Any]:
        return delayed(items, 2)

    monkeypatch.setattr(engine_module, "delayed", late)


def test_embeddings_and_store_are_the_same_bit_for_bit(model, tmp_path, request) -> None:
    plain = model.encode(TEXTS, batch_size=2)
    request.getfixturevalue("late_reads")
    assert model.encode(TEXTS, batch_size=2).tobytes() == plain.tobytes()
    for read in (0, len(TEXTS)):
        model.store = EmbeddingStore(tmp_path)
        assert model.encode(TEXTS, batch_size=2).tobytes() == plain.tobytes()
        assert model.store.counts.rows_read == read


@pytest.mark.usefixtures("late_reads")
def test_a_document_that_is_not_finite_is_named_although_later_ones_ran_already(model: Any) -> None:
    original = model[1].forward

    def poisoned(features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        features = original(features, **kwargs)
        bad = features["attention_mask"].sum(1) == 40
        features["sentence_embedding"][bad] = torch.nan
        return features

    model[1].forward = poisoned
    with pytest.raises(NumberError, match=r"document 5 \(40 tokens"):
        model.encode(TEXTS, batch_size=1)


def test_a_budget_is_a_power_of_two_within_its_bounds() -> None:
    assert tokens_that_fit(1e9, 1) == FEWEST and tokens_that_fit(1, 1 << 50) == MOST
    for free in (3e9, 17e9, 80e9):
        tokens = tokens_that_fit(150_000, int(free))
        assert tokens & (tokens - 1) == 0
        assert tokens * 150_000 <= 0.6 * free < 2 * tokens * 150_000


def test_measured_tokens_and_the_length_decide_on_cuda_alone(model) -> None:
    cuda = Budget.of(model.first, "cuda", batch_size=32, tokens=16384)
    assert cuda.tokens == 16384 and cuda.cost(8192) == 8192
    assert Budget.of(model.first, "cpu", 32).cost(6 * 32) == 2 * 6 * 32
