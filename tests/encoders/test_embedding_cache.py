"""A row is there as a whole or not at all, nothing is encoded twice, and a cache never ends a run."""

import contextlib
import json
import multiprocessing
import os
import sqlite3
import stat
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

import mteb_longembed as longembed
from mteb_longembed.encoders.embedding_cache import FILE, Counts, EmbeddingCache
from mteb_longembed.encoders.model import LongSentenceTransformer
from mteb_longembed.errors import InputError, NumberError
from tests import tiny
from tests.loopback_hub import LoopbackHub

KEY = bytes(32)
KEYS = [bytes([i]) * 32 for i in range(10)]
ARRAY = np.arange(12, dtype=np.float32).reshape(3, 4)


def put(cache: EmbeddingCache, key: bytes = KEY, array: np.ndarray = ARRAY) -> None:
    cache.put_many({key: array})


def get(cache: EmbeddingCache, key: bytes = KEY) -> np.ndarray | None:
    return cache.get_many([key]).get(key)


def sql(cache: EmbeddingCache, statement: str, *values: object) -> tuple | None:
    with contextlib.closing(sqlite3.connect(cache.path)) as file, file:
        return file.execute(statement, values).fetchone()


def same(a: np.ndarray | None, b: np.ndarray) -> bool:
    return a is not None and (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())


@pytest.mark.parametrize("shape", [(1, 4), (3, 4), (0, 4)])
def test_what_was_put_is_read_back_bit_for_bit(tmp_path: Path, shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    put(EmbeddingCache(tmp_path), array=array)
    assert same(get(EmbeddingCache(tmp_path)), array)


def test_a_row_that_is_put_again_is_replaced(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path)
    put(cache)
    put(cache, array=ARRAY + 1)
    assert same(get(cache), ARRAY + 1)
    assert sql(cache, "SELECT count(*) FROM rows") == (1,)


def test_a_batch_is_written_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path)
    unwritable = Mock(shape=(3, object()))
    unwritable.astype().tobytes.return_value = b"numbers"
    with pytest.warns(RuntimeWarning, match="cannot be used"):
        cache.put_many({**dict.fromkeys(KEYS[:2], ARRAY), KEYS[2]: unwritable})
    assert EmbeddingCache(tmp_path).get_many(KEYS) == {}


# ---- damage -----------------------------------------------------------------------------------------------

FILES = {
    "no database": lambda blob: b"something else, and long enough to have a header" * 500,
    "truncated": lambda blob: blob[: len(blob) // 2],
    "no header": lambda blob: bytes(200) + blob[200:],
}


@pytest.mark.parametrize("damage", FILES)
def test_a_damaged_file_ends_storing_with_one_warning_that_names_it(tmp_path, damage):
    cache = EmbeddingCache(tmp_path)
    cache.put_many(dict.fromkeys(KEYS, ARRAY))
    cache.path.write_bytes(FILES[damage](cache.path.read_bytes()))
    reopened = EmbeddingCache(tmp_path)
    with pytest.warns(RuntimeWarning, match=f"cannot be used .*: remove {cache.path.name} if it is damaged"):
        assert not reopened.get_many(KEYS)
    with warnings.catch_warnings(action="error"):
        put(reopened)


# ---- disk -------------------------------------------------------------------------------------------------


def test_the_oldest_rows_go_when_the_cache_is_full_and_its_file_does_not_grow(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path, max_bytes=2**20)
    keys = [number.to_bytes(32, "big") for number in range(100)]
    for key in keys:  # three times the limit
        put(cache, key, np.ones((8, 1024), np.float32))
    kept = sorted(cache.get_many(keys))
    assert 5 < len(kept) < 40 and kept == keys[-len(kept) :]
    assert cache.path.stat().st_size < 1.3 * 2**20


@pytest.mark.parametrize("in_the_way", ["folder", "file"])
def test_what_cannot_be_opened_ends_storing_with_one_warning(tmp_path: Path, in_the_way: str) -> None:
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "folder" / FILE).mkdir(parents=True)
    cache = EmbeddingCache(tmp_path / in_the_way)
    with pytest.warns(RuntimeWarning, match=r"cannot be used \(.*\), and this run continues without it"):
        put(cache)
    with warnings.catch_warnings(action="error"):
        put(cache)
        assert get(cache) is None


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
def test_a_new_folder_is_its_owners_alone(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path / "new")
    put(cache)
    assert stat.S_IMODE(cache.folder.stat().st_mode) == 0o700


