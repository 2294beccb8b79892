"""A saved index beside bm25s, and `add` beside building anew: ratios of wall time and of peak memory.

    python -m experiments.index DOCUMENTS.jsonl QUESTION [--rounds N] [--name NAME]

Each command is a process of its own, as a user runs it; all take turns, and medians are compared. It needs bm25s.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

#: The peer: the same documents, its own saved index mapped into memory, one question.
BUILD = """
import json, sys, bm25s, Stemmer
texts = [json.loads(line)["text"] for line in open(sys.argv[1])]
tokens = bm25s.tokenize(texts, stopwords="en", stemmer=Stemmer.Stemmer("english"), show_progress=False)
index = bm25s.BM25()
index.index(tokens, show_progress=False)
index.save(sys.argv[2], corpus=texts)
"""
ASK = """
import sys, bm25s, Stemmer
index = bm25s.BM25.load(sys.argv[1], mmap=True, load_corpus=True)
tokens = bm25s.tokenize([sys.argv[2]], stopwords="en", stemmer=Stemmer.Stemmer("english"), show_progress=False)
found, scores = index.retrieve(tokens, k=10, show_progress=False)
print(found[0][0], scores[0][0])
"""
#: Adds the last documents to a saved index of the others.
ADD = """
import json, sys
import mteb_longembed as longembed
texts = [json.loads(line)["text"] for line in open(sys.argv[1])][-int(sys.argv[3]):]
longembed.open_index(sys.argv[2]).add([f"added-{number}" for number in range(len(texts))], texts)
"""


def run(command: list[str]) -> float:
    """Run a command without cached embeddings and return its wall time in seconds."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "MTEB_LONGEMBED_CACHE": cache}
        start = time.perf_counter()
        subprocess.run(command, check=True, env=environment, capture_output=True)
        return time.perf_counter() - start


def medians(sides: dict[str, list[str]], rounds: int) -> dict[str, float]:
    """Return the median seconds of each side. All take turns, and the first round does not count."""
    times: dict[str, list[float]] = {side: [] for side in sides}
    for number in range(rounds + 1):
        for side, command in sides.items():
            seconds = run(command)
            if number:
                times[side].append(seconds)
    return {side: statistics.median(values) for side, values in times.items()}


def main() -> None:
    """Measure and print the ratios."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("documents", type=Path, help="JSON Lines with an id and text")
    parser.add_argument("question")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--name", default="bm25:window=200", help="of the index that is added to")
    parser.add_argument("--added", type=int, default=10, help="number of documents")
    args = parser.parse_args()
    ours = str(Path(sys.executable).with_name("mteb-longembed"))
    lines = args.documents.read_text(encoding="utf-8").splitlines()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        peer, index, whole = str(folder / "bm25s"), str(folder / "index"), str(folder / "whole")
        run([sys.executable, "-c", BUILD, str(args.documents), peer])
        run([ours, "index", "bm25", "--corpus", str(args.documents), "--to", index])
        found = medians(
            {
                "search of a saved index": [ours, "search", index, args.question],
                "bm25s": [sys.executable, "-c", ASK, peer, args.question],
            },
            args.rounds,
        )
        first = folder / "first.jsonl"
        first.write_text("\n".join(lines[: -args.added]) + "\n", encoding="utf-8")
        run([ours, "index", args.name, "--corpus", str(first), "--to", str(folder / "added")])
        found["add"] = run(
            [sys.executable, "-c", ADD, str(args.documents), str(folder / "added"), str(args.added)]
        )
        found["build anew"] = run([ours, "index", args.name, "--corpus", str(args.documents), "--to", whole])
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(json.dumps({"documents": len(lines), "name": args.name, "seconds": found}, indent=1))
    print(f"saved index / bm25s: {found['search of a saved index'] / found['bm25s']:.2f}")
    print(f"add {args.added} / build anew: {found['add'] / found['build anew']:.3f}")
    print(f"largest process: {peak:,.0f} MB")


if __name__ == "__main__":
    main()
