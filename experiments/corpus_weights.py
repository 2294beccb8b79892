"""Corpus weights on real models: what each rule, pooling and score is worth.

    python -m experiments.corpus_weights measure STATES COLLECTIONS MODELS
    python -m experiments.corpus_weights page

STATES has a folder for each model and, in it, one for each collection (`experiments.token_states`), COLLECTIONS those
of `experiments.measured_collections`, MODELS the folders of the models. `measure` adds what is new to
`experiments/corpus_weights.jsonl`; `page` writes the tables of docs/corpus-weights.md, and the one of both models in
docs/real-models.md, from that file alone.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from transformers import AutoTokenizer

from experiments.measured_collections import read
from experiments.measuring import with_ends, write_part
from mteb_longembed.encoders.modules.token_weights import LEAST_IDF, NO_WEIGHT
from mteb_longembed.retrieval.bm25 import BM25
from mteb_longembed.retrieval.searcher import options_of_documents
from mteb_longembed.retrieval.vectors import all_vectors, best_vector
from mteb_longembed.statistics.bootstrap import difference_interval, mean_interval
from mteb_longembed.statistics.intervals import Interval

RESULTS = Path("experiments/corpus_weights.jsonl")
PAGE = Path("docs/corpus-weights.md")
PAGE_OF_MODELS = Path("docs/real-models.md")
#: SIF's constants.
CONSTANTS = (3e-3, 1e-3, 3e-4, 1e-4, 3e-5)
#: Windows of a meeting that are read, beside all of them.
BEGINNINGS = (2, 7, 8)
#: The encoder's share of a fused score.
SHARES = (0.4, 0.5, 0.6, 0.7)
#: Windows whose states are in memory at the same time.
_STEP = 256


@dataclass(frozen=True)
class Tokens:
    """The tokens of all texts of one kind, in windows.

    Args:
        token: ids, `[tokens]`.
        starts: the first token of each window, and the end, `[windows + 1]`.
        text_of_window: the number of each window's text, `[windows]`.
        states: the last hidden state of each token, `[tokens, d]`, on disk.
    """

    token: np.ndarray
    starts: np.ndarray
    text_of_window: np.ndarray
    states: np.ndarray

    @classmethod
    def read(cls, folder: Path, n_windows: int | None = None) -> Tokens:
        """The first `n_windows` windows of each text, all if None."""
        with np.load(folder / "tokens.npz") as kept:
            last = wanted(kept["number_of_window"], n_windows)
            starts = kept["starts"][: last + 1]
            states = np.load(folder / "states.npy", mmap_mode="r")
            return cls(kept["token"][: int(starts[-1])], starts, kept["text_of_window"][:last], states)

    def sums(self, weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """For each rule, by the weights of the tokens `[tokens]`, the weighted sum of each window, `[windows, d]`."""
        shape = len(self.text_of_window), self.states.shape[1]
        sums = {rule: np.zeros(shape, np.float32) for rule in weights}
        for first in range(0, shape[0], _STEP):
            last = min(first + _STEP, shape[0])
            start = int(self.starts[first])
            end = int(self.starts[last])
            states = np.asarray(self.states[start:end], np.float32)
            for rule, of_tokens in weights.items():
                weighted = states * of_tokens[start:end, None].astype(np.float32)
                sums[rule][first:last] = np.add.reduceat(weighted, self.starts[first:last] - start, axis=0)
        return sums


def wanted(number_of_window: np.ndarray, n_windows: int | None) -> int:
    """How many windows are read; the first windows of all texts come first."""
    return len(number_of_window) if n_windows is None else int((number_of_window < n_windows).sum())


def is_complete(folder: Path, n_windows: int | None) -> bool:
    """Whether the states of these windows are there."""
    if not (folder / "done.txt").exists():
        return False
    with np.load(folder / "tokens.npz") as kept:
        return int((folder / "done.txt").read_text()) >= wanted(kept["number_of_window"], n_windows)


def tables(documents: Tokens, vocabulary: int, special: list[int]) -> dict[str, np.ndarray]:
    """Rule -> the weight of each token, `[vocabulary]`."""
    content = ~np.isin(documents.token, special)
    share = np.bincount(documents.token[content], minlength=vocabulary) / content.sum()
    window = np.repeat(np.arange(len(documents.text_of_window)), np.diff(documents.starts))
    text = documents.text_of_window[window]
    made = {
        "idf": np.maximum(rarity(text, documents.token, vocabulary), LEAST_IDF),
        "idf of windows": rarity(window, documents.token, vocabulary),
    }
    for constant in CONSTANTS:
        made[f"sif {constant:g}"] = constant / (constant + share)
    for table in made.values():
        table[special] = NO_WEIGHT
    return {"mean": np.ones(vocabulary), **made}


def rarity(owner: np.ndarray, token: np.ndarray, vocabulary: int) -> np.ndarray:
    """ln((N + 1) / (n + 0.5)) for `N` owners (documents or windows), of which `n` have the token."""
    pairs = np.unique(owner.astype(np.int64) * vocabulary + token)
    counts = np.bincount(pairs % vocabulary, minlength=vocabulary)
    return np.log((int(owner.max()) + 2) / (counts + 0.5))


def unit(rows: np.ndarray) -> np.ndarray:
    """Rows of length 1."""
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def bm25_scores(collection: Path) -> np.ndarray:
    """BM25's score of each query for each document, kept beside the collection."""
    kept = collection / "bm25.npy"
    if not kept.exists():
        corpus = [row["text"] for row in read(collection / "corpus.jsonl")]
        queries = [row["text"] for row in read(collection / "queries.jsonl")]
        ids = [str(number) for number in range(len(corpus))]
        search = BM25()
        search.index(
            Dataset.from_dict({"id": ids, "title": [""] * len(ids), "text": corpus}), **options_of_documents()
        )
        asked = Dataset.from_dict({"id": [str(number) for number in range(len(queries))], "text": queries})
        scores = np.zeros((len(queries), len(corpus)), np.float32)
        for query, found in search.search(asked, top_k=len(corpus), **options_of_documents()).items():
            for document, score in found.items():
                scores[int(query), int(document)] = score
        np.save(kept, scores)
    return np.asarray(np.load(kept))


