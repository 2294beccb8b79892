"""Fit a model on a corpus that many workers read: they send sums, which are added up to the model of one process.

pip install mteb-longembed "ray[data]"
python ray_fit.py e5-base+pcw@32k documents/ my-model
python ray_corpus.py my-model documents/ windows/
"""

import argparse
import pickle
from functools import reduce
from operator import add
from pathlib import Path

import ray
from ray_corpus import documents_of, workers

import mteb_longembed as longembed
from mteb_longembed.encoders.heads.counting import count_tokens
from mteb_longembed.encoders.heads.whitening import Moments
from mteb_longembed.encoders.model import with_head
from mteb_longembed.encoders.pieces import pieces


class Counts:
    """A worker: how often each token occurs in its documents."""

    def __init__(self, name: str) -> None:
        self.model = longembed.load(name)

    def __call__(self, shard: dict) -> dict:
        return {"sums": pickle.dumps(count_tokens(self.model, documents_of(shard)["text"]))}


class Sums(Counts):
    """A worker: number, sum and sum of outer products of the vectors of its windows."""

    def __call__(self, shard: dict) -> dict:
        return {"sums": pickle.dumps(Moments.of(pieces(self.model, documents_of(shard)["text"])))}


def summed(worker: type, model: str, shards: list[str], threads: int) -> object:
    """What workers send, added up."""
    read = ray.data.read_binary_files(shards, include_paths=True, override_num_blocks=len(shards))
    sent = read.map(worker, fn_constructor_args=(model,), **workers(threads, None))
    return reduce(add, (pickle.loads(row["sums"]) for row in sent.iter_rows()))


def main() -> None:
    """Weights first, because vectors depend on them; then the map of the vectors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="with a strategy that cuts windows, such as e5-base+pcw@32k")
    parser.add_argument("documents", type=Path)
    parser.add_argument("model", type=Path, help="the folder of the fitted model")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    ray.init(ignore_reinit_error=True)
    shards = [str(shard) for shard in sorted(args.documents.resolve().glob("*.parquet"))]
    weighted = longembed.adapt(args.name, summed(Counts, args.name, shards, args.threads), whiten=0)
    to_share = f"{args.model.resolve()}-weighted"
    weighted.save_pretrained(to_share)  # all machines see this folder
    fitted = longembed.adapt(weighted, summed(Sums, to_share, shards, args.threads), weights=None)
    # a document has one vector in `fitted`, the mean of its windows; an index of windows has one for each
    with_head(fitted, fitted.head.several("window", "cosine")).save_pretrained(str(args.model))


if __name__ == "__main__":
    main()
