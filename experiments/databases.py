"""Search in LanceDB and Qdrant beside the package's own, on the same vectors of windows.

    python -m experiments.databases encode MODEL COLLECTION KEPT
    python -m experiments.databases measure COLLECTION KEPT MODEL package|lancedb|qdrant
    python -m experiments.databases page

COLLECTION is a folder of `experiments.measured_collections`. `encode` keeps the vectors of each document in the folder
KEPT, and goes on where it was stopped. `measure` writes rows of `experiments/databases.csv` (words have neighbours by
MODEL), and `page` the table of experiments/databases.md.
"""

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pandas as pd
from lancedb.index import FTS, IvfFlat, IvfPq
from lancedb.query import BooleanQuery, MatchQuery, Occur
from qdrant_client import QdrantClient, models

import mteb_longembed as longembed
from experiments.adapt import right_documents
from experiments.measured_collections import read
from experiments.measuring import table, write_part
from mteb_longembed.data.texts import ENGLISH
from mteb_longembed.encoders.adapt import pieces
from mteb_longembed.encoders.model import with_head
from mteb_longembed.retrieval.bm25_settings import WINDOW, BM25Settings
from mteb_longembed.retrieval.fused import Fused
from mteb_longembed.retrieval.make import make_bm25
from mteb_longembed.retrieval.passage_bm25 import PassageBM25
from mteb_longembed.retrieval.passages import passages_of
from mteb_longembed.retrieval.scorer import Documents

RESULTS = Path("experiments/databases.csv")
PAGE = Path("experiments/databases.md")
#: Queries that are asked, drawn with a seed: Qdrant's local mode is slow.
QUERIES = 500
#: Windows that a search of a database gives.
LIMIT = 1_000
#: Lists of 40 that are searched: LanceDB trains one for 256 vectors.
LISTS = 20
#: The best windows whose share in the exact search is counted.
NEAREST = 10
#: Leading dimensions of the ordered map that a small index keeps.
SMALL = 128

#: A query's number -> the numbers of its best windows, best first, and their scores.
Found = tuple[list[int], np.ndarray]
FindWindows = Callable[[int], Found]
#: A query's number -> the scores of all documents.
ScoreDocuments = Callable[[int], np.ndarray]


def encode(model: str, collection: Path, kept: Path) -> None:
    """Fit weights on all documents, and keep the vectors of their windows, which no map has changed yet."""
    kept.mkdir(parents=True, exist_ok=True)
    documents = read(collection / "corpus.jsonl")
    folder = kept / "weighted"
    if not folder.exists():
        texts = [row["text"] for row in documents]
        longembed.adapt(f"{model}+pcw@64k", texts, whiten=0, device="cpu").save_pretrained(str(folder))
    weighted: Any = longembed.load(folder, device="cpu")
    for number, row in enumerate(documents):
        file = kept / f"{row['doc_id']}.npy"
        if not file.exists():
            unfinished = file.with_suffix(".unfinished.npy")
            np.save(unfinished, pieces(weighted, [row["text"]]))
            unfinished.rename(file)
            print(number + 1, "of", len(documents), flush=True)


class Kept:
    """A collection with the vectors of its windows, behind the map that they fit."""

    def __init__(self, collection: Path, kept: Path) -> None:
        rows = read(collection / "corpus.jsonl")
        self.documents = Documents([row["doc_id"] for row in rows], [row["text"] for row in rows], ENGLISH)
        raw = [np.load(kept / f"{name}.npy") for name in self.documents.ids]
        moments = reduce(add, map(Moments.of, raw))
        weighted: Any = longembed.load(kept / "weighted", device="cpu")
        model: Any = longembed.adapt(weighted, moments, weights=None)
        self.owner = np.repeat(np.arange(len(raw)), list(map(len, raw)))
        self.vectors = Whitening.fit(moments, 0.5).documents(np.concatenate(raw))
        windows = with_head(model, model.head.several("window", "cosine"))
        self.texts = []
        for text in self.documents.texts:
            self.texts += [text[start:end] for start, end in passages_of(windows, text)]  # type: ignore[arg-type]
        assert len(self.texts) == len(self.vectors)
        asked = read(collection / "queries.jsonl")
        drawn = np.sort(np.random.default_rng(0).permutation(len(asked))[:QUERIES])
        self.queries = [asked[number]["text"] for number in drawn]
        self.right = right_documents(collection)[drawn]
        self.asked = np.asarray(model.encode_query(self.queries))
        self.tokenizer = model.tokenizer
        self.lowest = -1.0
        self.meta: Any = None

    def fit(self, documents: Documents) -> None:
        """The documents are known; this class is the package's scorer of its vectors."""

    def scores(self, queries: Sequence[str]) -> np.ndarray:
        """The best cosine of each document, float32 `[queries, documents]`."""
        cosines = self.asked @ self.vectors.T
        starts = np.flatnonzero(np.diff(self.owner, prepend=-1))
        best: np.ndarray = np.maximum.reduceat(cosines, starts, axis=1)
        return best

    def passages(self, queries: Sequence[str], numbers: Sequence[Sequence[int]]) -> list[Any]:
        """None are shown here."""
        return [[] for _ in queries]