def right_documents(collection: Path) -> list[int]:
    """The number of each query's right document."""
    number = {row["doc_id"]: i for i, row in enumerate(read(collection / "corpus.jsonl"))}
    right = {row["qid"]: number[row["doc_id"]] for row in read(collection / "qrels.jsonl")}
    return [right[row["qid"]] for row in read(collection / "queries.jsonl")]


def fused(scores: np.ndarray, words: np.ndarray, share: float) -> np.ndarray:
    """Both scores scaled from the lowest possible one, as the package's `convex_combination` scales them."""
    of_vectors = (scores + 1) / (scores.max(1, keepdims=True) + 1)
    of_words = words / np.maximum(words.max(1, keepdims=True), 1e-9)
    return share * of_vectors + (1 - share) * of_words


def points(scores: np.ndarray, right: list[int], *, first_only: bool) -> np.ndarray:
    """Each query's Acc@1 or nDCG@10, from 0 to 1. Half of the equal scores count as above."""
    own = scores[np.arange(len(right)), right]
    above = (scores > own[:, None]).sum(1)
    rank = 1 + above + ((scores == own[:, None]).sum(1) - 1) // 2
    if first_only:
        return (rank == 1).astype(float)
    return np.where(rank <= 10, 1 / np.log2(rank + 1.0), 0.0)


def ways(
    queries: np.ndarray, sums: np.ndarray, documents: Tokens, words: np.ndarray
) -> Iterator[tuple[str, np.ndarray]]:
    """Each way to score documents, `[queries, documents]`, from the weighted sums of their windows."""
    order = np.argsort(documents.text_of_window, kind="stable")
    counts = np.bincount(documents.text_of_window)
    starts = np.cumsum(counts) - counts
    sums = sums[order]
    windows = unit(sums)
    scores = queries @ windows.T
    best = best_vector(scores, counts)
    every = all_vectors(scores, counts)
    one = queries @ unit(np.add.reduceat(sums, starts, axis=0)).T
    yield "first window", scores[:, starts]
    yield "one vector, mean of windows", queries @ unit(np.add.reduceat(windows, starts, axis=0)).T
    yield "one vector", one
    yield "best window", best
    yield "all windows", every
    for share in SHARES:
        yield f"one vector + BM25 {share:g}", fused(one, words, share)
        yield f"best window + BM25 {share:g}", fused(best, words, share)
        yield f"all windows + BM25 {share:g}", fused(every, words, share)


