"""One cell of a measurement on real models: where a model ranks the right document of each query.

A cell is a line of a JSONL file that is small enough to be committed. All scores, intervals and paired tests come from
its `ranks`, so a page can be written again without the model, the data or this machine.
"""

import json
import os
import time
from pathlib import Path
from typing import Any, TypedDict

import mteb
import numpy as np
from mteb.abstasks.retrieval import AbsTaskRetrieval

from mteb_longembed.comparing.costs import count
from mteb_longembed.data.task import files_task
from mteb_longembed.encoders.embedding_cache import CACHE_VARIABLE
from mteb_longembed.evaluation.evaluate import evaluate
from mteb_longembed.evaluation.metrics import read_metric
from mteb_longembed.evaluation.split import splits_of
from mteb_longembed.retrieval.index import Index
from mteb_longembed.retrieval.make import make_scorer

RANKS = ".123456789a"  # one character a query: the rank of its document in hexadecimal, a point below rank 10


class Line(TypedDict):
    """A measured cell."""

    name: str  # the folder's name and the strategy
    revision: str
    task: str
    split: str
    ranks: str  # a character of RANKS for each query, in the order of their ids
    tokens: int  # of documents, as the model reads them
    tokens_encoded: int  # of documents and queries that no earlier cell had encoded
    cpu_seconds: float  # of the whole cell
    vectors: float | None  # a document, on average
    share_read: float  # of the documents' tokens


def prepare(out: Path) -> None:
    """Point the store of embeddings and QMSum's task at their folders."""
    os.environ.setdefault(CACHE_VARIABLE, str((out / "embeddings").resolve()))
    # the folder with corpus, queries and qrels of QMSum, .jsonl or .jsonl.gz; without it QMSum is left out
    files = os.environ.get("LONGEMBED_QMSUM")
    if files:
        link = out / "data" / "qmsum"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(Path(files).resolve(), target_is_directory=True)
        os.environ["MTEB_LONGEMBED_DATA"] = str(link.parent.resolve())


class Measurements:
    """The cells of a file. A cell that is there is not measured again."""

    def __init__(self, file: Path, out: Path) -> None:
        self.file, self.out = file, out
        kept = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        lines: list[Line] = list(map(json.loads, kept))
        self.lines = {(line["name"], line["task"], line["split"]): line for line in lines}

    def measure(self, name: str, task_name: str, split: str) -> Line:
        """Measure a cell, or find it. `task_name` is mteb's, or a folder with a task of three files."""
        key = Path(name).name, Path(task_name).name, split
        if key not in self.lines:
            line = self.lines[key] = self._run(name, task_name, split)
            with self.file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print(f"{100 * scores(line).mean():5.1f} {line['cpu_seconds']:6.0f} s", *key, flush=True)
        return self.lines[key]

    def _run(self, name: str, task_name: str, split: str) -> Line:
        (data,) = splits_of(load_task(task_name, split), [read_metric("nDCG@10")])
        scorer = make_scorer(name, "cpu")
        encoder: Any = None
        if isinstance(scorer, Index) and scorer.shown is not None and scorer.shown.encoding.ours:
            encoder = scorer.shown.encoding.ours.model
        store = getattr(encoder, "embedding_cache", None)
        began = time.process_time()
        ranked = evaluate(scorer, data).sort_values("query")
        seconds = time.process_time() - began
        cost = None if encoder is None else count(encoder, [data], encoder.backbone.strategy.target_len)
        return Line(
            name=Path(name).name,
            revision=scorer.revision,
            task=Path(task_name).name,
            split=split,
            ranks="".join(map(_rank, ranked["score"])),
            tokens=cost.tokens if cost else 0,
            tokens_encoded=store.counts.tokens_encoded if store else 0,
            cpu_seconds=round(seconds, 1),
            vectors=cost.vectors if cost else None,
            share_read=cost.share_read if cost else 1.0,
        )


def load_task(name: str, split: str) -> AbsTaskRetrieval:
    """A task of mteb, or the one in a folder with `corpus.jsonl`, `queries.jsonl` and `qrels.jsonl`."""
    if "/" in name:
        return files_task(*(Path(name) / f"{part}.jsonl" for part in ("corpus", "queries", "qrels")))
    return mteb.get_task(name, eval_splits=[split])


def _rank(ndcg: float) -> str:
    """The rank of the only right document, from nDCG@10."""
    return RANKS[round(2 ** (1 / ndcg) - 1)] if ndcg else RANKS[0]


def scores(line: Line) -> np.ndarray:
    """Each query's score from 0 to 1: nDCG@10, or Acc@1 for Passkey and Needle."""
    ranks = np.array([RANKS.index(rank) for rank in line["ranks"]], dtype=float)
    if line["task"].startswith(("LongEmbedPasskey", "LongEmbedNeedle")):
        return (ranks == 1).astype(float)
    return np.divide(1.0, np.log2(ranks + 1), out=np.zeros_like(ranks), where=ranks > 0)
