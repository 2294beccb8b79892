"""What corpus weights, whitening and BM25 by passage are worth on real models: the tables of experiments/adapt.md.

    python -m experiments.adapt measure STATES COLLECTIONS
    python -m experiments.adapt prompts MODEL COLLECTION
    python -m experiments.adapt page

STATES has a folder for each model and, in it, one for each collection (`experiments.token_states`), COLLECTIONS those
of `experiments.measured_collections`. `prompts` prints what `adapt` gives a model with and without E5's prompts.
`measure` writes the points of each query to `points.parquet` in STATES, and a row for each setting to
`experiments/adapt.csv`; `page` writes the tables from the second, and the short one of docs/adapt.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from sentence_transformers import SentenceTransformer

import mteb_longembed
from experiments.measured_collections import read
from experiments.measuring import table as markdown
from experiments.measuring import with_ends, write_part
from mteb_longembed.encoders.weights import NO_WEIGHT, RULES, TokenCounts
from mteb_longembed.encoders.whitening import Whitening, unit
from mteb_longembed.retrieval.bm25_settings import BM25Settings
from mteb_longembed.retrieval.passage_bm25 import PassageBM25
from mteb_longembed.retrieval.scorer import Documents
from mteb_longembed.retrieval.vectors import all_vectors, best_vector
from mteb_longembed.statistics.resampling import Interval

RESULTS = Path("experiments/adapt.csv")
PAGE = Path("experiments/adapt.md")
SHORT = Path("docs/adapt.md")
#: Windows that a map is fitted on, beside all of them.
FEWER = (12, 50, 300)
#: Documents of a small corpus; all documents of `SMALL` are divided into corpora of so many.
SIZES = (8, 12, 60, 100)
SMALL = "proposals"
#: What tells two settings apart.
SETTING = ["pooling", "whiten", "fitted on", "way"]
#: BERT's and MPNet's special tokens, by the first token of a text.
SPECIAL = {101: (101, 102, 0), 0: (0, 1, 2)}
#: Windows whose states are in memory at the same time.
_STEP = 256
_RESAMPLES = 2_000


@dataclass(frozen=True)
class Tokens:
    """The tokens of all texts of one kind, in windows.

    Args:
        token: ids, `[tokens]`.
        starts: the first token of each window, and the end, `[windows + 1]`.
        owner: the number of each window's text, `[windows]`.
        states: the last hidden state of each token, `[tokens, d]`, on disk.
    """

    token: np.ndarray
    starts: np.ndarray
    owner: np.ndarray
    states: np.ndarray

    @classmethod
    def read(cls, folder: Path) -> Tokens:
        """What `experiments.token_states` wrote."""
        with np.load(folder / "tokens.npz") as kept:
            states = np.load(folder / "states.npy", mmap_mode="r")
            return cls(kept["token"], kept["starts"], kept["text_of_window"], states)

    def of_texts(self, first: int, last: int) -> Tokens:
        """The tokens of the texts with these numbers."""
        chosen = np.flatnonzero((self.owner >= first) & (self.owner < last))
        rows = [np.arange(self.starts[window], self.starts[window + 1]) for window in chosen]
        places = np.concatenate(rows)
        starts = np.cumsum([0, *map(len, rows)])
        return Tokens(self.token[places], starts, self.owner[chosen] - first, self.states[places])

    def contents(self) -> list[np.ndarray]:
        """The ids of each text's tokens, without special ones."""
        special = SPECIAL[int(self.token[0])]
        windows = np.split(self.token, self.starts[1:-1])
        texts: list[list[np.ndarray]] = [[] for _ in range(int(self.owner.max()) + 1)]
        for owner, ids in zip(self.owner, windows, strict=True):
            texts[owner].append(ids[~np.isin(ids, special)])
        return [np.concatenate(parts) for parts in texts]

    def pooled(self, table: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Weighted sums of each window, `[windows, d]`, and the sums of the weights; without a table, [CLS]."""
        if table is None:
            rows = np.asarray(self.states[np.sort(self.starts[:-1])], np.float32)
            return rows, np.ones(len(rows), np.float32)
        n_windows = len(self.owner)
        sums = np.zeros((n_windows, self.states.shape[1]), np.float32)
        weights = table[self.token].astype(np.float32)
        for first in range(0, n_windows, _STEP):
            last = min(first + _STEP, n_windows)
            start = int(self.starts[first])
            end = int(self.starts[last])
            states = np.asarray(self.states[start:end], np.float32) * weights[start:end, None]
            sums[first:last] = np.add.reduceat(states, self.starts[first:last] - start, axis=0)
        return sums, np.add.reduceat(weights, self.starts[:-1])


@dataclass(frozen=True)
class Vectors:
    """What a pooling makes of a collection: queries `[q, d]`, windows `[w, d]`, documents `[n, d]`, not yet scaled."""

    queries: np.ndarray
    windows: np.ndarray
    documents: np.ndarray


class Collection:
    """One collection as one model reads it.

    Args:
        corpus: the tokens of documents.
        queries: those of queries.
        right: the number of each query's document.
        metric: `Acc@1`, `nDCG@10` or `MRR`.
    """

    def __init__(self, corpus: Tokens, queries: Tokens, right: np.ndarray, metric: str) -> None:
        self.corpus = corpus
        self.queries = queries
        self.right = right
        self.metric = metric
        self.order = np.argsort(self.corpus.owner, kind="stable")
        self.counts = np.bincount(self.corpus.owner)

    @classmethod
    def read(cls, states: Path, texts: Path) -> Collection:
        """What `experiments.token_states` and `experiments.measured_collections` wrote."""
        metric = "nDCG@10"
        if texts.name.startswith(("passkey", "needle", "paraphrase")):
            metric = "Acc@1"
        tokens = (Tokens.read(states / part) for part in ("corpus", "queries"))
        return cls(*tokens, right_documents(texts), metric)

    def divided(self, size: int) -> Iterator[Collection]:
        """Collections of `size` neighbouring documents. Each document has one query, of the same number."""
        for first in range(0, len(self.counts) - size + 1, size):
            parts = (tokens.of_texts(first, first + size) for tokens in (self.corpus, self.queries))
            yield Collection(*parts, np.arange(size), "MRR")

    def tables(self) -> dict[str, np.ndarray | None]:
        """Pooling and rule -> the weight of each token; None for the [CLS] state."""
        size = int(max(self.corpus.token.max(), self.queries.token.max())) + 1
        counts = TokenCounts.of(self.corpus.contents(), size)
        tables: dict[str, np.ndarray | None] = {"mean": np.ones(size)}
        for rule, weigh in RULES.items():
            tables[rule] = weigh(counts)
        for table in tables.values():
            table[list(SPECIAL[int(self.corpus.token[0])])] = NO_WEIGHT  # type: ignore[index]
        return {**tables, "cls": None}

    def vectors(self, table: np.ndarray | None) -> Vectors:
        """Queries, windows in the order of documents, and documents."""
        of_queries, query_sums = self.queries.pooled(table)
        sums, weights = self.corpus.pooled(table)
        sums = sums[self.order]
        weights = weights[self.order]
        starts = np.cumsum(self.counts) - self.counts
        documents = np.add.reduceat(sums, starts, axis=0) / np.add.reduceat(weights, starts)[:, None]
        return Vectors(of_queries / query_sums[:, None], sums / weights[:, None], documents)

    def scores(self, vectors: Vectors, whitening: Whitening | None) -> dict[str, np.ndarray]:
        """Way -> the scores `[queries, documents]`."""
        queries, windows, documents = vectors.queries, vectors.windows, vectors.documents
        if whitening is not None:
            queries = whitening.queries(queries)
            windows, documents = map(whitening.documents, (windows, documents))
        queries, windows, documents = map(unit, (queries, windows, documents))
        of_windows = queries @ windows.T
        return {
            "first window": of_windows[:, np.cumsum(self.counts) - self.counts],
            "one vector": queries @ documents.T,
            "best window": best_vector(of_windows, self.counts),
            "all windows": all_vectors(of_windows, self.counts),
        }

    def points(self, scores: np.ndarray) -> np.ndarray:
        """Each query's score by the metric, from 0 to 1. Equal scores share a mean rank."""
        own = scores[np.arange(len(self.right)), self.right][:, None]
        rank = (scores > own).sum(1) + ((scores == own).sum(1) - 1) / 2
        if self.metric == "MRR":
            return 1 / (rank + 1)
        if self.metric == "Acc@1":
            return (rank < 0.5).astype(float)
        return np.where(rank < 10, 1 / np.log2(rank + 2), 0.0)


def right_documents(collection: Path) -> np.ndarray:
    """The number of each query's right document."""
    number = {row["doc_id"]: i for i, row in enumerate(read(collection / "corpus.jsonl"))}
    right = {row["qid"]: number[row["doc_id"]] for row in read(collection / "qrels.jsonl")}
    return np.array([right[row["qid"]] for row in read(collection / "queries.jsonl")])


def settings_of(collection: Collection, words: np.ndarray) -> Iterator[tuple[dict[str, object], np.ndarray]]:
    """Every setting of vectors, with the points of each query; `words` are the scores of BM25 by passage."""
    draw = np.random.default_rng(0)
    for pooling, table in collection.tables().items():
        vectors = collection.vectors(table)
        maps: dict[tuple[float, object], Whitening | None] = {(0.0, ""): None}
        maps[0.5, "all"] = Whitening.fit(vectors.windows, 0.5)
        if pooling == "mean":
            maps[1.0, "all"] = Whitening.fit(vectors.windows, 1.0)
            maps[0.5, "documents"] = Whitening.fit(vectors.documents, 0.5)
            for n in FEWER:
                if n < len(vectors.windows):
                    some = draw.choice(len(vectors.windows), n, replace=False)
                    maps[0.5, n] = Whitening.fit(vectors.windows[some], 0.5)
        for (power, fitted_on), whitening in maps.items():
            for way, scores in collection.scores(vectors, whitening).items():
                about = {"pooling": pooling, "whiten": power, "fitted on": fitted_on, "way": way}
                yield about, collection.points(scores)
                if way == "all windows" and fitted_on == "all":
                    fused = (scores + 1) / (scores.max(1, keepdims=True) + 1) + words
                    yield {**about, "way": "all windows, fused"}, collection.points(fused)


def settings_of_small(collection: Collection, size: int) -> Iterator[tuple[dict[str, object], np.ndarray]]:
    """One vector a document in corpora of `size` documents, with the points of each query."""
    found: dict[tuple[str, float], list[np.ndarray]] = {}
    for part in collection.divided(size):
        for pooling, table in part.tables().items():
            if table is None:
                continue
            vectors = part.vectors(table)
            for power in (0.0, 0.5):
                whitening = Whitening.fit(vectors.windows, power) if power else None
                scores = part.scores(vectors, whitening)["one vector"]
                found.setdefault((pooling, power), []).append(part.points(scores))
    for (pooling, power), points in found.items():
        yield {"pooling": pooling, "whiten": power, "way": f"corpora of {size}"}, np.concatenate(points)


def scores_of_words(texts: Path) -> dict[str, np.ndarray]:
    """The scores of BM25 on whole documents, by passage and by the sentences of queries, `[queries, documents]`."""
    corpus = [row["text"] for row in read(texts / "corpus.jsonl")]
    asked = [row["text"] for row in read(texts / "queries.jsonl")]
    documents = Documents([str(i) for i in range(len(corpus))], corpus)
    scores = {}
    for way, settings in (
        ("BM25", BM25Settings()),
        ("BM25 by passage", BM25Settings(window=200, score="max")),
        ("BM25 by passage and sentence", BM25Settings(window=200, query="sentences", score="max")),
    ):
        scorer = PassageBM25(settings)
        scorer.fit(documents)
        scores[way] = scorer.scores(asked)
    return scores


def points_of(states: Path, texts: Path) -> pd.DataFrame:
    """The points of each query with every setting, as one model reads one collection."""
    collection = Collection.read(states, texts)
    words = scores_of_words(texts)
    passages = words["BM25 by passage"]
    found = [*settings_of(collection, passages / np.maximum(passages.max(1, keepdims=True), 1e-9))]
    found += [({"way": way}, collection.points(scores)) for way, scores in words.items()]
    for size in SIZES if texts.name == SMALL else ():
        found += settings_of_small(collection, size)
    frames = []
    for about, points in found:
        setting = {key: str(about.get(key, "")) for key in SETTING}
        frames.append(pd.DataFrame({**setting, "query": np.arange(len(points)), "score": points}))
    return pd.concat(frames).assign(model=states.parent.name, collection=texts.name)


def measure(states: Path, collections: Path) -> None:
    """Measure all models and collections whose states are complete. What has its points is not measured again."""
    for done in sorted(states.glob("*/*/ok")):
        file = done.with_name("points.parquet")
        if not file.exists():
            points_of(file.parent, collections / file.parent.name).to_parquet(file)
        print(file, flush=True)
    points = pd.concat(map(pd.read_parquet, sorted(states.glob("*/*/points.parquet"))))
    points.to_parquet(states / "points.parquet")
    rows = []
    plain: dict[tuple[str, ...], np.ndarray] = {}
    for (model, collection, *setting), own in points.groupby(["model", "collection", *SETTING], sort=False):
        about = {"model": model, "collection": collection, **dict(zip(SETTING, setting, strict=True))}
        scores = own["score"].to_numpy()
        # [CLS] is compared with the plain [CLS], all others with the plain mean
        of = "cls" if about["pooling"] == "cls" else "mean"
        base = plain.setdefault((model, collection, of, about["way"]), scores)
        rows.append({**about, "n": len(scores), **interval(scores), **gain(scores, base)})
    pd.DataFrame(rows).to_csv(RESULTS, index=False, float_format="%.2f")


def measure_prompts(folder: Path, texts: Path) -> None:
    """Print nDCG@10 of a model as it is and adapted, with and without prompts."""
    documents = [row["text"] for row in read(texts / "corpus.jsonl")]
    queries = [row["text"] for row in read(texts / "queries.jsonl")]
    right = right_documents(texts)
    for prompts in ({}, {"query": "query: ", "document": "passage: "}):
        base = SentenceTransformer(str(folder), prompts=prompts, device="cpu")
        for model in (base, mteb_longembed.adapt(base, documents, weights="idf", whiten=0.5)):
            scores = model.similarity(model.encode_query(queries), model.encode_document(documents)).numpy()
            own = scores[np.arange(len(right)), right][:, None]
            rank = (scores > own).sum(1)
            points = np.where(rank < 10, 1 / np.log2(rank + 2), 0.0)
            kind = "plain" if model is base else "adapted"
            print(bool(prompts) * "with prompts, " + kind, interval(points), flush=True)


def interval(points: np.ndarray) -> dict[str, float]:
    """The mean in percent, with its 95 % interval by resampled queries."""
    means = resampled(points)
    low, high = np.percentile(means, [2.5, 97.5])
    return {"score": 100 * points.mean(), "low": 100 * low, "high": 100 * high}


def gain(points: np.ndarray, base: np.ndarray) -> dict[str, float]:
    """The paired difference to the plain vectors of the same pooling and way."""
    return {f"gain {name}".replace(" score", ""): value for name, value in interval(points - base).items()}


def resampled(points: np.ndarray) -> np.ndarray:
    """The means of resamples of the queries."""
    draw = np.random.default_rng(0)
    return np.array([points[draw.integers(len(points), size=len(points))].mean() for _ in range(_RESAMPLES)])


#: Collections in the order of the page.
NAMES = {
    "qmsum": "meetings (QMSum)",
    "chapters": "chapters",
    "proposals": "proposals (short)",
    "questions": "proposals (whole), questions",
    "paraphrase_4096": "paraphrases, 4,096",
    "passkey_4096": "Passkey, 4,096",
    "passkey_32768": "Passkey, 32,768",
    "needle_4096": "Needle, 4,096",
    "needle_32768": "Needle, 32,768",
}
#: Those of the short tables.
SHORT_NAMES = ("qmsum", "chapters", "proposals", "questions", "paraphrase_4096")
#: Small corpora of the page.
SHOWN_SIZES = (8, 60)
WAYS = ("one vector", "best window", "all windows")
#: Pooling and power of the main tables' columns.
COLUMNS = {
    "plain": ("mean", 0.0), "whitened": ("mean", 0.5), "`idf`": ("idf", 0.0), "`idf`, whitened": ("idf", 0.5),
    "`sif`": ("sif", 0.0), "`sif`, whitened": ("sif", 0.5),
}  # fmt: skip
#: The plain [CLS] vectors are what their whitened ones are compared with.
CLS = {"[CLS]": ("cls", 0.0), "[CLS], whitened": ("cls", 0.5)}
#: What a map is fitted on, for each column of a model; "" is no map.
FITS = {"plain/12/50/300/all": ("", "12", "50", "300", "all"), "documents": ("documents",)}


def page() -> None:
    """Write the tables of the page."""
    rows = pd.read_csv(RESULTS, dtype={"fitted on": str}, keep_default_na=False, na_values={"score": [""]})
    rows["whiten"] = pd.to_numeric(rows["whiten"])
    whole = rows[rows["fitted on"].isin(["", "all"])]
    for model, own in whole.groupby("model"):
        write_part(PAGE, str(model), of_model(own))
    write_part(SHORT, "vectors", all_windows(whole[whole["collection"].isin(SHORT_NAMES)]))
    write_part(PAGE, "few", few_windows(rows[rows["pooling"] == "mean"]))
    write_part(PAGE, "small", small(rows[rows["way"].isin([f"corpora of {size}" for size in SHOWN_SIZES])]))
    write_part(PAGE, "words", words(rows[rows["way"].str.startswith("BM25")]))


def by_collection(rows: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The name of each collection of the page, with its rows."""
    for collection, name in NAMES.items():
        own = rows[rows["collection"] == collection]
        if not own.empty:
            yield name, own


def of_model(rows: pd.DataFrame) -> str:
    """One model, a row for each collection: one vector / best window / all windows."""
    columns = COLUMNS | CLS
    lines = [
        [name, *(ways(own, *setting) for setting in columns.values())] for name, own in by_collection(rows)
    ]
    return markdown(["collection", *columns], lines)


def all_windows(rows: pd.DataFrame) -> str:
    """All windows, plain and adapted by both steps, a row for each collection."""
    columns = {name: COLUMNS[name] for name in ("plain", "`idf`, whitened")}
    models = list(rows["model"].unique())
    lines = []
    for name, own in by_collection(rows[rows["way"] == "all windows"]):
        by_setting = own.set_index(["model", "pooling", "whiten"])
        lines.append(
            [name, *(cell(by_setting.loc[model, *key]) for model in models for key in columns.values())]
        )
    return markdown(["collection", *(f"{model}, {name}" for model in models for name in columns)], lines)


def ways(rows: pd.DataFrame, pooling: str, power: float) -> str:
    """One vector / best window / all windows."""
    chosen = rows[(rows["pooling"] == pooling) & (rows["whiten"] == power)].set_index("way")
    return "/".join(cell(chosen.loc[way]) for way in WAYS)


def cell(row: pd.Series) -> str:
    """A score: bold if it is surely above the plain vectors, italic if it is surely below."""
    text = f"{row['score']:.1f}"
    if row["n"] == 100:  # shares of 100 queries
        text = f"{row['score']:.0f}"
    if row["gain low"] > 0:
        return f"**{text}**"
    if row["gain high"] < 0:
        return f"*{text}*"
    return text


def few_windows(rows: pd.DataFrame) -> str:
    """One vector a document: plain, and whitened by maps that were fitted on so many windows or on documents."""
    one = rows[(rows["way"] == "one vector") & (rows["whiten"] != 1.0)]
    models = list(one["model"].unique())
    lines = []
    for name, own in by_collection(one):
        line = [name]
        for model in models:
            by_fit = own[own["model"] == model].set_index("fitted on")
            line += ["/".join(cell(by_fit.loc[key]) for key in keys) for keys in FITS.values()]
        lines.append(line)
    heads = [f"{model}, {column}" for model in models for column in FITS]
    return markdown(["collection", *heads], lines)


def small(rows: pd.DataFrame) -> str:
    """Mean reciprocal rank in small corpora, one vector a document."""
    lines = []
    for (model, way), own in rows.groupby(["model", "way"], sort=False):
        by_setting = own.set_index(["pooling", "whiten"])
        cells = [cell(by_setting.loc[key]) for key in COLUMNS.values()]
        lines.append([model, way.removeprefix("corpora of "), *cells])
    return markdown(["model", "documents", *COLUMNS], lines)


def words(rows: pd.DataFrame) -> str:
    """BM25 in its three forms, where they differ."""
    kinds = list(rows["way"].unique())
    lines = []
    for name, own in by_collection(rows):
        by_way = own.drop_duplicates("way").set_index("way")
        if by_way["score"].nunique() > 1:
            scores = (Interval(*by_way.loc[kind, ["score", "low", "high"]]) for kind in kinds)
            lines.append([name, *map(with_ends, scores)])
    return markdown(["collection", *kinds], lines)


def main() -> None:
    """Measure, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure")
    measuring.add_argument("states", type=Path)
    measuring.add_argument("collections", type=Path)
    of_prompts = commands.add_parser("prompts")
    of_prompts.add_argument("model", type=Path)
    of_prompts.add_argument("collection", type=Path)
    commands.add_parser("page")
    args = parser.parse_args()
    if args.command == "measure":
        measure(args.states, args.collections)
    elif args.command == "prompts":
        measure_prompts(args.model, args.collection)
    else:
        page()


if __name__ == "__main__":
    main()