def measure(
    states: Path, collection: Path, model: Path, n_windows: int | None
) -> Iterator[dict[str, object]]:
    """A line for each rule and way: the score with its interval, and the paired difference to the mean."""
    tokenizer = AutoTokenizer.from_pretrained(model)
    special = [token for token in tokenizer.all_special_ids if token != tokenizer.unk_token_id]
    queries = Tokens.read(states / "queries")
    documents = Tokens.read(states / "corpus", n_windows)
    right = right_documents(collection)
    words = bm25_scores(collection)
    first_only = collection.name.startswith(("passkey", "needle", "paraphrase"))
    made = tables(documents, len(tokenizer), special)
    of_queries = queries.sums({rule: table[queries.token] for rule, table in made.items()})
    of_documents = documents.sums({rule: table[documents.token] for rule, table in made.items()})
    yield line("BM25", "BM25", points(words, right, first_only=first_only), None)
    of_mean: dict[str, np.ndarray] = {}
    for rule in made:
        for way, scores in ways(unit(of_queries[rule]), of_documents[rule], documents, words):
            own = points(scores, right, first_only=first_only)
            yield line(rule, way, own, of_mean.get(way))
            if rule == "mean":
                of_mean[way] = own


def line(rule: str, way: str, own: np.ndarray, of_mean: np.ndarray | None) -> dict[str, object]:
    """A measured score, and its paired difference to the score without weights."""
    made: dict[str, object] = {"rule": rule, "way": way, "n": len(own), "score": rounded(mean_interval(own))}
    if of_mean is not None:
        made["gain"] = rounded(difference_interval([of_mean], [own]))
    return made


def rounded(interval: Interval) -> list[float]:
    """Mean and ends in percent, with two digits."""
    return [round(100 * end, 2) for end in (interval.mean, interval.low, interval.high)]


def measure_all(states: Path, collections: Path, models: Path) -> None:
    """Measure what is complete and not yet in the results."""
    done = {(row["model"], row["collection"], row["windows"]) for row in results()}
    for folder in sorted(states.glob("*/*")):
        model = folder.parent.name
        for n_windows in (None, *(BEGINNINGS if folder.name == "qmsum" else ())):
            complete = is_complete(folder / "queries", None) and is_complete(folder / "corpus", n_windows)
            key = (model, folder.name, n_windows)
            if key in done or not complete:
                continue
            about = {"model": model, "collection": folder.name, "windows": n_windows}
            lines = [
                json.dumps({**about, **row}) + "\n"
                for row in measure(folder, collections / folder.name, models / model, n_windows)
            ]
            with RESULTS.open("a", encoding="utf-8") as file:
                file.writelines(lines)
            print(*key, flush=True)


def results() -> list[dict[str, Any]]:
    """The measured lines."""
    if not RESULTS.exists():
        return []
    return [json.loads(row) for row in RESULTS.read_text(encoding="utf-8").splitlines()]


#: The rules and ways of the page's tables: those that a name can have, and a weaker `sif`.
SHOWN = ("mean", "idf", "sif 0.001", "sif 0.0001")
MEETINGS = ("one vector", "best window", "all windows", "all windows + BM25 0.5")
#: Windows of the page's table, of about 512, 2,048 and all tokens, and tokens of a window.
READ = {"all-MiniLM-L6-v2": ((2, 8, None), 254), "all-mpnet-base-v2": ((2, 7, None), 382)}
#: Collection and windows -> its name on the page, the tokens that are read for each window size.
OTHERS = {
    ("chapters", None): "chapters",
    ("proposals", None): "proposals",
    ("paraphrase_1024", None): "paraphrases 1,024",
    ("paraphrase_4096", None): "paraphrases 4,096",
    ("paraphrase_8192", None): "paraphrases 8,192",
    ("passkey_4096", None): "Passkey 4,096",
    ("passkey_32768", None): "Passkey 32,768",
    ("needle_4096", None): "Needle 4,096",
    ("needle_32768", None): "Needle 32,768",
}


