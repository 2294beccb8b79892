"""Lengths to 1,048,576 tokens: made with bounded memory, on disk, and gone afterwards."""

import os
import subprocess
import sys
from pathlib import Path

import datasets
import pytest

from mteb_longembed.errors import DataError
from mteb_longembed.tasks import LongEmbedNeedle, LongEmbedPasskey
from mteb_longembed.tasks.generated import synthetic as module
from mteb_longembed.tasks.generated.synthetic import LENGTHS, LONGER, SyntheticRetrieval
from tests.tasks.test_regression import content_hash

BOTH = pytest.mark.parametrize("task", [LongEmbedPasskey, LongEmbedNeedle])

# raise `generator` (and write the new revision) where one of these changes: 262,144 tokens, and the two longest
HASHES = {
    "LongEmbedPasskey": ("24bd7719374e", "739ccf1a2af4"),
    "LongEmbedNeedle": ("0c86db336985", "1162a295adc6"),
}


def test_lengths_double_to_a_million() -> None:
    assert LONGER[-1] == 2**20
    assert all(b == 2 * a for a, b in zip(LENGTHS + LONGER, (LENGTHS + LONGER)[1:], strict=False))


@BOTH
def test_splits_that_the_revision_does_not_cover_never_change_either(task: type[SyntheticRetrieval]) -> None:
    assert content_hash(task, LONGER[2:3]) == HASHES[task.metadata.name][0]


@pytest.mark.long
@BOTH
def test_the_longest_splits_never_change(task: type[SyntheticRetrieval]) -> None:
    assert content_hash(task, LONGER[3:]) == HASHES[task.metadata.name][1]


@BOTH
def test_documents_of_a_million_tokens_are_as_long_as_the_rule_says(task: type[SyntheticRetrieval]) -> None:
    """Passkey: 0.75 words a token. Needle: the characters a token of the longest published split."""
    row = task.generate("test_1048576")["corpus"][99]
    if task is LongEmbedPasskey:
        assert row["n_words"] == pytest.approx(0.75 * 2**20, rel=1e-4)
    else:
        assert len(row["text"]) == pytest.approx(141769.8 / 32768 * 2**20, rel=1e-4)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    return tmp_path / "cache"


@BOTH
def test_a_large_corpus_on_disk_is_the_one_in_memory(task, cache: Path, monkeypatch) -> None:
    def loaded(limit: int) -> SyntheticRetrieval:
        monkeypatch.setattr(module, "_IN_MEMORY", limit)
        made = task().filter_eval_splits(["test_512", "test_1024"])
        made.load_data()
        return made

    on_disk, in_memory = loaded(0), loaded(2**30)
    for split in ("test_512", "test_1024"):
        written, kept = (one.dataset["default"][split]["corpus"] for one in (on_disk, in_memory))
        assert written.features == kept.features
        assert written.to_list() == kept.to_list()
        assert written.cache_files and not kept.cache_files
    assert len(list(cache.rglob("*.arrow"))) == 2
    on_disk.unload_data()
    assert list(cache.iterdir()) == []
    on_disk.load_data()
    assert on_disk.dataset["default"]["test_512"]["corpus"].num_rows == 100


def test_a_full_disk_is_told_in_a_sentence(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.write_text("no folder")
    monkeypatch.setattr(module, "_IN_MEMORY", 0)
    task = LongEmbedPasskey().filter_eval_splits(["test_256"])
    with pytest.raises(DataError, match=r"cache: expected room for a generated corpus, .* HF_DATASETS_CACHE"):
        task.load_data()


_MEASURE = """
import resource, sys
from mteb_longembed.tasks import {name}
task = {name}.variant(n_documents={n}).filter_eval_splits(["test_1048576"])
task.load_data()
corpus = task.dataset["default"]["test_1048576"]["corpus"]
assert corpus.num_rows == {n} and len(corpus[{n} - 1]["text"]) > 3_700_000
try:
    # on Linux ru_maxrss starts at the size of the process that started this one
    with open("/proc/self/status") as status:
        print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
except OSError:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


# 450 MB of text in each; 0.4 GiB measured, libraries included
@pytest.mark.long
@pytest.mark.parametrize("name", ["LongEmbedNeedle", "LongEmbedPasskey"])
def test_a_corpus_of_a_million_tokens_needs_bounded_memory(name, tmp_path) -> None:
    code = _MEASURE.format(name=name, n=100)
    env = {**os.environ, "HF_DATASETS_CACHE": str(tmp_path)}
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert int(run.stdout) / (1024 if sys.platform != "darwin" else 2**20) < 1024  # MiB at the most