# ---- the environment --------------------------------------------------------------------------------------


def test_the_environment_names_the_folder_and_the_size(tmp_path: Path) -> None:
    for off in ("0", "off", "False"):
        assert EmbeddingCache.from_environment({"MTEB_LONGEMBED_CACHE": off}) is None
    environ = {"MTEB_LONGEMBED_CACHE": str(tmp_path), "MTEB_LONGEMBED_CACHE_GIB": "0.5"}
    cache = EmbeddingCache.from_environment(environ)
    assert (cache.folder, cache.max_bytes) == (tmp_path, 2**29)
    usual = EmbeddingCache.from_environment({"XDG_CACHE_HOME": str(tmp_path)})
    assert usual.folder == tmp_path / "mteb-longembed"


@pytest.mark.parametrize("size", ["big", "0", "nan"])
def test_a_size_that_is_none_is_refused(size: str) -> None:
    with pytest.raises(InputError, match="MTEB_LONGEMBED_CACHE_GIB must be a positive number of GiB"):
        EmbeddingCache.from_environment({"MTEB_LONGEMBED_CACHE_GIB": size})


# ---- several at once --------------------------------------------------------------------------------------


def _hammer(cache: EmbeddingCache, seed: int) -> bool:
    draw = np.random.default_rng(seed)
    with warnings.catch_warnings(action="error"):
        for _ in range(30):
            first = int(draw.integers(17))
            keys = [bytes([first + i]) * 32 for i in range(3)]
            expected = {key: np.full((5, 3), key[0], np.float32) for key in keys}
            rows = cache.get_many(keys)
            if any(array.tobytes() != expected[key].tobytes() for key, array in rows.items()):
                return False
            cache.put_many(expected)
    return True


def test_processes_share_a_cache(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path, max_bytes=2000)
    method = "fork" if hasattr(os, "fork") else "spawn"
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.starmap(_hammer, [(cache, seed) for seed in range(2)]) == [True] * 2


def test_threads_share_a_cache(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path, max_bytes=2000)
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(_hammer, [cache] * 3, range(3))) == [True] * 3


# ---- a model with a cache ----------------------------------------------------------------------------------

LENGTHS = [5, 16, 17, 64, 64, 40, 100]
TEXTS = [tiny.text(n, seed) for seed, n in enumerate(LENGTHS)]


def stored(base: SentenceTransformer, folder: Path) -> LongSentenceTransformer:
    extended = longembed.extend(base, "pi")
    extended.embedding_cache = EmbeddingCache(folder)
    return extended


def test_a_second_run_reads_everything_bit_for_bit_whatever_its_batches(base, tmp_path) -> None:
    plain = longembed.extend(base, "pi").encode(TEXTS)
    first = stored(base, tmp_path)
    new = first.encode(TEXTS)
    assert np.abs(new - plain).max() < 1e-6  # the Dense maps each vector alone
    assert first.embedding_cache.counts == Counts(7, sum(LENGTHS), 0)
    second = stored(base, tmp_path)
    assert second.encode(TEXTS).tobytes() == new.tobytes()
    assert second.embedding_cache.counts == Counts(0, 0, 7)
    order = [6, 2, 4, 0, 1, 3, 5]
    for size in (1, 3):
        assert second.encode([TEXTS[i] for i in order], batch_size=size).tobytes() == new[order].tobytes()
    assert second.embedding_cache.counts.rows_encoded == 0


def test_only_what_is_missing_runs_again(base: SentenceTransformer, tmp_path: Path) -> None:
    plain = stored(base, tmp_path).encode(TEXTS, batch_size=1)
    second = stored(base, tmp_path)
    sql(second.embedding_cache, "DELETE FROM rows WHERE rowid = 3")
    assert second.encode(TEXTS, batch_size=1).tobytes() == plain.tobytes()
    assert second.embedding_cache.counts.rows_encoded == 1


