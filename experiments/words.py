"""Words with neighbours: BM25 by passage without and with the vectors of words, and how its index grows.

    python -m experiments.words measure MODEL COLLECTIONS [NAME ...]
    python -m experiments.words grow DOCUMENTS
    python -m experiments.words page

COLLECTIONS has the folders of `experiments.measured_collections`, MODEL is any name for `mteb run -m`; no document is
encoded. `measure` writes rows to `experiments/words.csv`, `grow` a row for a number of documents of 48,000 characters
to `experiments/words_growth.csv`, and `page` writes the tables of experiments/adapt.md from both,
and the short one of docs/adapt.md.
"""

import argparse
import random
import resource
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

import mteb_longembed  # noqa: F401 (makes its names known to mteb)
from experiments.adapt import NAMES, SHORT, SHORT_NAMES, right_documents
from experiments.materials import sentences
from experiments.measured_collections import read
from experiments.measuring import table, write_part
from mteb_longembed.data.texts import ENGLISH
from mteb_longembed.retrieval.bm25_settings import WINDOW, BM25Settings
from mteb_longembed.retrieval.make import make_bm25
from mteb_longembed.retrieval.scorer import Documents

RESULTS = Path("experiments/words.csv")
GROWTH = Path("experiments/words_growth.csv")
PAGE = Path("experiments/adapt.md")
#: The ways in the order of the page. The first is what the others are compared with.
WAYS = ("best passage", "all passages", "with neighbours")
#: Documents of a small corpus; those of `SMALL` are divided into corpora of so many.
SIZES = (12, 60)
SMALL = "proposals"
#: Characters of a document whose index is measured.
LENGTH = 48_000
_RESAMPLES = 2_000


def settings_of(model: str) -> dict[str, BM25Settings]:
    """Each way by its name. Queries are asked by sentence."""
    best = BM25Settings(window=WINDOW, query="sentences", score="max")
    every = BM25Settings(window=WINDOW, query="sentences")
    near = BM25Settings(window=WINDOW, query="sentences", neighbours=model)
    return dict(zip(WAYS, (best, every, near), strict=True))


def points(scores: np.ndarray, right: np.ndarray, metric: str) -> np.ndarray:
    """The score of each query in percent. Equal scores share a mean rank."""
    own = scores[np.arange(len(right)), right][:, None]
    rank = (scores > own).sum(1) + ((scores == own).sum(1) - 1) / 2
    if metric == "Acc@1":
        return 100.0 * (rank < 0.5)
    if metric == "MRR":
        return 100 / (rank + 1)
    return 100 * np.where(rank < 10, 1 / np.log2(rank + 2), 0.0)


def interval(values: np.ndarray) -> tuple[float, float, float]:
    """The mean, and the ends of its 95 % interval over resamples of queries."""
    draw = np.random.default_rng(0)
    means = [values[draw.integers(len(values), size=len(values))].mean() for _ in range(_RESAMPLES)]
    low, high = np.quantile(means, (0.025, 0.975))
    return float(values.mean()), float(low), float(high)


def measure(model: str, folder: Path, collections: Sequence[str]) -> None:
    """Measure these collections, and add a row for each way to the results."""
    label = Path(model.partition("+")[0]).name
    for name in collections:
        corpus = [row["text"] for row in read(folder / name / "corpus.jsonl")]
        queries = [row["text"] for row in read(folder / name / "queries.jsonl")]
        right = right_documents(folder / name)
        metric = "nDCG@10"
        if name.startswith(("passkey", "needle", "paraphrase")):
            metric = "Acc@1"
        add_rows(label, name, score_all(model, corpus, queries, right, metric))
        if name == SMALL:
            for size in SIZES:
                add_rows(label, f"corpora of {size}", score_small(model, corpus, queries, size))


def score_all(
    model: str, corpus: Sequence[str], queries: Sequence[str], right: np.ndarray, metric: str
) -> dict[str, np.ndarray]:
    """The points of each query in each way."""
    documents = Documents(list(map(str, range(len(corpus)))), corpus, ENGLISH)
    found = {}
    for way, settings in settings_of(model).items():
        began = time.perf_counter()
        scorer = make_bm25(settings, "cpu")
        scorer.fit(documents)
        found[way] = points(scorer.scores(queries), right, metric)
        print(f"{way}: {found[way].mean():.2f}, {time.perf_counter() - began:.0f} s", flush=True)
    return found


