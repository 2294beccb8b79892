"""A record is there as a whole or not at all, and only for what it was made of."""

from __future__ import annotations

import multiprocessing
import os
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

import mteb_longembed as longembed
from mteb_longembed.encoders.engine.fingerprint import model_key
from mteb_longembed.encoders.engine.store import EmbeddingStore, record_key
from mteb_longembed.encoders.model import LongSentenceTransformer
from mteb_longembed.errors import InputError
from tests import tiny

KEY = "ab" + "0" * 62
ARRAY = np.arange(12, dtype=np.float32).reshape(3, 4)
TEXTS = [tiny.text(n, seed) for seed, n in enumerate([5, 16, 17, 64, 64, 40, 100])]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> SentenceTransformer:
    made = tiny.sentence_transformer("bert", tmp_path_factory.mktemp("base"))
    made.model_card_data.model_name = "tiny/bert"
    return made


def stored(base: SentenceTransformer, folder: Path, **kwargs: object) -> LongSentenceTransformer:
    extended = longembed.extend(base, "pi", **kwargs)
    extended.store = EmbeddingStore(folder)
    return extended


def records(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.rec"))


def forwards(extended: LongSentenceTransformer, texts: list[str], **kwargs: object) -> int:
    """Documents that ran through the model."""
    seen: list[int] = []
    hook = extended[0].register_forward_pre_hook(lambda module, args: seen.append(len(args[0]["input_ids"])))
    extended.encode(texts, **kwargs)
    hook.remove()
    return sum(seen)


def test_what_was_put_is_read_back_bit_for_bit(tmp_path: Path) -> None:
    store = EmbeddingStore(tmp_path)
    assert store.get(KEY) is None
    store.put(KEY, ARRAY)
    assert store.get(KEY).tobytes() == ARRAY.tobytes()


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "other", "grown"])
def test_a_damaged_record_is_removed_with_a_warning(tmp_path: Path, damage: str) -> None:
    store = EmbeddingStore(tmp_path)
    store.put(KEY, ARRAY)
    [path] = records(tmp_path)
    blob = path.read_bytes()
    other = EmbeddingStore(tmp_path / "second")
    other.put("cd" + KEY[2:], ARRAY)
    flipped = bytearray(blob)
    flipped[-3] ^= 4
    damaged = {
        "truncated": blob[:-7],
        "flipped": bytes(flipped),
        "empty": b"",
        "other": records(tmp_path / "second")[0].read_bytes(),
        "grown": blob + b"x",
    }
    path.write_bytes(damaged[damage])
    with pytest.warns(RuntimeWarning, match="is damaged and its documents are encoded again"):
        assert store.get(KEY) is None
    assert not path.exists()
    store.put(KEY, ARRAY)
    assert store.get(KEY).tobytes() == ARRAY.tobytes()