def test_one_row_serves_every_output_form(base: SentenceTransformer, tmp_path: Path) -> None:
    extended = stored(base, tmp_path)
    plain = extended.encode(TEXTS)
    extended.embedding_cache.counts = Counts()
    assert np.array_equal(extended.encode(TEXTS, truncate_dim=8), plain[:, :8])
    extended.encode(TEXTS, normalize_embeddings=True)
    extended.encode(TEXTS, convert_to_tensor=True)
    assert extended.embedding_cache.counts.rows_encoded == 0
    tokens = extended.encode(TEXTS, output_value="token_embeddings")
    assert [len(value) for value in tokens] == LENGTHS


def test_what_is_not_finite_is_never_stored(base: SentenceTransformer, tmp_path: Path) -> None:
    extended = stored(base, tmp_path)
    with torch.no_grad():
        extended[0].model.embeddings.word_embeddings.weight[300] = float("nan")
    extended.set_name(extended.resolved)  # as if it had been built so: a changed model has no cache
    word = tiny.WORDS[300 - 5]
    with pytest.raises(NumberError):
        extended.encode([*TEXTS[:2], f"{word} " * 30], batch_size=1)
    # the longest text comes first
    assert not (tmp_path / FILE).exists()


@pytest.mark.parametrize(
    "damage",
    [
        lambda row: np.full_like(row, np.nan),
        lambda row: np.full_like(row, 3e38),
        lambda row: row[::-1].copy(),
        lambda row: row[:-2],
    ],
    ids=["no numbers", "too large", "others", "cut off"],
)
def test_rows_that_a_disk_has_changed_are_encoded_again(base, tmp_path, damage, recwarn) -> None:
    first = stored(base, tmp_path)
    expected = first.encode(TEXTS)
    with contextlib.closing(sqlite3.connect(first.embedding_cache.path)) as file, file:
        for key, numbers in file.execute("SELECT key, numbers FROM rows").fetchall():
            changed = damage(np.frombuffer(numbers, "<f4")).tobytes()
            file.execute("UPDATE rows SET numbers = ? WHERE key = ?", [changed, key])
    for n_read in (0, len(set(TEXTS))):
        again = stored(base, tmp_path)
        assert np.array_equal(again.encode(TEXTS), expected)
        assert again.embedding_cache.counts.rows_read == n_read
    assert not [one for one in recwarn if one.category is RuntimeWarning]


CODE = """
from transformers import BertModel


class Own(BertModel):
    def forward(self, *args, **kwargs):
        output = super().forward(*args, **kwargs)
        output.last_hidden_state = output.last_hidden_state.flip(-1)
        return output
"""


def test_a_repository_s_own_code_has_vectors_of_its_own(
    tmp_path: Path, empty_hub: LoopbackHub, monkeypatch
) -> None:
    """The commit is the same: only `trust_remote_code` decides which class computes."""
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "code"))
    path = tiny.saved("bert", tmp_path)
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**config, "auto_map": {"AutoModel": "own.Own"}}))
    (path / "own.py").write_text(CODE)
    empty_hub.add("me/own", path)
    text = tiny.text(9, 1)
    found = {}
    for trusts in ("off", "on"):
        for cache in (None, EmbeddingCache(tmp_path / "cache")):
            model = longembed.load(f"me/own+none:trust_remote_code={trusts}", device="cpu")
            model.embedding_cache = cache
            found[trusts, cache is None] = model.encode_document([text])
    assert not np.allclose(found["off", True], found["on", True])
    for trusts in ("off", "on"):
        assert np.allclose(found[trusts, False], found[trusts, True], atol=1e-6)


def test_each_compute_type_has_rows_of_its_own(folder: Path, tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path / "cache")
    for name in (f"{folder}+pi@64", f"{folder}+pi@64:dtype=bf16"):
        model = longembed.load(name, device="cpu")
        model.embedding_cache = cache
        before = cache.counts.rows_encoded
        for _ in range(2):
            model.encode_document(["a text", "another one"])
        assert cache.counts.rows_encoded == before + 2
