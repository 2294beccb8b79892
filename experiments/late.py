"""MaxSim over chunk vectors beside one query vector and sentence-transformers' MaxSim; smaller chunk vectors.

    python -m experiments.late speed [--vectors N] [--rounds N]
    python -m experiments.late smaller COLLECTION MODEL

`speed` takes turns in one process with one thread. `smaller` compares chunk vectors as they are kept, fp32, with fp16,
int8 and pooled ones: nDCG@10, and how many of the ten best documents stay.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from sentence_transformers.multi_vector_encoder.modules import HierarchicalTokenPooling
from sentence_transformers.util import maxsim, quantize_embeddings

import mteb_longembed as longembed
from mteb_longembed.data.check import read_judgements, read_queries
from mteb_longembed.retrieval.vectors import CorpusVectors, document_scores

WIDTH = 384
#: Chunks of a document and tokens of a query.
N_CHUNKS, N_TOKENS = 125, 20


def unit(shape: tuple[int, ...]) -> np.ndarray:
    """Return random vectors of length 1, fp32."""
    rows = np.random.default_rng(0).standard_normal(shape, np.float32)
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True))


def seconds(sides: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the median seconds of each side. All take turns, and the first round does not count."""
    times: dict[str, list[float]] = {side: [] for side in sides}
    for number in range(rounds + 1):
        for side, call in sides.items():
            start = time.perf_counter()
            call()
            if number:
                times[side].append(time.perf_counter() - start)
    return {side: statistics.median(values) for side, values in times.items()}


