"""Does the training text hold sentences of the benchmark? `python -m training.overlap BOOKS`.

Compares runs of `RUN` words: the filler, keys and questions of LongEmbedPasskey, and the facts and questions of
LongEmbedNeedle, against every chapter. Single words are not compared: English books and the benchmark share most of
them, first names too.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import mteb

import mteb_longembed  # noqa: F401 (makes its tasks known to mteb)
from training.corpus import read_texts

RUN = 5
SPLIT = "test_256"


def runs_of(text: str) -> Iterator[tuple[str, ...]]:
    """Every run of `RUN` words.

    >>> list(runs_of("The grass is green. The sky"))
    [('the', 'grass', 'is', 'green', 'the'), ('grass', 'is', 'green', 'the', 'sky')]
    """
    words = re.findall(r"[a-z0-9]+", text.lower())
    return zip(*(words[i:] for i in range(RUN)), strict=False)


def benchmark_texts() -> dict[str, list[str]]:
    """The texts of the benchmark, by task: the queries and documents of the shortest split."""
    found = {}
    for name in ("LongEmbedPasskey", "LongEmbedNeedle"):
        task = mteb.get_task(name, eval_splits=[SPLIT])
        task.load_data()
        data = task.dataset["default"][SPLIT]
        found[name] = [*data["queries"]["text"], *data["corpus"]["text"]]
    return found


def count_shared(
    texts: Iterable[str], benchmark: dict[str, list[str]]
) -> dict[str, Counter[tuple[str, ...]]]:
    """By task: how often each run of the benchmark's words occurs in the texts."""
    known = {name: {run for text in parts for run in runs_of(text)} for name, parts in benchmark.items()}
    shared: dict[str, Counter[tuple[str, ...]]] = {name: Counter() for name in known}
    for text in texts:
        for run in runs_of(text):
            for name, runs in known.items():
                if run in runs:
                    shared[name][run] += 1
    return shared


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("books", type=Path)
    args = parser.parse_args()
    benchmark = benchmark_texts()
    for name, found in count_shared(read_texts(args.books), benchmark).items():
        known = len({run for text in benchmark[name] for run in runs_of(text)})
        print(f"{name}: {len(found)} of {known} runs of {RUN} words")
        for run, times in found.most_common(20):
            print(f"  {times} times: {' '.join(run)}")


if __name__ == "__main__":
    main()
