"""(f) The time that mteb adds: wall time of an evaluation minus the time inside `encode`.

`python benchmarks/mteb_overhead.py --docs 197 --queries 1527` (QMSum's size)
"""

from __future__ import annotations

import argparse
import tempfile
import time
from typing import Any

import mteb
from datasets import Dataset
from materials import SIZES, base_model, documents, table

import mteb_longembed as longembed
from mteb_longembed.encoders.encoder import LongEncoder
from mteb_longembed.tasks.generated.passkey import LongEmbedPasskey


class SizedTask(LongEmbedPasskey):
    """A retrieval task with a chosen number of documents and queries. Its scores have no meaning."""

    n_documents = n_queries = 0
    mix = "qmsum"

    def load_data(self, num_proc: int | None = None, **kwargs: Any) -> None:
        texts, asked = documents(self.mix, self.n_documents), documents("queries", self.n_queries, seed=1)
        corpus = [{"id": f"d{i}", "text": text, "title": ""} for i, text in enumerate(texts)]
        queries = [{"id": f"q{i}", "text": text} for i, text in enumerate(asked)]
        relevant = {f"q{i}": {f"d{i % len(texts)}": 1} for i in range(len(asked))}
        split = {
            "corpus": Dataset.from_list(corpus),
            "queries": Dataset.from_list(queries),
            "relevant_docs": relevant,
            "top_ranked": None,
        }
        self.dataset = {"default": {"test_256": split}}
        self.data_loaded = True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--docs", type=int, default=197)
    parser.add_argument("--queries", type=int, default=1527)
    args = parser.parse_args()
    SizedTask.n_documents, SizedTask.n_queries = args.docs, args.queries
    task = SizedTask().filter_eval_splits(["test_256"])
    task.load_data()
    with tempfile.TemporaryDirectory() as folder:
        base = base_model(args.size, args.tokens, folder)
        encoder = LongEncoder(longembed.extend(base, "none"))
        encoder.model.store = None
        inside: list[float] = []
        original = encoder.model.encode

        def timed(*given: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return original(*given, **kwargs)
            finally:
                inside.append(time.perf_counter() - start)

        encoder.model.encode = timed  # type: ignore[method-assign]
        start = time.perf_counter()
        mteb.evaluate(encoder, [task], cache=mteb.ResultCache(folder), show_progress_bar=False)
        wall = time.perf_counter() - start
    rest = wall - sum(inside)
    rows = [[args.size, args.docs, args.queries, wall, sum(inside), rest, f"{100 * rest / wall:.1f} %"]]
    print(table(["model", "documents", "queries", "wall s", "encode s", "rest s", "share"], rows))


if __name__ == "__main__":
    main()