def test_a_half_written_record_is_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(self: Path, target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", killed)
    store = EmbeddingStore(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        store.put(KEY, ARRAY)
    assert records(tmp_path) == []
    assert store.get(KEY) is None


def test_the_least_recently_used_records_go_when_the_store_is_full(tmp_path: Path) -> None:
    keys = [f"{i:02x}" + "0" * 62 for i in range(10)]
    size = len(ARRAY.tobytes()) + 150
    store = EmbeddingStore(tmp_path, max_bytes=4 * size)
    for age, key in enumerate(keys):
        store.put(key, ARRAY)
        if store._path(key).exists():
            os.utime(store._path(key), (age, age))
        if store._path(keys[0]).exists():
            assert store.get(keys[0]) is not None  # used, so it stays
    left = [key for key in keys if store._path(key).exists()]
    assert keys[0] in left
    assert keys[-1] in left
    assert sum(path.stat().st_size for path in records(tmp_path)) <= 4 * size


def test_what_a_killed_writer_left_behind_is_removed_after_a_day(tmp_path: Path) -> None:
    part = tmp_path / "ab" / "killed.part"
    part.parent.mkdir()
    part.write_bytes(b"half")
    EmbeddingStore(tmp_path).put(KEY, ARRAY)
    assert part.exists()  # another process may be writing it
    old = time.time() - 2 * 24 * 3600
    os.utime(part, (old, old))
    EmbeddingStore(tmp_path).put(KEY, ARRAY)
    assert not part.exists()


def test_a_folder_that_cannot_be_written_ends_storing_with_one_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = EmbeddingStore(tmp_path / "file")
    with pytest.warns(RuntimeWarning, match="this run goes on without it"):
        store.put(KEY, ARRAY)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.put(KEY, ARRAY)


@pytest.mark.parametrize("value", ["0", "off", "False"])
def test_the_environment_switches_the_store_off(value: str) -> None:
    assert EmbeddingStore.from_environment({"MTEB_LONGEMBED_STORE": value}) is None


def test_the_environment_names_the_folder_and_the_size(tmp_path: Path) -> None:
    environ = {"MTEB_LONGEMBED_STORE": str(tmp_path), "MTEB_LONGEMBED_STORE_GIB": "0.5"}
    store = EmbeddingStore.from_environment(environ)
    assert (store.folder, store.max_bytes) == (tmp_path, 2**29)
    usual = EmbeddingStore.from_environment({"XDG_CACHE_HOME": str(tmp_path), "LOCALAPPDATA": str(tmp_path)})
    assert usual.folder.parts[-2:] == ("mteb-longembed", "embeddings")
    with pytest.raises(
        InputError, match="MTEB_LONGEMBED_STORE_GIB must be a positive number of GiB, got 'big'"
    ):
        EmbeddingStore.from_environment({"MTEB_LONGEMBED_STORE_GIB": "big"})


def _hammer(folder: str, seed: int) -> bool:
    store = EmbeddingStore(folder, max_bytes=5000)
    draw = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(300):
            number = int(draw.integers(20))
            key = f"{number:02x}" + "0" * 62
            expected = np.full((5, 3), number, np.float32)
            found = store.get(key)
            if found is not None and found.tobytes() != expected.tobytes():
                return False
            store.put(key, expected)
    return True


def test_two_processes_share_a_store(tmp_path: Path) -> None:
    with multiprocessing.get_context("fork").Pool(3) as pool:
        assert pool.starmap(_hammer, [(str(tmp_path), seed) for seed in range(3)]) == [True] * 3


# ---- with a model -----------------------------------------------------------------------------------------


def test_a_second_run_reads_everything_and_is_equal_bit_for_bit(
    base: SentenceTransformer, tmp_path: Path
) -> None:
    plain = longembed.extend(base, "pi").encode(TEXTS)
    assert stored(base, tmp_path).encode(TEXTS).tobytes() == plain.tobytes()
    again = stored(base, tmp_path)
    assert forwards(again, TEXTS) == 0
    assert again.encode(TEXTS).tobytes() == plain.tobytes()


def test_only_what_is_missing_runs_again(base: SentenceTransformer, tmp_path: Path) -> None:
    plain = stored(base, tmp_path).encode(TEXTS, batch_size=1)
    lost = records(tmp_path)[2]
    lost.unlink()
    again = stored(base, tmp_path)
    assert forwards(again, TEXTS, batch_size=1) == 1
    assert again.encode(TEXTS, batch_size=1).tobytes() == plain.tobytes()


def test_a_damaged_record_is_encoded_again(base: SentenceTransformer, tmp_path: Path) -> None:
    plain = stored(base, tmp_path).encode(TEXTS)
    for path in records(tmp_path):
        path.write_bytes(path.read_bytes()[:50])
    with pytest.warns(RuntimeWarning, match="damaged"):
        assert stored(base, tmp_path).encode(TEXTS).tobytes() == plain.tobytes()


def test_one_record_serves_every_output_form(base: SentenceTransformer, tmp_path: Path) -> None:
    extended = stored(base, tmp_path)
    plain = extended.encode(TEXTS)
    assert forwards(extended, TEXTS, truncate_dim=8, normalize_embeddings=True) == 0
    assert np.array_equal(extended.encode(TEXTS, truncate_dim=8), plain[:, :8])
    assert forwards(extended, TEXTS, output_value="token_embeddings") == len(TEXTS)


def test_everything_that_changes_numbers_changes_the_key(base: SentenceTransformer) -> None:
    cpu = torch.device("cpu")

    def key(prompt: str | None = None, **kwargs: object) -> str:
        return model_key(longembed.extend(base, **{"strategy": "pi", **kwargs}), prompt, cpu)

    other = longembed.extend(base, "pi")
    with torch.no_grad():
        other[0].model.encoder.layer[0].output.dense.weight *= 1.001
    renamed = longembed.extend(base, "pi")
    renamed.model_card_data.base_model_revision = "another-le1"
    cut = longembed.extend(base, "pi")
    cut.max_seq_length = 32
    variants = [key(strategy="gp"), key(target_len=64), key(logn=False), key("query: ")]
    variants += [
        model_key(model, None, cpu) for model in (other, renamed, cut, longembed.extend(base, "pi").half())
    ]
    assert key() == key()
    assert len({key(), *variants}) == len(variants) + 1


def test_a_record_belongs_to_its_documents_in_their_order() -> None:
    a, b = np.array([1, 2, 3], np.int32), np.array([4], np.int32)
    keys = {record_key("m", rows) for rows in ([a, b], [b, a], [a], [np.array([1, 2, 3, 4], np.int32)])}
    assert len(keys) == 4
    assert record_key("m", [a, b]) != record_key("n", [a, b])


def test_plain_encode_keeps_nothing(base: SentenceTransformer) -> None:
    assert longembed.extend(base, "pi").store is None
