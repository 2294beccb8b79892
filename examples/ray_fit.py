"""Fit a model on a corpus that many workers read: they send sums, which are added up to the model of one process.

pip install mteb-longembed "ray[data]"
python ray_fit.py e5-base+pcw@32k documents/ my-model
python ray_corpus.py my-model documents/ windows/
"""

import argparse
import pickle
from pathlib import Path

from ray_corpus import Worker, mapped, rows_of, shards_for

import mteb_longembed as longembed
from mteb_longembed.encoders.adapt import pieces
from mteb_longembed.encoders.model import with_head
from mteb_longembed.encoders.weights import count_tokens
from mteb_longembed.encoders.whitening import Moments


class Counts(Worker):
    """How often each token occurs in its documents."""

    def made(self, documents: dict[str, str]) -> bytes:
        return pickle.dumps(count_tokens(self.model, list(documents.values())))


class Sums(Worker):
    """Number, sum and sum of outer products of the vectors of its windows."""

    def made(self, documents: dict[str, str]) -> bytes:
        return pickle.dumps(Moments.of(pieces(self.model, list(documents.values()))))


def summed(worker: type[Worker], model: str, shards: list[Path], threads: int) -> object:
    """What workers send, added up. A fit without some shards would be another one, so each problem ends it."""
    total = None
    problems = []
    for row in rows_of(mapped(worker, model, shards, threads)):
        if row["problem"]:
            problems.append(row["problem"])
        else:
            sums = pickle.loads(row["bytes"])
            total = sums if total is None else total + sums
    if problems:
        raise SystemExit("\n".join(problems))
    return total


def main() -> None:
    """Weights first, because vectors depend on them; then the map of the vectors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="with a strategy that cuts windows, such as e5-base+pcw@32k")
    parser.add_argument("documents", type=Path)
    parser.add_argument("model", type=Path, help="the folder of the fitted model")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    shards = shards_for(args.name, args.documents)
    weighted = longembed.adapt(args.name, summed(Counts, args.name, shards, args.threads), whiten=0)
    to_share = f"{args.model.resolve()}-weighted"
    weighted.save_pretrained(to_share)  # all machines see this folder
    fitted = longembed.adapt(weighted, summed(Sums, to_share, shards, args.threads), weights=None)
    # a document has one vector in `fitted`, the mean of its windows; an index of windows has one for each
    with_head(fitted, fitted.head.several("window", "cosine")).save_pretrained(str(args.model))


if __name__ == "__main__":
    main()