def score_small(
    model: str, corpus: Sequence[str], queries: Sequence[str], size: int
) -> dict[str, np.ndarray]:
    """The points of each query, in a corpus of `size` neighbouring documents. Each document has one query."""
    found: dict[str, list[np.ndarray]] = {way: [] for way in WAYS}
    scorers = {way: make_bm25(settings, "cpu") for way, settings in settings_of(model).items()}
    for first in range(0, len(corpus) - size + 1, size):
        last = first + size
        documents = Documents(list(map(str, range(size))), corpus[first:last], ENGLISH)
        for way, scorer in scorers.items():
            scorer.fit(documents)
            found[way].append(points(scorer.scores(queries[first:last]), np.arange(size), "MRR"))
    return {way: np.concatenate(parts) for way, parts in found.items()}


def add_rows(model: str, collection: str, by_way: dict[str, np.ndarray]) -> None:
    """Add the mean of each way and its paired difference to the first."""
    rows = []
    for way, values in by_way.items():
        score, low, high = interval(values)
        gain, gain_low, gain_high = interval(values - by_way[WAYS[0]])
        rows.append([model, collection, way, len(values), score, low, high, gain, gain_low, gain_high])
    columns = ["model", "collection", "way", "n", "score", "low", "high", "gain", "gain_low", "gain_high"]
    table_of = pd.DataFrame(rows, columns=columns).round(2)
    table_of.to_csv(RESULTS, mode="a", header=not RESULTS.exists(), index=False)
    print(table_of.to_string(), flush=True)


def grow(n: int) -> None:
    """Build the index of `n` documents in this process, ask it, and add a row."""
    draw = random.Random(0)
    pool = sentences()
    texts = []
    for _ in range(n):
        order = (
            draw.sample(pool, len(pool)) if len(pool) < LENGTH // 40 else draw.choices(pool, k=LENGTH // 40)
        )
        texts.append(". ".join(order)[:LENGTH].ljust(LENGTH, "."))
    queries = draw.choices(pool, k=50)
    before = _megabytes()
    began = time.process_time()
    scorer = make_bm25(BM25Settings(window=WINDOW))
    scorer.fit(Documents(list(map(str, range(n))), texts, ENGLISH))
    scorer.scores(["lamp"])
    seconds = time.process_time() - began
    memory = _megabytes() - before
    times = []
    for query in queries:
        began = time.process_time()
        scorer.scores([query])
        times.append(1000 * (time.process_time() - began))
    row = {
        "documents": n, "text MB": n * LENGTH / 1e6, "CPU seconds": seconds, "memory MB": memory,
        "query, CPU ms": float(np.median(times)),
    }  # fmt: skip
    rows = pd.DataFrame([row]).round(1)
    rows.to_csv(GROWTH, mode="a", header=not GROWTH.exists(), index=False)
    print(rows.to_string())


def _megabytes() -> float:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def page() -> None:
    """Write both tables of the page."""
    rows = pd.read_csv(RESULTS)
    names = {**NAMES, **{f"corpora of {size}": f"proposals, corpora of {size} (MRR)" for size in SIZES}}
    models = sorted(rows["model"].unique())
    lines = []
    for collection, name in names.items():
        own = rows[rows["collection"] == collection].set_index(["model", "way"])
        if own.empty:
            continue
        best = own.loc[models[0], WAYS[0]]
        line = [name, f"{best['score']:.1f}", with_gain(own.loc[models[0], WAYS[1]])]
        for model in models:
            text = "-"
            if (model, WAYS[2]) in own.index:
                text = with_gain(own.loc[model, WAYS[2]])
            line.append(text)
        lines.append(line)
    head = ["collection", *WAYS[:2], *(f"neighbours by {model}" for model in models)]
    write_part(PAGE, "neighbours", table(head, lines))
    short = [NAMES[collection] for collection in SHORT_NAMES]
    write_part(SHORT, "neighbours", table(head, [line for line in lines if line[0] in short]))
    growth = pd.read_csv(GROWTH).sort_values("documents")
    growth["memory MB"] = growth["memory MB"].round().astype(int)
    write_part(PAGE, "growth", table(list(growth.columns), growth.astype(object).values.tolist()))


def with_gain(row: pd.Series) -> str:
    """A score, and the ends of the interval of its paired difference to the best passage."""
    return f"{row['score']:.1f} ({row['gain_low']:+.1f} to {row['gain_high']:+.1f})"


def main() -> None:
    """Measure, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure")
    measuring.add_argument("model")
    measuring.add_argument("folder", type=Path)
    measuring.add_argument("collections", nargs="*", default=list(NAMES))
    commands.add_parser("grow").add_argument("documents", type=int)
    commands.add_parser("page")
    args = parser.parse_args()
    if args.command == "measure":
        measure(args.model, args.folder, args.collections)
    elif args.command == "grow":
        grow(args.documents)
    else:
        page()


if __name__ == "__main__":
    main()
