"""(i) How much work `pcw` would save if it encoded equal windows once, on length mixes and on the generated tasks.

`python benchmarks/duplicates.py --docs 40 --trained 512 --target 4096 32768`

Two windows are equal if they have the same token ids. The script counts all windows of a corpus, the windows that
repeat an earlier window of the corpus, and those that repeat an earlier window of their own document. The saving is
the share of repeated windows, for every model.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable

import mteb
import numpy as np
from materials import MIXES, documents, table, tokenizer

import mteb_longembed  # noqa: F401 (makes its tasks known to mteb)
from mteb_longembed.encoders.engine.tokenizing import CutTokenizer, IdCache
from mteb_longembed.encoders.strategies.pcw import ParallelContextWindows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--docs", type=int, default=40)
    parser.add_argument("--trained", type=int, default=512)
    parser.add_argument("--target", type=int, nargs="+", default=[4096, 32_768])
    args = parser.parse_args()
    corpora = {mix: documents(mix, args.docs) for mix in MIXES if mix != "queries"}
    corpora.update({name: generated(name, args.docs) for name in ("LongEmbedPasskey", "LongEmbedNeedle")})
    rows = [
        [name, target, *counted(texts, args.trained, target)]
        for target in args.target
        for name, texts in corpora.items()
    ]
    head = ["corpus", "target", "windows", "repeated in the corpus", "repeated in their own document"]
    print(table(head, rows))


def generated(name: str, docs: int) -> list[str]:
    """Documents of every length of a generated task."""
    (task,) = mteb.get_tasks([name])
    task.load_data()
    splits = task.dataset["default"].values()
    return [row["text"] for split in splits for row in list(split["corpus"])[: max(docs // len(splits), 1)]]


def counted(texts: Iterable[str], trained: int, target: int) -> tuple[int, str, str]:
    """The number of windows, and the shares of those that repeat an earlier one of the corpus or of the document."""
    cut = CutTokenizer(tokenizer(target), IdCache(0))
    strategy = ParallelContextWindows(trained_len=trained, target_len=target)
    seen: set[bytes] = set()
    windows = again = again_here = 0
    for text in texts:
        (ids,) = cut([text], target)
        here: set[bytes] = set()
        if len(ids) <= trained:
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
