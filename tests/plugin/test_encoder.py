"""Extended models behind mteb's encoder protocol."""

from pathlib import Path

import mteb
import pytest
from sentence_transformers import SentenceTransformer

import mteb_longembed as longembed
from mteb_longembed.plugin.encoder import LongEncoder
from mteb_longembed.tasks.generated.passkey import LongEmbedPasskey


@pytest.fixture
def base(folder: Path) -> SentenceTransformer:
    return SentenceTransformer(str(folder))


@pytest.fixture
def encoder(base: SentenceTransformer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LongEncoder:
    monkeypatch.setenv("MTEB_LONGEMBED_CACHE", str(tmp_path / "cache"))
    return LongEncoder(longembed.extend(base, "pi", target_len=64))


def evaluate(model: object, cache: Path) -> dict:
    task = LongEmbedPasskey().filter_eval_splits(["test_256"])
    result = mteb.evaluate(model, [task], cache=mteb.ResultCache(cache), show_progress_bar=False)
    return result.task_results[0].scores["test_256"][0]


def test_scores_are_those_of_the_stock_wrapper_and_a_second_run_encodes_nothing(
    encoder, base, tmp_path
) -> None:
    first = evaluate(encoder, tmp_path / "first")
    stock = evaluate(longembed.extend(base, "pi", target_len=64), tmp_path / "stock")
    for name in ("ndcg_at_1", "ndcg_at_10", "recall_at_10"):
        assert first[name] == pytest.approx(stock[name], abs=1e-9)
    counts = encoder.model.embedding_cache.counts
    encoded = counts.rows_encoded
    assert encoded > 0
    assert evaluate(encoder, tmp_path / "second") == first
    assert (counts.rows_encoded, counts.rows_read >= encoded) == (encoded, True)
