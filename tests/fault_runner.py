"""Evaluates a small task in child processes that are killed at random points, and reports the results.

tests/test_faults.py runs it in its own process. The children are forks, so a hundred of them take only seconds. Each
ends by a SIGKILL that it cannot catch.

`python -m tests.fault_runner BASE_FOLDER WORK_FOLDER KILLS SEED` prints one JSON object.
"""

import json
import os
import random
import signal
import sys
import threading
import traceback
import warnings
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["HF_DATASETS_DISABLE_PROGRESS_BARS"] = "1"

import mteb
import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from tqdm import tqdm

import mteb_longembed as longembed
from mteb_longembed.encoders.store import EmbeddingStore
from mteb_longembed.retrieval.encoder import LongEncoder
from mteb_longembed.tasks.generated.passkey import LongEmbedPasskey

RESULT = "results/*/*/LongEmbedPasskey.json"
SPLITS = ["test_256", "test_512"]
HANGS_AFTER = 900  # seconds; a run takes about five
tqdm.monitor_interval = 0  # no monitor thread: it takes locks, and a fork copies the locks but not the thread


class Evaluation:
    """The run that is interrupted. It has two splits, with results and store in one folder."""

    def __init__(self, base: str) -> None:
        stock = SentenceTransformer(base, device="cpu")
        stock.model_card_data.model_name = "tiny/bert"
        self.encoder = LongEncoder(longembed.extend(stock, "pi", target_len=64))
        self.task = LongEmbedPasskey().filter_eval_splits(SPLITS)
        self.task.load_data()

    def run(self, folder: Path) -> None:
        """Evaluate, then write everything that is compared: scores, and every document's embedding."""
        self.encoder.model.store = EmbeddingStore(folder / "store")
        remove_half_written_results(folder)
        cache = mteb.ResultCache(folder)
        mteb.evaluate(self.encoder, [self.task], cache=cache, show_progress_bar=False)
        n_encoded = self.encoder.model.store.counts.rows_encoded
        [written] = folder.glob(RESULT)
        scores = json.dumps(json.loads(written.read_text())["scores"], sort_keys=True)
        texts = [row["text"] for split in SPLITS for row in self.task.dataset["default"][split]["corpus"]]
        part = folder / "embeddings.part.npy"
        np.save(part, self.encoder.model.encode_document(texts))
        (folder / "scores.json").write_text(json.dumps([scores, n_encoded]))
        part.rename(folder / "embeddings.npy")


def remove_half_written_results(folder: Path) -> None:
    """mteb does not write its results at once (docs/upstream.md): a kill at that moment leaves half a file."""
    for path in folder.glob(RESULT):
        try:
            json.loads(path.read_text())
        except json.JSONDecodeError:
            path.unlink()


def _renew_locks_of_bars() -> None:
    """Give every kind of progress bar a lock of this process.

    Forks share tqdm's own lock, so a fork that is killed while it holds the lock would stop all others. Each class that
    has shown a bar before has its own lock.
    """
    kinds = [tqdm]
    for kind in kinds:
        kinds += kind.__subclasses__()
        kind.set_lock(threading.RLock())


def in_child(work: object, die_after: int | None = None) -> int:
    """Run `work` in a fork that kills itself after `die_after` function calls, and return its wait status."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    torch.set_num_threads(1)
    _renew_locks_of_bars()
    signal.alarm(HANGS_AFTER)  # the only signal other than SIGKILL; it counts as an error
    warnings.simplefilter("error", RuntimeWarning)  # a store that gives up would give such a warning
    if die_after is not None:
        left = die_after

        def count(frame: object, event: str, argument: object) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        threading.setprofile(count)
        sys.setprofile(count)
    try:
        work()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def count_calls(work: object, report: Path) -> None:
    """How many function calls an undisturbed run makes."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += 1

    threading.setprofile(count)
    sys.setprofile(count)
    work()
    sys.setprofile(None)
    report.write_text(str(calls))


def main() -> None:
    base, work, n_kills, seed = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    draw = random.Random(seed)
    evaluation = Evaluation(base)
    reference = work / "reference"
    reference.mkdir(parents=True)
    report = work / "calls"
    assert in_child(lambda: count_calls(lambda: evaluation.run(reference), report)) == 0
    calls = int(report.read_text())
    expected = (reference / "embeddings.npy").read_bytes()
    scores, n_all = json.loads((reference / "scores.json").read_text())
    outcome = dict.fromkeys(("kills", "finished", "equal", "saved", "errors"), 0)
    runs = killed_here = 0
    while outcome["kills"] < n_kills or outcome["finished"] < runs:
        if outcome["finished"] == runs:
            runs += 1
            killed_here = 0
        folder = work / f"run{runs}"
        # mostly early in the rest of the run, so that one run is killed several times
        die_after = draw.randint(1, max(2, calls // draw.choice([1, 2, 4, 8])))
        if outcome["kills"] >= n_kills:
            die_after = None
        folder.mkdir(exist_ok=True)
        status = in_child(lambda folder=folder: evaluation.run(folder), die_after)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            outcome["kills"] += 1
            killed_here += 1
            continue
        if status != 0:
            outcome["errors"] += 1
            break
        outcome["finished"] += 1
        stored, n_encoded = json.loads((folder / "scores.json").read_text())
        equal = stored == scores and (folder / "embeddings.npy").read_bytes() == expected
        outcome["equal"] += equal
        outcome["saved"] += killed_here > 0 and n_encoded < n_all
    print(json.dumps(outcome))


if __name__ == "__main__":
    main()
