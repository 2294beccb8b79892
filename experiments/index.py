"""A saved index beside its peers: wall time, peak memory and size on disk, as ratios.

    python -m experiments.index lexical DOCUMENTS.jsonl QUESTION   # beside bm25s
    python -m experiments.index dense DOCUMENTS.jsonl QUESTION --model MODEL   # beside a script with FAISS
    python -m experiments.index add DOCUMENTS.jsonl --added N --name NAME   # beside building anew
    python -m experiments.index opening   # 1,000,000 windows, without the model

Each side is a process of its own, as a user runs it; all take turns, and medians are compared. It needs bm25s and
faiss-cpu.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import mteb_longembed as longembed
from mteb_longembed.retrieval.encoder import Encoded, Encoder
from mteb_longembed.retrieval.searcher import Searcher
from mteb_longembed.retrieval.storage import Reader

OURS = str(Path(sys.executable).with_name("mteb-longembed"))
#: bm25s with its own saved index, mapped into memory.
BM25S_BUILD = """
import json, sys, bm25s, Stemmer
texts = [json.loads(line)["text"] for line in open(sys.argv[1])]
tokens = bm25s.tokenize(texts, stopwords="en", stemmer=Stemmer.Stemmer("english"), show_progress=False)
index = bm25s.BM25()
index.index(tokens, show_progress=False)
index.save(sys.argv[2], corpus=texts)
"""
BM25S_ASK = """
import sys, bm25s, Stemmer
index = bm25s.BM25.load(sys.argv[1], mmap=True, load_corpus=True)
tokens = bm25s.tokenize([sys.argv[2]], stopwords="en", stemmer=Stemmer.Stemmer("english"), show_progress=False)
found, scores = index.retrieve(tokens, k=10, show_progress=False)
print(found[0][0], scores[0][0])
"""
#: FAISS with the vectors of our index, and the same model.
FAISS_ASK = """
import sys, faiss
from sentence_transformers import SentenceTransformer
model = SentenceTransformer(sys.argv[3], device="cpu")
index = faiss.read_index(sys.argv[1])
print(index.search(model.encode_query([sys.argv[2]]), 10))
"""
#: Adds the last documents to a saved index of the others. It prints the seconds of the call.
ADD = """
import json, sys, time
import mteb_longembed as longembed
texts = [json.loads(line)["text"] for line in open(sys.argv[1])][-int(sys.argv[3]):]
searcher = longembed.open_index(sys.argv[2])
start = time.perf_counter()
searcher.add([f"added-{number}" for number in range(len(texts))], texts)
print(time.perf_counter() - start)
"""
#: Builds an index. It prints the seconds without imports and loading.
BUILD = """
import sys, time
import mteb_longembed as longembed
searcher = longembed.search(sys.argv[2])
start = time.perf_counter()
searcher.read(sys.argv[1])
searcher.save(sys.argv[3])
print(time.perf_counter() - start)
"""
N_DOCUMENTS, N_WINDOWS, WIDTH = 16_000, 63, 384


def run(command: list[str]) -> tuple[float, float, str]:
    """Run a command without cached embeddings: its wall time in seconds, its peak memory in MB, and its output."""
    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryFile("w+") as output:
        environment = {**os.environ, "MTEB_LONGEMBED_CACHE": cache}
        start = time.perf_counter()
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        if status:
            raise RuntimeError(f"{command} failed with status {status}.")
        output.seek(0)
        return seconds, usage.ru_maxrss / 1024, output.read()


def in_turn(sides: dict[str, list[str]], rounds: int) -> None:
    """Print the median seconds and megabytes of each side, and the ratios of the first to the second."""
    runs: dict[str, list[tuple[float, float, str]]] = {side: [] for side in sides}
    for number in range(rounds + 1):
        for side, command in sides.items():
            one = run(command)
            if number:  # the first round fills the file cache
                runs[side].append(one)
    medians = {side: np.median([one[:2] for one in of], axis=0) for side, of in runs.items()}
    for side, (seconds, megabytes) in medians.items():
        print(f"{side}: {seconds:.2f} s, {megabytes:,.0f} MB")
    first, second = medians.values()
    print("ratio: {:.2f} in time, {:.2f} in memory".format(*(first / second)))


def lexical(args: argparse.Namespace, folder: Path) -> None:
    """Compare one question to a saved BM25 index with bm25s."""
    peer, index = str(folder / "bm25s"), str(folder / "index")
    run([sys.executable, "-c", BM25S_BUILD, str(args.documents), peer])
    run([OURS, "index", "bm25", "--corpus", str(args.documents), "--to", index])
    in_turn(
        {
            "ours": [OURS, "search", index, args.question],
            "bm25s": [sys.executable, "-c", BM25S_ASK, peer, args.question],
        },
        args.rounds,
    )


def dense(args: argparse.Namespace, folder: Path) -> None:
    """Compare one question to a saved index of the recommended search with a flat FAISS index of the same vectors."""
    import faiss

    index, peer = folder / "index", folder / "faiss"
    run([OURS, "index", args.model, "--corpus", str(args.documents), "--to", str(index)])
    files = Reader(index)
    (rows,) = (files.find(name) for name in files.manifest["files"] if name.endswith(".rows"))
    flat = faiss.IndexFlatIP(rows.shape[1])
    flat.add(np.array(rows))
    faiss.write_index(flat, str(peer))
    on_disk = sum(path.stat().st_size for path in index.iterdir())
    texts = sum(len(text.encode()) for text in files.documents["text"].to_pylist())
    print(f"{len(rows):,} vectors; size on disk / (vectors + text): {on_disk / (rows.nbytes + texts):.2f}")
    in_turn(
        {
            "ours": [OURS, "search", str(index), args.question],
            "FAISS": [sys.executable, "-c", FAISS_ASK, str(peer), args.question, args.model],
        },
        args.rounds,
    )


def add(args: argparse.Namespace, folder: Path) -> None:
    """Compare `add` to a saved index with building it anew; neither counts imports or loading."""
    first = folder / "first.jsonl"
    lines = args.documents.read_text(encoding="utf-8").splitlines()
    first.write_text("\n".join(lines[: -args.added]) + "\n", encoding="utf-8")
    ratios = []
    for number in range(args.rounds):
        some, whole = folder / f"some-{number}", folder / f"whole-{number}"
        run([sys.executable, "-c", BUILD, str(first), args.name, str(some)])
        added = run([sys.executable, "-c", ADD, str(args.documents), str(some), str(args.added)])
        built = run([sys.executable, "-c", BUILD, str(args.documents), args.name, str(whole)])
        ratios.append(float(added[2]) / float(built[2]))
        print(f"add {args.added} of {len(lines):,}: {float(added[2]):.2f} s, anew {float(built[2]):.2f} s")
    print(f"ratio: {statistics.median(ratios):.3f}")


def opening(args: argparse.Namespace, folder: Path) -> None:
    """Measure how long the files of 1,000,000 windows take to open. Their vectors are random."""
    numbers = np.random.default_rng(0)

    def encode(one: Encoder, texts: Any, role: Any, poolings: Any, *_: object) -> Any:
        spans = np.zeros((N_WINDOWS, 2), int)
        rows = [Encoded(numbers.standard_normal((N_WINDOWS, WIDTH), np.float32), spans) for _ in texts]
        return [rows for _ in poolings]

    Encoder.encode = encode  # type: ignore[method-assign]
    searcher = longembed.search("mini-ape+windows@2k")
    searcher.add([f"d{number}" for number in range(N_DOCUMENTS)], ["A document. " * 500] * N_DOCUMENTS)
    searcher.save(folder / "index")
    seconds = []
    for _ in range(args.rounds):
        opened = Searcher(searcher.scorer, name=searcher.name)
        start = time.perf_counter()
        opened.restore(Reader(folder / "index"))
        seconds.append(time.perf_counter() - start)
    print(f"{opened.n_vectors:,} windows open in {statistics.median(seconds):.3f} s")


def main() -> None:
    """Measure and print the ratios."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    measures: list[Callable[[argparse.Namespace, Path], None]] = [lexical, dense, add, opening]
    for measure in measures:
        command = commands.add_parser(measure.__name__, help=measure.__doc__)
        command.set_defaults(measure=measure)
        command.add_argument("--rounds", type=int, default=5)
        if measure is not opening:
            command.add_argument("documents", type=Path, help="JSON Lines with an id and text")
        if measure in (lexical, dense):
            command.add_argument("question")
        if measure is dense:
            command.add_argument("--model", required=True, help="a folder")
        if measure is add:
            command.add_argument("--name", default="bm25:window=200", help="of the search")
            command.add_argument("--added", type=int, default=10, help="number of documents")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        args.measure(args, Path(name))
    print(f"largest process: {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024:,.0f} MB")


if __name__ == "__main__":
    main()
