"""Models that join the same windows in several ways encode each window once, and give what separate runs give."""

from pathlib import Path

import numpy as np
import pytest

import mteb_longembed as longembed
from mteb_longembed.encoders.store.store import EmbeddingStore
from tests.limits import same_vectors

from .test_span_pooling import TEXTS

WAYS = ("mean", "mean-normalized", "max", "window")


def extended(base, way, **params):
    joined = {"vectors": "window"} if way == "window" else {"agg": way}
    return longembed.extend(base, "pcw", size=8, overlap=2, short="cut", **joined, **params)


def arrays(model) -> list[np.ndarray]:
    found = model.encode_document(TEXTS)
    return [np.asarray(each.cpu() if hasattr(each, "cpu") else each) for each in found]


def stored(model, folder: Path, keeps_windows: bool = True):
    """The model with a store."""
    model.store = EmbeddingStore(folder)
    model.store.keeps_windows = keeps_windows
    return model


@pytest.mark.parametrize("first", WAYS)
@pytest.mark.parametrize("second", WAYS)
def test_windows_are_encoded_once_and_equal_a_run_without_a_store(base, tmp_path, first, second):
    expected = arrays(extended(base, second))
    one, other = (stored(extended(base, way), tmp_path) for way in (first, second))
    arrays(one)
    for got, want in zip(arrays(other), expected, strict=True):
        same_vectors(got, want)
    cut = [text for text in TEXTS if len(base.tokenizer(text)["input_ids"]) > 8]
    whole = len(set(TEXTS)) - len(set(cut))
    assert one.store.counts.rows_encoded == len(set(TEXTS))
    assert other.store.counts.rows_encoded <= whole  # what is not cut is a row of another form
    assert len(cut) >= 3


@pytest.mark.parametrize("change", [{"overlap": 1}, {"size": 7}])
def test_other_windows_are_encoded_anew(base, tmp_path, change):
    arrays(stored(extended(base, "mean"), tmp_path))
    params = {"size": 8, "overlap": 2, "short": "cut", **change}
    other = stored(longembed.extend(base, "pcw", vectors="window", **params), tmp_path)
    expected = arrays(longembed.extend(base, "pcw", vectors="window", **params))
    for got, want in zip(arrays(other), expected, strict=True):
        same_vectors(got, want)
    longest = max(TEXTS, key=len)
    assert other.store.counts.tokens_encoded >= len(base.tokenizer(longest)["input_ids"])


def test_another_pooling_or_weight_has_windows_of_its_own(base, tmp_path):
    arrays(stored(extended(base, "mean"), tmp_path))
    other = stored(extended(base, "window"), tmp_path)
    other.first.model.get_input_embeddings().weight.data[7] += 1
    arrays(other)
    assert other.store.counts.rows_read == 0
    cls = stored(extended(base, "mean-normalized"), tmp_path)
    cls.pooling.pooling_mode = "cls"
    arrays(cls)
    assert cls.store.counts.rows_read == 0


def test_windows_are_kept_only_where_somebody_asks(base, tmp_path):
    arrays(stored(extended(base, "mean"), tmp_path, keeps_windows=False))
    other = stored(extended(base, "window"), tmp_path)
    arrays(other)
    assert other.store.counts.rows_read == 0


def test_spans_of_tokens_do_not_come_from_windows(base, tmp_path):
    arrays(stored(extended(base, "mean"), tmp_path))
    spans = longembed.extend(base, "pcw", size=8, overlap=2, short="cut", vectors=3)
    expected = arrays(longembed.extend(base, "pcw", size=8, overlap=2, short="cut", vectors=3))
    stored(spans, tmp_path)
    for got, want in zip(arrays(spans), expected, strict=True):
        same_vectors(got, want)
