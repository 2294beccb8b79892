"""Tokens a second of two workers of one thread beside one worker of two threads, in turns.

    python -m experiments.workers NAME CORPUS ROUNDS

CORPUS is a corpus.jsonl; its first 8 documents are encoded in each round. Writes `experiments/workers.csv`.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import ray

import mteb_longembed as longembed
from experiments.measured_collections import read
from experiments.measuring import interleaved

RESULTS = Path("experiments/workers.csv")
N_DOCUMENTS = 8


@ray.remote
class Encoder:
    """Loads a model once. Ray gives it as many threads as cores."""

    def __init__(self, name: str) -> None:
        self.model: Any = longembed.load(name, device="cpu")

    def encode(self, texts: list[str]) -> int:
        """How many vectors the texts have."""
        return sum(len(np.atleast_2d(vectors)) for vectors in self.model.encode_document(texts))


def main() -> None:
    """Measure both, and write a row for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("corpus", type=Path)
    parser.add_argument("rounds", type=int)
    args = parser.parse_args()
    texts = [row["text"] for row in read(args.corpus)[:N_DOCUMENTS]]
    texts.sort(key=len)
    tokenizer = longembed.load(args.name, device="cpu").tokenizer
    n_tokens = sum(map(len, tokenizer(texts, add_special_tokens=False)["input_ids"]))
    # four cores by name, two in truth: only one side works at a time
    ray.init(num_cpus=4, include_dashboard=False)
    remote: Any = Encoder
    two = [remote.options(num_cpus=1).remote(args.name) for _ in range(2)]
    one = remote.options(num_cpus=2).remote(args.name)
    ray.get([worker.encode.remote(texts[:1]) for worker in (*two, one)])

    def by_two() -> object:
        # one document at a time, to the worker that is free, as Ray Data gives shards
        pool = ray.util.ActorPool(two)
        return list(pool.map_unordered(lambda worker, text: worker.encode.remote([text]), texts[::-1]))

    def by_one() -> object:
        return [ray.get(one.encode.remote([text])) for text in texts[::-1]]

    seconds = interleaved(args.rounds, by_two, by_one)
    ways = ("two workers, one thread each", "one worker, two threads")
    rows = [
        {"way": way, "tokens": n_tokens, "seconds": spent, "tokens a second": n_tokens / spent}
        for way, spent in zip(ways, seconds, strict=True)
    ]
    pd.DataFrame(rows).round(1).to_csv(RESULTS, index=False)
    print(pd.read_csv(RESULTS).to_string())


if __name__ == "__main__":
    sys.exit(main())