def page() -> None:
    """Write the tables into the pages."""
    write_part(PAGE, "meetings", meetings_table())
    write_part(PAGE, "others", others_table())
    write_part(PAGE_OF_MODELS, "both", both_models_table())


def both_models_table() -> str:
    """QMSum's whole meetings: each model without and with weights, with 95 % intervals."""
    known = {(r["model"], r["rule"], r["way"]): r for r in meetings_rows() if r["windows"] is None}
    rows = [
        "| all tokens are read | " + " | ".join(f"{model} | weighed" for model in READ) + " |",
        "|---|" + "---:|---:|" * len(READ),
    ]
    for way in ("first window", *MEETINGS):
        cells = []
        for model in READ:
            for rule in ("mean", "sif 0.0001"):
                cells.append(with_interval(known.get((model, rule, way))))
        rows.append(f"| {way} | {' | '.join(cells)} |")
    bm25 = with_interval(known.get((next(iter(READ)), "BM25", "BM25")))
    rows.append(f"| BM25 | {bm25} |" + " |" * (2 * len(READ) - 1))
    return "\n".join(rows)


def with_interval(row: dict[str, Any] | None) -> str:
    """A score with its 95 % interval, a dash if it is not measured."""
    if row is None:
        return "–"
    return with_ends(Interval(*row["score"]))


def meetings_rows() -> list[dict[str, Any]]:
    """The measured lines of QMSum."""
    return [row for row in results() if row["collection"] == "qmsum"]


def meetings_table() -> str:
    """QMSum: a row for each model, number of tokens and way, a column for each rule."""
    rows = [f"| model | tokens | way | {' | '.join(SHOWN)} |", "|---|---|---|" + "---:|" * len(SHOWN)]
    known = {(r["model"], r["windows"], r["rule"], r["way"]): r for r in meetings_rows()}
    for model, (beginnings, size) in READ.items():
        for windows in beginnings:
            for way in MEETINGS:
                cells = [known.get((model, windows, rule, way)) for rule in SHOWN]
                if any(cells):
                    reads = "all" if windows is None else f"{size * windows:,}"
                    shown = " | ".join(cell_of(cell) for cell in cells)
                    rows.append(f"| {model} | {reads} | {way} | {shown} |")
    return "\n".join(rows)


def others_table() -> str:
    """The other collections: one vector and best window in each cell."""
    rows = [f"| collection | model | {' | '.join(SHOWN)} |", "|---|---|" + "---:|" * len(SHOWN)]
    known = {(r["model"], r["collection"], r["windows"], r["rule"], r["way"]): r for r in results()}
    for (collection, windows), shown in OTHERS.items():
        for model in ("all-MiniLM-L6-v2", "all-mpnet-base-v2"):
            cells = []
            for rule in SHOWN:
                pair = [
                    known.get((model, collection, windows, rule, way))
                    for way in ("one vector", "best window")
                ]
                cells.append(", ".join(cell_of(cell) for cell in pair))
            if known.get((model, collection, windows, "mean", "one vector")):
                rows.append(f"| {shown} | {model} | {' | '.join(cells)} |")
    return "\n".join(rows)


def cell_of(row: dict[str, Any] | None) -> str:
    """A score; bold if its gain over the mean has an interval above 0, in italics if below 0."""
    if row is None:
        return "–"
    score = f"{row['score'][0]:.1f}"
    _, low, high = row.get("gain", [0, 0, 0])
    if low > 0:
        return f"**{score}**"
    return f"*{score}*" if high < 0 else score


def main() -> None:
    """Measure, or write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure")
    for name in ("states", "collections", "models"):
        measuring.add_argument(name, type=Path)
    commands.add_parser("page")
    args = parser.parse_args()
    if args.command == "measure":
        measure_all(args.states, args.collections, args.models)
    else:
        page()


if __name__ == "__main__":
    main()
