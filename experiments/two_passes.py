"""One pass and two over the chunk vectors of real texts: time, size, memory, and the same best ten.

    python -m experiments.two_passes encode MODEL TEXTS.jsonl.gz... --to VECTORS
    python -m experiments.two_passes queries MODEL TEXTS.jsonl.gz... --to QUERIES
    python -m experiments.two_passes measure VECTORS QUERIES FOLDER [--vectors N] [--tokens N...] [--chunks N]
    python -m experiments.two_passes peer VECTORS QUERIES FOLDER --python PYTHON
    python -m experiments.two_passes windows VECTORS [--vectors N]

`encode` keeps the means of 4 consecutive token states, in windows of 240 tokens. They make the vectors of 4, 8 or 16
tokens. Documents are `--chunks` of them, in the order of the texts.
`measure` builds an index in each precision in FOLDER and asks them in turn, by process time; `windows` does so with one
vector for each query. Set OMP_NUM_THREADS=1.
"""

import argparse
import gzip
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import faiss
import mteb
import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

import mteb_longembed as longembed
from mteb_longembed.encoders.method import Method
from mteb_longembed.encoders.whitening import unit
from mteb_longembed.retrieval import coarse, vector_scorer
from mteb_longembed.retrieval.encoder import Encoded
from mteb_longembed.retrieval.encoding import Encoding
from mteb_longembed.retrieval.index import Index
from mteb_longembed.retrieval.mteb_models import MTEBEncoder
from mteb_longembed.retrieval.scorer import Documents
from mteb_longembed.retrieval.storage import Reader, Writer
from mteb_longembed.retrieval.vector_scorer import VectorScorer
from mteb_longembed.retrieval.vectors import CorpusVectors, document_scores
from mteb_longembed.sentences import sentences
from mteb_longembed.values import Precision

WIDTH, WINDOW = 384, 240
PRECISIONS: tuple[Precision, ...] = ("fp32", "int8", "4bit")
ABOUT: dict[str, Any] = {
    "name": "",
    "revision": "1",
    "versions": {},
    "documents": 1,
    "empty": [],
    "language": "eng",
}
#: fast-plaid in an environment of its own: prints the seconds of a build, and of each query with its best ten.
PLAID = """
import json, pathlib, sys, time
import numpy as np, torch
from fast_plaid import search
torch.set_num_threads(1)
folder = pathlib.Path(sys.argv[1])
rows = torch.from_numpy(np.load(folder / "rows.npy"))
queries = [torch.from_numpy(one)[None] for one in np.load(folder / "asked.npy", allow_pickle=True)]
index = search.FastPlaid(str(folder / "plaid"), device="cpu")
start = time.process_time()
index.create(list(rows), nbits=int(sys.argv[2]))
print(json.dumps(time.process_time() - start))
for query in queries:
    start = time.process_time()
    found = index.search(query, top_k=10, show_progress=False)
    print(json.dumps([time.process_time() - start, [key for key, _ in found[0]]]))
"""


def read(paths: list[Path]) -> Iterator[str]:
    """Yield the text of each line."""
    for path in paths:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)["text"]


def encode(args: argparse.Namespace) -> None:
    """Write the means of 4 token states of all texts, fp16."""
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    model = AutoModel.from_pretrained(args.model).eval()

    def windows() -> Iterator[list[int]]:
        for text in read(args.texts):
            ids = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
            for start in range(0, len(ids) - WINDOW + 1, WINDOW):
                yield tokenizer.build_inputs_with_special_tokens(ids[start : start + WINDOW])

    every = windows()
    with args.to.open("wb") as out, torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        while batch := list(islice(every, 32)):
            states = model(torch.tensor(batch)).last_hidden_state.float()[:, 1:-1]
            out.write(states.reshape(-1, 4, WIDTH).mean(1).half().numpy().tobytes())


def queries(args: argparse.Namespace) -> None:
    """Write the vectors of sentences of the texts, and of the texts of files of queries, as queries of `+late`."""
    rng = np.random.default_rng(0)
    asked = []
    for path in args.texts:
        texts = list(read([path]))
        for index in rng.choice(len(texts), args.number, replace=False):
            fitting = [one for one in sentences(texts[index]) if 30 < len(one) < 200] or [texts[index][:200]]
            asked.append(fitting[rng.integers(len(fitting))])
    searcher = longembed.search(f"{args.model}+late")
    searcher.add(["a"], ["The key is under the mat."])
    assert searcher.index is not None and searcher.index.shown is not None
    rows, counts = searcher.index.shown._query_vectors(asked)
    np.savez(args.to, rows=rows, counts=counts)