def speed(n_vectors: int, rounds: int) -> None:
    """Print the seconds of one query over random chunk vectors, and their ratios to one query vector."""
    torch.set_num_threads(1)
    vectors = CorpusVectors()
    for _ in range(n_vectors // N_CHUNKS // 100):
        vectors.append(unit((100, N_CHUNKS, WIDTH)))
    tokens = unit((N_TOKENS, WIDTH))
    tensors = [torch.from_numpy(vectors.document(index)) for index in range(len(vectors))]
    query = torch.from_numpy(tokens)
    counts = np.array([N_TOKENS])
    lengths = np.ones(vectors.n_vectors, np.float32)
    every = torch.cat(tensors)
    # the components of random unit vectors have about the same range
    small = {"bf16": every.bfloat16(), "int8": (every * 400).clamp(-127, 127).to(torch.int8)}
    small_query = {"bf16": query.bfloat16(), "int8": (query * 400).clamp(-127, 127).to(torch.int8)}

    def smaller_scores(kind: str) -> torch.Tensor:
        """Return the MaxSim of vectors of another type, in blocks of about 1,000 documents."""
        blocks = []
        for block in small[kind].split(1_000 * N_CHUNKS):
            if kind == "int8":
                products = torch._int_mm(small_query[kind], block.T)
            else:
                products = small_query[kind] @ block.T
            blocks.append(products.view(N_TOKENS, -1, N_CHUNKS).amax(2).float().mean(0))
        return torch.cat(blocks)

    found = seconds(
        {
            "one query vector": lambda: document_scores(vectors, tokens[:1], lengths=lengths),
            "query tokens": lambda: document_scores(vectors, tokens, lengths=lengths, counts=counts),
            "query tokens, bf16": lambda: smaller_scores("bf16"),
            "query tokens, int8": lambda: smaller_scores("int8"),
            "sentence-transformers' maxsim": lambda: maxsim([query], tensors),
        },
        rounds,
    )
    ours = document_scores(vectors, tokens, lengths=lengths, counts=counts)[0]
    theirs = maxsim([query], tensors)[0].numpy() / N_TOKENS
    print(
        f"{vectors.n_vectors:,} vectors of {WIDTH} numbers, largest difference {np.abs(ours - theirs).max():.1e}"
    )
    for side, value in found.items():
        print(f"{side}: {value:.3f} s, {value / found['one query vector']:.2f} times one query vector")


def ndcg(scores: np.ndarray, relevant: list[set[int]]) -> float:
    """Return nDCG@10 of scores `[queries, documents]` with binary judgements, in points."""
    discounts = 1 / np.log2(np.arange(2, 12))
    gains = []
    for row, right in zip(scores, relevant, strict=True):
        best = np.argsort(-row, kind="stable")[:10]
        hits = np.isin(best, list(right))
        gains.append(discounts[: len(hits)] @ hits / discounts[: len(right)].sum())
    return 100 * float(np.mean(gains))


def smaller(folder: Path, model: Path) -> None:
    """Print quality, agreement and bytes of smaller chunk vectors on a collection."""
    searcher = longembed.search(f"{model}+late")
    searcher.read(folder / "corpus.jsonl")
    assert searcher.index is not None and searcher.index.shown is not None
    scorer = searcher.index.shown
    texts = dict(searcher.texts())
    index = {key: number for number, key in enumerate(texts)}
    queries = read_queries(folder / "queries.jsonl")
    judged = read_judgements(folder / "qrels.jsonl", queries, texts)
    relevant = [{index[key] for key, score in judged[query].items() if score > 0} for query in queries]
    rows, counts = scorer._query_vectors(list(queries.values()))
    kept = scorer.stored.rows
    documents = [kept.document(number) for number in range(len(kept))]
    documents = [one / np.linalg.norm(one, axis=1, keepdims=True) for one in documents]

    def pooled(factor: int) -> list[np.ndarray]:
        tensors = HierarchicalTokenPooling(factor).pool(
            list(map(torch.from_numpy, documents)), task="document"
        )
        return [tensor.numpy() for tensor in tensors]

    every = np.concatenate(documents)
    ends = np.cumsum(list(map(len, documents)))[:-1]
    ranges = np.stack([every.min(axis=0), every.max(axis=0)])
    steps = (ranges[1] - ranges[0]) / 255
    as_int8 = quantize_embeddings(every, "int8", ranges=ranges)
    from_int8 = ((as_int8.astype(np.float32) + 128) * steps + ranges[0]).astype(np.float32)
    forms = {
        "fp32": (documents, 4),
        "fp16": ([one.astype(np.float16).astype(np.float32) for one in documents], 2),
        "int8": (np.split(from_int8, ends), 1),
        "half of the vectors, pooled, fp32": (pooled(2), 4),
        "a quarter of the vectors, pooled, fp32": (pooled(4), 4),
    }
    exact = None
    for form, (arrays, size) in forms.items():
        vectors = CorpusVectors()
        vectors.append(arrays)
        lengths = np.linalg.norm(np.concatenate(arrays), axis=1)
        scores = document_scores(vectors, rows, lengths=lengths, counts=counts)
        best = [set(np.argsort(-row, kind="stable")[:10].tolist()) for row in scores]
        exact = exact or best
        same = np.mean([one == two for one, two in zip(best, exact, strict=True)])
        overlap = np.mean([len(one & two) / len(two) for one, two in zip(best, exact, strict=True)])
        n_bytes = vectors.n_vectors * vectors.width * size / len(vectors) / 1024
        print(
            f"{form}: nDCG@10 {ndcg(scores, relevant):.1f}, the same ten {same:.0%}, overlap "
            f"{overlap:.1%}, {n_bytes:,.0f} KB a document"
        )


def main() -> None:
    """Measure one of the two."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    timed = commands.add_parser("speed", help=speed.__doc__)
    timed.add_argument("--vectors", type=int, default=1_000_000)
    timed.add_argument("--rounds", type=int, default=5)
    less = commands.add_parser("smaller", help=smaller.__doc__)
    less.add_argument("collection", type=Path)
    less.add_argument("model", type=Path)
    args = parser.parse_args()
    if args.command == "speed":
        speed(args.vectors, args.rounds)
    else:
        smaller(args.collection, args.model)


if __name__ == "__main__":
    main()