def best_of_each(found: Found, owner: np.ndarray) -> np.ndarray:
    """The score of each document's best window that was found; 0 where none was."""
    windows, scores = found
    best = np.zeros(owner[-1] + 1, np.float32)
    np.maximum.at(best, owner[windows], scores)
    return best


def share(scores: np.ndarray) -> np.ndarray:
    """Scores divided by the highest."""
    divided: np.ndarray = scores / max(scores.max(), 1e-9)
    return divided


def ndcg(scores: np.ndarray, right: int) -> float:
    """nDCG@10 in percent, with one right document."""
    place = np.argsort(-scores, kind="stable").tolist().index(right)
    return float(100 / np.log2(place + 2)) if place < 10 and scores[right] > 0 else 0.0


class Lance:
    """Windows and whole documents in LanceDB, and its searches."""

    def __init__(self, kept: Kept, folder: Path, words: PassageBM25) -> None:
        self.kept = kept
        self.weighted = words.weighted_words
        windows = []
        for number, (text, vector) in enumerate(zip(kept.texts, kept.vectors, strict=True)):
            windows.append({"number": number, "text": text, "vector": vector})
        whole = [{"number": number, "text": text} for number, text in enumerate(kept.documents.texts)]
        database: Any = lancedb.connect(folder)
        self.flat = database.create_table("flat", windows, mode="overwrite")
        self.pq = database.create_table("pq", windows, mode="overwrite")
        self.documents = database.create_table("documents", whole, mode="overwrite")
        lists: Any = {"distance_type": "cosine", "num_partitions": len(windows) // 256}
        self.flat.create_index("vector", config=IvfFlat(**lists))
        self.pq.create_index("vector", config=IvfPq(num_sub_vectors=96, **lists))
        for table_of_texts in (self.flat, self.documents):
            table_of_texts.create_index("text", config=FTS())

    def found(self, query: Any, column: str) -> Found:
        """The numbers of the rows that a query finds, and their scores."""
        rows = query.select(["number", column]).limit(LIMIT).to_list()
        return [row["number"] for row in rows], np.array([row[column] for row in rows])

    def nearest(self, index: Any, query: int, lists: int = LISTS, refine: int | None = None) -> Found:
        """Windows by their vectors."""
        search = index.search(self.kept.asked[query]).distance_type("cosine").nprobes(lists)
        if refine:
            search = search.refine_factor(refine)
        numbers, distances = self.found(search, "_distance")
        return numbers, 2 - distances

    def hybrid(self, query: int) -> Found:
        """Windows by LanceDB's own joining of ranks."""
        search = self.flat.search(query_type="hybrid").vector(self.kept.asked[query])
        search = search.text(self.kept.queries[query]).distance_type("cosine").nprobes(LISTS)
        rows = search.limit(LIMIT).to_list()  # its own score cannot be selected
        return [row["number"] for row in rows], np.array([row["_relevance_score"] for row in rows])

    def plain(self, query: int) -> Any:
        """The words of a query."""
        return MatchQuery(self.kept.queries[query], "text")

    def boosted(self, query: int) -> Any:
        """The words of a query and their neighbours."""
        parts = []
        for matches in self.weighted(self.kept.queries[query]).values():
            parts += [(Occur.SHOULD, MatchQuery(word, "text", boost=part)) for word, part in matches.items()]
        return BooleanQuery(parts)

    def both(self, asked: Any) -> np.ndarray:
        """The whole document and its best window, added up as the package does."""
        of_whole = best_of_each(
            self.found(self.documents.search(asked), "_score"), np.arange(len(self.kept.documents))
        )
        of_window = best_of_each(self.found(self.flat.search(asked), "_score"), self.kept.owner)
        return share(of_whole) + share(of_window)

    def fused(self, query: int) -> np.ndarray:
        """Vectors and words by their scores, as the package does."""
        by_vectors = best_of_each(self.nearest(self.flat, query), self.kept.owner)
        return (share(by_vectors) + share(self.both(self.plain(query)))) / 2

    def of_windows(self) -> dict[str, FindWindows]:
        """Searches for windows by their names."""
        return {
            "LanceDB: vectors, IVF_FLAT, 5 lists": lambda query: self.nearest(self.flat, query, 5),
            "LanceDB: vectors, IVF_FLAT, 20 lists": lambda query: self.nearest(self.flat, query),
            "LanceDB: vectors, IVF_PQ, 20 lists": lambda query: self.nearest(self.pq, query),
            "LanceDB: vectors, IVF_PQ, 20 lists, refined": lambda query: self.nearest(
                self.pq, query, refine=5
            ),
            "LanceDB: words of windows": lambda query: self.found(
                self.flat.search(self.plain(query)), "_score"
            ),
            "LanceDB: words of windows, neighbours": lambda query: self.found(
                self.flat.search(self.boosted(query)), "_score"
            ),
            "LanceDB: hybrid, joined by ranks": self.hybrid,
        }

    def of_documents(self) -> dict[str, ScoreDocuments]:
        """Searches for documents by their names."""
        return {
            "LanceDB: words of documents and windows": lambda query: self.both(self.plain(query)),
            "LanceDB: words of documents and windows, neighbours": lambda query: self.both(
                self.boosted(query)
            ),
            "LanceDB: vectors and words, joined by scores": self.fused,
        }


def qdrant_ways(kept: Kept) -> dict[str, FindWindows]:
    """Qdrant's searches by their names, in its local mode, which compares all vectors."""

    def words(text: str) -> models.SparseVector:
        counts = Counter(kept.tokenizer(text, add_special_tokens=False)["input_ids"])
        return models.SparseVector(indices=list(counts), values=[n / (n + 1.5) for n in counts.values()])

    client = QdrantClient(":memory:")
    size = kept.vectors.shape[1]
    client.create_collection(
        "windows",
        vectors_config={"dense": models.VectorParams(size=size, distance=models.Distance.COSINE)},
        sparse_vectors_config={"words": models.SparseVectorParams(modifier=models.Modifier.IDF)},
    )
    points = []
    for number, (text, vector) in enumerate(zip(kept.texts, kept.vectors, strict=True)):
        points.append(models.PointStruct(id=number, vector={"dense": vector.tolist(), "words": words(text)}))
    client.upsert("windows", points)

    def numbers(query: Any, **options: Any) -> Found:
        found = client.query_points("windows", query=query, limit=LIMIT, with_payload=False, **options)
        scores = np.array([point.score for point in found.points])
        return [int(point.id) for point in found.points], scores - min(scores.min(initial=0), 0)

    def fused(query: int) -> Found:
        both = [
            models.Prefetch(query=kept.asked[query].tolist(), using="dense", limit=LIMIT),
            models.Prefetch(query=words(kept.queries[query]), using="words", limit=LIMIT),
        ]
        return numbers(models.FusionQuery(fusion=models.Fusion.DBSF), prefetch=both)

    return {
        "Qdrant (local): vectors": lambda query: numbers(kept.asked[query].tolist(), using="dense"),
        "Qdrant (local): words": lambda query: numbers(words(kept.queries[query]), using="words"),
        "Qdrant (local): both, joined by scores": fused,
    }


def measure(collection: Path, folder: Path, model: str, part: str) -> None:
    """Ask all ways of a part all queries, and add their rows to the results."""
    kept = Kept(collection, folder)
    n_queries = len(kept.queries)
    print(len(kept.vectors), "windows,", n_queries, "queries", flush=True)
    exact = [set(np.argsort(-row)[:NEAREST].tolist()) for row in kept.asked @ kept.vectors.T]
    plain = make_bm25(BM25Settings(window=WINDOW), "cpu")
    near = make_bm25(BM25Settings(window=WINDOW, neighbours=model), "cpu")
    for scorer in (plain, near):
        scorer.fit(kept.documents)

    def add_row(way: str, scores: Sequence[np.ndarray], recall: float | None = None) -> None:
        points = [ndcg(row, right) for row, right in zip(scores, kept.right.tolist(), strict=True)]
        rows = pd.DataFrame([{"way": way, "recall@10": recall, "nDCG@10": np.mean(points)}])
        if RESULTS.exists():
            known = pd.read_csv(RESULTS)
            rows = pd.concat([known[known["way"] != way], rows])
        rows.sort_values("way").round({"recall@10": 3, "nDCG@10": 1}).to_csv(RESULTS, index=False)
        print(way, recall, np.mean(points), flush=True)

    of_windows: dict[str, FindWindows] = {}
    if part == "package":
        add_row("package: vectors, exact", kept.scores(kept.queries) + 1, 1.0)
        small = kept.vectors[:, :SMALL].astype(np.float16).astype(np.float32)
        asked = kept.asked[:, :SMALL]
        of_windows[f"package: vectors, {SMALL} dimensions in fp16"] = lambda query: exact_windows(
            small, asked[query]
        )
        add_row("package: BM25 by passage", plain.scores(kept.queries))
        add_row("package: words with neighbours", near.scores(kept.queries))
        add_row("package: fusion", Fused(kept, plain, 0.5, meta=plain.meta).scores(kept.queries))
    elif part == "lancedb":
        lance = Lance(kept, folder / "lance", near)
        of_windows = lance.of_windows()
        for way, score in lance.of_documents().items():
            add_row(way, [score(query) for query in range(n_queries)])
    else:
        of_windows = qdrant_ways(kept)
    for way, find in of_windows.items():
        answers = [find(query) for query in range(n_queries)]
        recall = None
        if "vectors" in way:
            hits = [len(right & set(best[:NEAREST])) for right, (best, _) in zip(exact, answers, strict=True)]
            recall = float(np.mean(hits)) / NEAREST
        add_row(way, [best_of_each(answer, kept.owner) for answer in answers], recall)


def exact_windows(vectors: np.ndarray, asked: np.ndarray) -> Found:
    """The best windows by the cosine."""
    cosines = vectors @ asked / np.linalg.norm(vectors, axis=1) / np.linalg.norm(asked)
    best = np.argsort(-cosines)[:LIMIT]
    return best.tolist(), cosines[best] + 1


def page() -> None:
    """Write the table of the page."""
    rows = pd.read_csv(RESULTS)
    # the package first
    rows = rows.sort_values("way", key=lambda ways: ways.str.contains("^[A-Z]"), kind="stable")
    lines = []
    for way, recall, score in rows.itertuples(index=False):
        shown = "-" if np.isnan(recall) else f"{recall:.2f}"
        lines.append([way, shown, f"{score:.1f}"])
    write_part(PAGE, "databases", table(["way", "recall@10", "nDCG@10"], lines))


def main() -> None:
    """Encode, measure, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    encoding = commands.add_parser("encode")
    encoding.add_argument("model")
    encoding.add_argument("collection", type=Path)
    encoding.add_argument("kept", type=Path)
    measuring = commands.add_parser("measure")
    measuring.add_argument("collection", type=Path)
    measuring.add_argument("kept", type=Path)
    measuring.add_argument("model", help="by whose vectors words have neighbours")
    measuring.add_argument("part", choices=("package", "lancedb", "qdrant"))
    commands.add_parser("page")
    args = parser.parse_args()
    if args.command == "encode":
        encode(args.model, args.collection, args.kept)
    elif args.command == "measure":
        measure(args.collection, args.kept, args.model, args.part)
    else:
        page()


if __name__ == "__main__":
    main()