def index_of(queries: list[np.ndarray], precision: Precision) -> Index:
    """Return an index without documents, which knows the vectors of the queries `0`, `1` and so on."""

    def encode(inputs: Any, **_: Any) -> list[np.ndarray]:
        return [queries[int(text)] for batch in inputs for text in batch["text"]]

    meta = mteb.get_model_meta("sentence-transformers/all-MiniLM-L6-v2")
    encoder = SimpleNamespace(mteb_model_meta=meta, encode=encode, model=None)
    scorer = VectorScorer(Encoding(MTEBEncoder(encoder)), None, Method("m", query="tokens"))
    scorer.encoding.store_as(precision)
    return Index(scorer.encoding.encoder.identity, [scorer])


def rows_of(path: Path, n: int, tokens: list[int]) -> Iterator[np.ndarray]:
    """Yield at most `n` vectors of length 1, in blocks: one for each 4, 8 or 16 tokens, one size after another."""
    means = np.memmap(path, np.float16, "r").reshape(-1, WIDTH)
    for of_one in tokens:
        group = of_one // 4
        for start in range(0, len(means), 240_000):
            block = means[start : start + 240_000].astype(np.float32)
            rows = unit(block[: len(block) // group * group].reshape(-1, group, WIDTH).mean(1))[:n]
            n -= len(rows)
            if not len(rows):
                return
            yield rows


def fill(index: Index, blocks: Iterator[np.ndarray], chunks: int) -> None:
    """Give an index the documents of `chunks` vectors each."""
    (scorer,) = index.vectors
    for rows in blocks:
        documents = rows[: len(rows) // chunks * chunks].reshape(-1, chunks, WIDTH)
        scorer.stored.append([Encoded(one, np.array([[0, 1]])) for one in documents])
    n = len(scorer.stored)
    texts = ["text"] * n
    scorer.encoding.documents = Documents(list(map(str, range(n))), texts)


def size_of(folder: Path) -> int:
    """Return the bytes of the files of a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def built(folder: Path, index: Index, blocks: Iterator[np.ndarray], chunks: int) -> Reader:
    """Return a saved index, and print what it took."""
    start = time.process_time()
    fill(index, blocks, chunks)
    folder.mkdir(parents=True)
    writer = Writer(folder, None)
    index.save(writer)
    reader = writer.commit(**{**ABOUT, "documents": len(index.documents)})
    print(
        f"{folder.name}: {time.process_time() - start:.1f} s, {size_of(folder) / 2**20:,.0f} MB", flush=True
    )
    return reader


def in_turn(sides: dict[str, Callable[[str], np.ndarray]], n: int) -> dict[str, list[np.ndarray]]:
    """Ask each side each of `n` queries, and print the medians of the process times; the first query does not count."""
    found: dict[str, list[np.ndarray]] = {side: [] for side in sides}
    times: dict[str, list[float]] = {side: [] for side in sides}
    for number in range(n):
        for side, ask in sides.items():
            start = time.process_time()
            found[side].append(ask(str(number)))
            times[side].append(time.process_time() - start)
    base = statistics.median(times["fp32, one pass"][1:])
    for side, of_side in times.items():
        median = statistics.median(of_side[1:])
        print(f"{side}: {1000 * median:.1f} ms, 1/{base / median:.1f} of fp32 in one pass")
    return found


def shared(one: np.ndarray, two: np.ndarray) -> float:
    """Return the share of the best ten of the first scores that are among those of the second."""
    return float(np.isin(np.argsort(-one)[:10], np.argsort(-two)[:10]).mean())


def opened(folder: Path, queries: list[np.ndarray]) -> Index:
    """Open a saved index of `built`."""
    reader = Reader(folder)
    index = index_of(queries, "fp32")
    n = reader.manifest.documents
    index.restore(reader, Documents(list(map(str, range(n))), ["text"] * n))
    return index


def asked_of(path: Path, n: int) -> list[np.ndarray]:
    """Return the vectors of `n` sampled queries."""
    kept = np.load(path)
    every = np.split(kept["rows"], np.cumsum(kept["counts"])[:-1])
    return [every[index] for index in np.random.default_rng(1).choice(len(every), n, replace=False)]


def measure(args: argparse.Namespace) -> None:
    """Compare one pass in fp32, int8 and 4bit with two passes."""
    coarse.OF_A_MEAN, coarse._OF_A_CODE, coarse._VECTORS = args.mean_of, args.of_a_code, args.candidates
    asked = asked_of(args.queries, args.asked)
    print(f"{args.asked} queries of {np.mean(list(map(len, asked))):.0f} tokens")
    sides: dict[str, Callable[[str], np.ndarray]] = {}
    for precision in args.precisions:
        # the coarse vectors are made here, and kept
        vector_scorer.MANY_VECTORS = 1 << 60 if precision == "fp32" else 1
        folder = args.folder / precision
        if not folder.exists():
            blocks = rows_of(args.vectors_file, args.vectors, args.tokens)
            built(folder, index_of(asked, precision), blocks, args.chunks)
        one = opened(folder, asked)
        n_vectors = one.vectors[0].stored.rows.n_vectors
        print(f"{precision}: {n_vectors:,} vectors, {len(one.documents):,} documents")
        sides[f"{precision}, one pass"] = lambda query, one=one: one.scores([query])[0]
        if precision != "fp32":
            sides[f"{precision}, two passes"] = lambda query, one=one: one.best_scores([query], 10)[0]
    found = in_turn(sides, args.asked)
    for side, scores in found.items():
        same = []
        for other in (f"{side.split(',')[0]}, one pass", "fp32, one pass"):
            pairs = zip(found[other], scores, strict=True)
            same.append(np.mean([shared(*pair) for pair in pairs]))
        print(f"{side}: same best ten as its one pass {same[0]:.4f}, as fp32 {same[1]:.4f}")
    for precision in args.precisions[1:]:
        command = [
            sys.executable,
            "-m",
            "experiments.two_passes",
            "ask",
            args.folder / precision,
            args.queries,
        ]
        print(precision, subprocess.run(command, capture_output=True, text=True, check=True).stdout, end="")


def peer(args: argparse.Namespace) -> None:
    """Compare two passes with fast-plaid: build, a lone query, the same best ten as the exact product, and size."""
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    asked = asked_of(args.queries, args.asked)
    rows = np.concatenate(list(rows_of(args.vectors_file, args.vectors, [16])))
    rows = rows[: len(rows) // args.chunks * args.chunks].reshape(-1, args.chunks, WIDTH)
    args.folder.mkdir(parents=True, exist_ok=True)
    np.save(args.folder / "rows.npy", rows)
    kept = np.empty(len(asked), object)
    kept[:] = asked
    np.save(args.folder / "asked.npy", kept, allow_pickle=True)
    exact = [np.argsort(-(rows @ query.T).max(axis=1).mean(axis=1))[:10] for query in asked]
    print(f"{rows.shape[0]:,} documents of {args.chunks} vectors, {rows.nbytes / 2**20:,.0f} MB in fp32")

    def report(side: str, build: float, times: list[float], found: list[list[int]], size: int) -> None:
        same = np.mean([len(np.intersect1d(*pair)) / 10 for pair in zip(exact, found, strict=True)])
        print(
            f"{side}: build {build:.1f} s, a query {1000 * statistics.median(times[1:]):.1f} ms, the same best ten "
            f"{same:.4f}, 1/{rows.nbytes / size:.1f} of fp32",
            flush=True,
        )

    vector_scorer.MANY_VECTORS = 1
    for _ in range(args.rounds):
        for bits in (4, 2):
            command = [str(args.python), "-c", PLAID, str(args.folder), str(bits)]
            ran = subprocess.run(command, capture_output=True, text=True, check=True)
            build, *answers = [json.loads(line) for line in ran.stdout.splitlines()]
            times, found = zip(*answers, strict=True)
            report(
                f"fast-plaid, {bits} bits", build, list(times), list(found), size_of(args.folder / "plaid")
            )
            shutil.rmtree(args.folder / "plaid")
        for precision in PRECISIONS[1:]:
            scorer = index_of(asked, precision)
            start = time.process_time()
            built(args.folder / precision, scorer, iter([rows.reshape(-1, WIDTH)]), args.chunks)
            build = time.process_time() - start
            one = opened(args.folder / precision, asked)
            times, found = [], []
            for number in range(len(asked)):
                start = time.process_time()
                scores = one.best_scores([str(number)], 10)[0]
                found.append(np.argsort(-scores)[:10])
                times.append(time.process_time() - start)
            report(f"two passes, {precision}", build, times, found, size_of(args.folder / precision))
            shutil.rmtree(args.folder / precision)


def ask(args: argparse.Namespace) -> None:
    """Open an index, ask it ten queries, and print the peak of the resident memory; with imports, without a model."""
    asked = asked_of(args.queries, 10)
    before = resident()
    scorer = opened(args.folder, asked)
    start = time.perf_counter()
    scorer.best_scores(["0"], 10)
    first = time.perf_counter() - start
    one = resident()
    for number in range(1, 10):
        scorer.best_scores([str(number)], 10)
    print(
        f"first query {first:.2f} s; resident {before:,.0f} MB, {one:,.0f} after it, {resident():,.0f} after ten"
    )


def resident() -> float:
    """Return the highest resident memory of this process in MB. That of `getrusage` is the parent's, too."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def windows(args: argparse.Namespace) -> None:
    """Compare one query vector over mapped windows with FAISS's flat index, and int8 with fp32."""
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    every = np.concatenate(list(rows_of(args.vectors_file, args.vectors, [4])))
    sides: dict[str, Callable[[], object]] = {}
    query = every[:1] + every[-1:]
    for precision in ("fp32", "int8"):
        one = CorpusVectors(precision)
        one.append(iter(every))
        print(f"{precision}: {one.n_bytes / 2**20:,.0f} MB")
        sides[precision] = lambda one=one: document_scores(one, query)
    flat = faiss.IndexFlatIP(WIDTH)
    flat.add(every)
    sides["IndexFlatIP"] = lambda: flat.search(query, 10)
    times: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(args.rounds + 1):
        for side, call in sides.items():
            start = time.process_time()
            call()
            times[side].append(time.process_time() - start)
    base = statistics.median(times["IndexFlatIP"][1:])
    for side, of_side in times.items():
        median = statistics.median(of_side[1:])
        print(f"{len(every):,} windows, {side}: {1000 * median:.1f} ms, {median / base:.2f} of IndexFlatIP")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    for made in (encode, queries):
        command = commands.add_parser(made.__name__, help=made.__doc__)
        command.set_defaults(call=made)
        command.add_argument("model", type=Path)
        command.add_argument("texts", type=Path, nargs="+")
        command.add_argument("--to", type=Path, required=True)
        command.add_argument("--number", type=int, default=60, help="queries from each file")
    command = commands.add_parser("measure", help=measure.__doc__)
    command.set_defaults(call=measure)
    command.add_argument("vectors_file", type=Path)
    command.add_argument("queries", type=Path)
    command.add_argument("folder", type=Path)
    command.add_argument("--vectors", type=int, default=1_000_000)
    command.add_argument("--tokens", type=int, nargs="+", default=[16], help="tokens of a vector: 4, 8, 16")
    command.add_argument("--chunks", type=int, default=24, help="vectors of a document")
    command.add_argument("--asked", type=int, default=60, help="queries")
    command.add_argument("--precisions", nargs="+", default=PRECISIONS, help="fp32 first")
    command.add_argument("--mean-of", type=int, default=coarse.OF_A_MEAN)
    command.add_argument("--of-a-code", type=int, default=coarse._OF_A_CODE)
    command.add_argument("--candidates", type=int, default=coarse._VECTORS, help="vectors of the second pass")
    command = commands.add_parser("peer", help=peer.__doc__)
    command.set_defaults(call=peer)
    command.add_argument("vectors_file", type=Path)
    command.add_argument("queries", type=Path)
    command.add_argument("folder", type=Path)
    command.add_argument("--python", type=Path, required=True, help="of an environment with fast-plaid")
    command.add_argument("--vectors", type=int, default=141_000)
    command.add_argument("--chunks", type=int, default=24)
    command.add_argument("--asked", type=int, default=60)
    command.add_argument("--rounds", type=int, default=2)
    command = commands.add_parser("ask", help=ask.__doc__)
    command.set_defaults(call=ask)
    command.add_argument("folder", type=Path)
    command.add_argument("queries", type=Path)
    command = commands.add_parser("windows", help=windows.__doc__)
    command.set_defaults(call=windows)
    command.add_argument("vectors_file", type=Path)
    command.add_argument("--vectors", type=int, default=300_000)
    command.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    args.call(args)


if __name__ == "__main__":
    main()
