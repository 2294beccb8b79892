"""(k) The cost of `compare`, compared with its distinct rows and with one run for each candidate.

`python benchmarks/comparing.py --size small --documents 12`

It runs the same candidates, documents and queries in three ways: with `compare`; with mteb for each candidate alone,
as with `mteb run`; and with only the forward passes of `compare`, which are those of the distinct rows. Each way
starts with empty stores. The measurement of costs (three rounds of each encoder, and the count of tokens) is counted
separately. All figures are processor seconds with one torch thread, so that other work on the machine does not change
them.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mteb
import torch
from materials import SIZES, base_model, documents, table

from mteb_longembed.comparing.candidates import candidates_of
from mteb_longembed.comparing.compare import compare
from mteb_longembed.comparing.comparison import Work
from mteb_longembed.encoders.engine.engine import Engine
from mteb_longembed.encoders.store.store import STORE_VARIABLE
from mteb_longembed.tasks.beir import files_task


class Watch:
    """The processor seconds of this thread inside a method, within `with Watch(owner, name) as watch:`."""

    def __init__(self, owner: type, name: str) -> None:
        self.owner, self.name = owner, name
        self.seconds = 0.0

    def __enter__(self) -> Watch:
        self.original: Callable[..., Any] = getattr(self.owner, self.name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            started = time.thread_time()
            try:
                return self.original(*args, **kwargs)
            finally:
                self.seconds += time.thread_time() - started

        setattr(self.owner, self.name, timed)
        return self

    def __exit__(self, *error: object) -> None:
        setattr(self.owner, self.name, self.original)


def write(folder: Path, mix: str, n: int, n_queries: int) -> list[Path]:
    """Documents with the lengths of a mix. Each query is a piece of one document."""
    texts = documents(mix, n)
    queries = [texts[i % n][7 * i : 7 * i + 100] for i in range(n_queries)]
    rows = {
        "docs.jsonl": [json.dumps({"_id": f"d{i}", "text": text}) for i, text in enumerate(texts)],
        "queries.jsonl": [json.dumps({"_id": f"q{i}", "text": text}) for i, text in enumerate(queries)],
        "qrels.tsv": ["query-id\tcorpus-id\tscore", *(f"q{i}\td{i % n}\t1" for i in range(n_queries))],
    }
    for name, lines in rows.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [folder / name for name in rows]


def measure(size: str, mix: str, n: int, n_queries: int, target: int) -> list[object]:
    """One row of the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        base_model(size, 512, str(folder / "base"))
        files = write(folder, mix, n, n_queries)
        candidates = candidates_of(str(folder / "base"), None, target)
        os.environ[STORE_VARIABLE] = str(folder / "store")
        started = time.process_time()
        with Watch(Work, "measure") as measuring, Watch(Engine, "_forward") as passes:
            measure = Work.measure
            inside = 0.0

            def measured(*args: Any) -> None:
                nonlocal inside
                measure(*args)
                inside = passes.seconds

            Work.measure = measured  # type: ignore[method-assign]
            try:
                compare(
                    candidates,
                    tasks=[files_task(*files)],
                    folder=folder / "results",
                    bm25=False,
                    show=False,
                    say=lambda text: None,
                )
            finally:
                Work.measure = measure  # type: ignore[method-assign]
        whole = time.process_time() - started - measuring.seconds
        distinct = passes.seconds - inside
        started = time.process_time()
        for number, candidate in enumerate(candidates):
            os.environ[STORE_VARIABLE] = str(folder / f"store{number}")
            model: Any = mteb.get_model(candidate.name)
            mteb.evaluate(model, files_task(*files), cache=None, co2_tracker=False, show_progress_bar=False)
        single = time.process_time() - started
    return [
        mix, len(candidates), whole, distinct, whole / distinct, single, whole / single, measuring.seconds
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--documents", type=int, default=12)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--target", type=int, default=4096)
    parser.add_argument("--mixes", nargs="+", default=["qmsum", "2wiki"])
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rows = [measure(args.size, mix, args.documents, args.queries, args.target) for mix in args.mixes]
    head = ["mix", "candidates", "compare, s", "distinct rows, s", "ratio"]
    print(table([*head, "single runs, s", "ratio", "costs, s"], rows))


if __name__ == "__main__":
    main()
