"""The engine with a store: equal numbers, nothing twice, every kind of output."""

import contextlib
import sqlite3
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

import mteb_longembed as longembed
from mteb_longembed.encoders.model import LongSentenceTransformer
from mteb_longembed.encoders.store import FILE, Counts, EmbeddingStore
from mteb_longembed.errors import NumberError
from tests import tiny

LENGTHS = [5, 16, 17, 64, 64, 40, 100]
TEXTS = [tiny.text(n, seed) for seed, n in enumerate(LENGTHS)]


def stored(base: SentenceTransformer, folder: Path) -> LongSentenceTransformer:
    extended = longembed.extend(base, "pi")
    extended.store = EmbeddingStore(folder)
    return extended


def test_a_second_run_reads_everything_bit_for_bit_whatever_its_batches(base, tmp_path) -> None:
    plain = longembed.extend(base, "pi").encode(TEXTS)
    first = stored(base, tmp_path)
    new = first.encode(TEXTS)
    assert np.abs(new - plain).max() < 1e-6  # the Dense maps each vector alone
    assert first.store.counts == Counts(7, sum(LENGTHS), 0)
    second = stored(base, tmp_path)
    assert second.encode(TEXTS).tobytes() == new.tobytes()
    assert second.store.counts == Counts(0, 0, 7)
    order = [6, 2, 4, 0, 1, 3, 5]
    for size in (1, 3):
        assert second.encode([TEXTS[i] for i in order], batch_size=size).tobytes() == new[order].tobytes()
    assert second.store.counts.rows_encoded == 0


def test_only_what_is_missing_runs_again(base: SentenceTransformer, tmp_path: Path) -> None:
    plain = stored(base, tmp_path).encode(TEXTS, batch_size=1)
    with contextlib.closing(sqlite3.connect(tmp_path / FILE)) as file, file:
        file.execute("DELETE FROM rows WHERE rowid = 3")
    second = stored(base, tmp_path)
    assert second.encode(TEXTS, batch_size=1).tobytes() == plain.tobytes()
    assert second.store.counts.rows_encoded == 1


def test_one_row_serves_every_output_form(base: SentenceTransformer, tmp_path: Path) -> None:
    extended = stored(base, tmp_path)
    plain = extended.encode(TEXTS)
    extended.store.counts = Counts()
    assert np.array_equal(extended.encode(TEXTS, truncate_dim=8), plain[:, :8])
    extended.encode(TEXTS, normalize_embeddings=True)
    extended.encode(TEXTS, convert_to_tensor=True)
    assert extended.store.counts.rows_encoded == 0
    tokens = extended.encode(TEXTS, output_value="token_embeddings")
    assert [len(value) for value in tokens] == LENGTHS


def test_what_is_not_finite_is_never_stored(base: SentenceTransformer, tmp_path: Path) -> None:
    extended = stored(base, tmp_path)
    with torch.no_grad():
        extended[0].model.embeddings.word_embeddings.weight[300] = float("nan")
    extended.remember(extended.checkpoint)  # as if it had been built so: a changed model has no store
    word = tiny.WORDS[300 - 5]
    with pytest.raises(NumberError):
        extended.encode([*TEXTS[:2], f"{word} " * 30], batch_size=1)
    # the longest text comes first
    assert not (tmp_path / FILE).exists()
