"""(i) How much work `pcw` would save if it encoded equal windows once, on the generated tasks and on your own corpus.

`python benchmarks/duplicates.py --docs 40 --size 512 128 --target 32768 --data FOLDER`

FOLDER holds a corpus in a layout that `mteb-longembed compare --data` reads. Two windows are equal if they have the
same token ids. The script counts all windows of a corpus, the windows that repeat an earlier window of the corpus, and
those that repeat an earlier window of their own document. The saving is the share of repeated windows, for every model.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable

import mteb
import numpy as np
from materials import table, tokenizer

import mteb_longembed  # noqa: F401 (makes its tasks known to mteb)
from mteb_longembed.encoders.engine.tokenizing import CutTokenizer, IdCache
from mteb_longembed.encoders.strategies.pcw import ParallelContextWindows
from mteb_longembed.tasks.beir import beir_task


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--docs", type=int, default=40)
    parser.add_argument("--size", type=int, nargs="+", default=[512, 128], help="tokens of a window")
    parser.add_argument("--target", type=int, default=32_768)
    parser.add_argument("--data", nargs="*", default=[], help="folders with a corpus each")
    args = parser.parse_args()
    corpora = {name: generated(name, args.docs) for name in ("LongEmbedPasskey", "LongEmbedNeedle")}
    corpora.update({folder: given(folder, args.docs) for folder in args.data})
    rows = [
        [name, size, *counted(texts, size, args.target)]
        for size in args.size
        for name, texts in corpora.items()
    ]
    head = [
        "corpus",
        "tokens of a window",
        "windows",
        "repeated in the corpus",
        "repeated in their own document",
    ]
    print(table(head, rows))


def generated(name: str, docs: int) -> list[str]:
    """Documents of every length of a generated task."""
    (task,) = mteb.get_tasks([name])
    task.load_data()
    splits = task.dataset["default"].values()
    return [row["text"] for split in splits for row in list(split["corpus"])[: max(docs // len(splits), 1)]]


def given(folder: str, docs: int) -> list[str]:
    """The first documents of a corpus on disk."""
    task = beir_task(folder)
    task.load_data()
    ((split,),) = (part.values() for part in task.dataset.values())
    return [row["text"] for row in list(split["corpus"])[:docs]]


def counted(texts: Iterable[str], size: int, target: int) -> tuple[int, str, str]:
    """The number of windows, and the shares of those that repeat an earlier one of the corpus or of the document."""
    cut = CutTokenizer(tokenizer(target), IdCache(0))
    strategy = ParallelContextWindows(trained_len=size, target_len=target)
    seen: set[bytes] = set()
    windows = again = again_here = 0
    for text in texts:
        (ids,) = cut([text], target)
        here: set[bytes] = set()
        if len(ids) <= size:
            parts = [np.arange(len(ids))]
        else:
            parts = [part.numpy() for part in strategy.windows(len(ids), 1, 1)]
        for part in parts:
            key = ids[part].tobytes()
            windows += 1
            again += key in seen
            again_here += key in here
            seen.add(key)
            here.add(key)
    return windows, f"{100 * again / windows:.1f} %", f"{100 * again_here / windows:.1f} %"


if __name__ == "__main__":
    main()
