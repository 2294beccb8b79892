"""A model that reads more, or pieces? Documents and passages found: the tables of `extend_or_chunk.md`.

    LONGEMBED_QMSUM=FOLDER python -m experiments.extend_or_chunk MODEL

MODEL is a folder or a name. It needs `pip install chonkie`, and continues after an interruption.
"""

from __future__ import annotations

import sys
from pathlib import Path

from transformers import AutoTokenizer

import mteb_longembed as longembed
from experiments.ranked import prepare
from mteb_longembed.comparing.page import tables
from mteb_longembed.comparing.terminal import WRITERS

PIECES = ("vectors=window", "split=sentence,vectors=window", "center=corpus,split=sentence,vectors=window")
WAYS = ("ntk@4k", "pcw@4k", "ntk@4k:vectors=64", *(f"pcw@32k:{pieces}" for pieces in PIECES))
TASKS = {"LongEmbedQMSum": None, "LongEmbedNeedle-queries100": "test_2048"}


def main(base: str, out: Path) -> None:
    """Compare on both tasks."""
    from chonkie import RecursiveChunker  # type: ignore[import-not-found]  # late, because tests import this file

    prepare(out)
    chunkers = {"chonkie": (RecursiveChunker(AutoTokenizer.from_pretrained(base), chunk_size=250), "v1")}
    names = [base, *(f"{base}+{way}" for way in WAYS)]
    for task, split in TASKS.items():
        splits = {"eval_splits": [split]} if split else {}
        result = longembed.compare(
            names, tasks=[task], strategies=["none"], chunkers=chunkers, folder=out, **splits
        )
        print(WRITERS["markdown"][0](tables(result)))


if __name__ == "__main__":
    main(sys.argv[1], Path("results/extend-or-chunk"))
