"""Whatever call of the disk fails, a clean run afterwards ends in the same bits and leaves nothing behind."""

import contextlib
import errno
import json
import random
import shutil
import sys
import warnings
from pathlib import Path

import mteb
import pytest

import mteb_longembed as longembed
from mteb_longembed.encoders.encoder import LongEncoder
from mteb_longembed.encoders.store.store import EmbeddingStore
from mteb_longembed.plugin.results_on_disk import LOCK
from mteb_longembed.tasks.generated.passkey import LongEmbedPasskey
from tests import tiny
from tests.io_faults import ERRORS, Faults

SPLITS = ["test_256", "test_512"]
#: Faults of the default suite, out of some hundreds.
SAMPLE = 12


class SmallRun:
    """One model on one task of two splits, with results, predictions and store below one folder."""

    def __init__(self, base: Path) -> None:
        stock = tiny.sentence_transformer("bert", base, num_hidden_layers=1, name="tiny/bert")
        self.encoder = LongEncoder(longembed.extend(stock, "pi", target_len=64))
        self.task = LongEmbedPasskey().filter_eval_splits(SPLITS)
        self.task.load_data()
        for split in SPLITS:
            _shorten(self.task.dataset["default"][split])

    def evaluate(self, folder: Path) -> None:
        self.encoder.model.store = EmbeddingStore(folder / "store")
        kept = {"cache": mteb.ResultCache(folder), "prediction_folder": folder / "predictions"}
        mteb.evaluate(self.encoder, [self.task], **kept, show_progress_bar=False)

    def outcome(self, folder: Path) -> tuple[str, str]:
        """Scores and predictions, as text."""
        [result] = folder.glob("results/*/*/LongEmbedPasskey.json")
        [predictions] = folder.glob("predictions/*.json")
        parts = (json.loads(result.read_text())["scores"], json.loads(predictions.read_text()))
        return tuple(json.dumps(part, sort_keys=True) for part in parts)

    def files(self, folder: Path) -> set[str]:
        """All that lies there but the store, whose files the tests of the store watch."""
        names = {str(path.relative_to(folder)) for path in folder.rglob("*")}
        return {name for name in names if not name.startswith("store")}


def _shorten(data: dict) -> None:
    """Keep a few queries and their documents."""
    kept = list(data["relevant_docs"])[:6]
    data["relevant_docs"] = {query: data["relevant_docs"][query] for query in kept}
    documents = {document for judged in data["relevant_docs"].values() for document in judged}
    data["queries"] = data["queries"].filter(lambda row: row["id"] in kept)
    data["corpus"] = data["corpus"].filter(lambda row: row["id"] in documents)


def check(run: SmallRun, folder: Path, fail_at: int, error: int, expected: tuple, files: set[str]) -> bool:
    """One run with a fault and one without; whether the fault was met."""
    # the store warns that the run continues without it
    ignored = warnings.catch_warnings(action="ignore", category=RuntimeWarning)
    faults = Faults(folder, fail_at=fail_at, error=error)
    with ignored, faults.injected(), contextlib.suppress(OSError):
        run.evaluate(folder)
    met = len(faults.calls) > fail_at
    name = f"call {fail_at} ({faults.calls[fail_at] if met else 'none'}), {errno.errorcode[error]}"
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
        run.evaluate(folder)
    assert run.outcome(folder) == expected, name
    assert run.files(folder) == files, name
    return met


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> SmallRun:
    return SmallRun(tmp_path_factory.mktemp("base"))


def inject(run: SmallRun, work: Path, sample: int | None) -> tuple[int, list[str]]:
    """Inject all faults, or a sample of them; how many were met, and the calls of a run without any.

    Raises:
        AssertionError: naming every fault that did harm.
    """
    full = work / "whole"
    with Faults(full).injected() as faults:
        run.evaluate(full)
    calls = faults.calls
    expected, files = run.outcome(full), run.files(full)
    chosen = [(number, error) for number in range(len(calls)) for error in ERRORS]
    if sample is not None:
        chosen = random.Random(3).sample(chosen, sample)
    met = 0
    harmful = []
    for i, (number, error) in enumerate(chosen):
        folder = work / f"fault{i}"
        try:
            met += check(run, folder, number, error, expected, files)
        except Exception as harm:
            harmful.append(f"call {number} ({calls[number]}), {errno.errorcode[error]}: {harm!r}"[:500])
            print(harmful[-1], file=sys.stderr, flush=True)
        shutil.rmtree(folder)
    assert not harmful, f"{len(harmful)} of {len(chosen)} faults did harm: " + "; ".join(harmful)
    return met, calls


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX calls are counted")
def test_a_sample_of_faults_ends_in_the_same_bits_and_leaves_nothing(run: SmallRun, tmp_path: Path) -> None:
    met, calls = inject(run, tmp_path, SAMPLE)
    assert met == SAMPLE
    assert {"open", "write", "flush", "fsync", "mkdir", "replace"} <= set(calls)


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX calls are counted")
def test_every_fault_ends_in_the_same_bits_and_leaves_nothing(run: SmallRun, tmp_path: Path) -> None:
    met, calls = inject(run, tmp_path, None)
    assert met == len(calls) * len(ERRORS)
    print(met, "faults")


def test_a_clean_run_leaves_results_predictions_store_and_locks_alone(run: SmallRun, tmp_path: Path) -> None:
    run.evaluate(tmp_path)
    names = {Path(name).name for name in run.files(tmp_path) if (tmp_path / name).is_file()}
    results = {"LongEmbedPasskey.json", "LongEmbedPasskey_predictions.json"}
    assert names == results | {"model_meta.json", "run_settings.jsonl", LOCK}
