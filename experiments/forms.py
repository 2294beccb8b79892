"""Vectors alone and with BM25 added in four forms: the second half of experiments/methods.md.

    python -m experiments.forms measure COLLECTIONS MODEL [COLLECTION ...]
    python -m experiments.forms page

COLLECTIONS and MODEL are as for `python -m experiments.methods`. All vectors of a document come from one pass, and all
forms from the same two matrices, so that a row differs from the next one in the form alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.measuring import run, write_part
from experiments.methods import PAGE, TITLES
from mteb_longembed.data.task import files_task
from mteb_longembed.encoders.method import Method
from mteb_longembed.encoders.resolved import resolve
from mteb_longembed.evaluation.evaluate import evaluate
from mteb_longembed.evaluation.metrics import read_metric
from mteb_longembed.evaluation.resampling import resample
from mteb_longembed.evaluation.split import Split, splits_of
from mteb_longembed.retrieval.encoder import load_encoder
from mteb_longembed.retrieval.encoding import Encoding
from mteb_longembed.retrieval.make import index_over
from mteb_longembed.retrieval.scorer import Documents, Span, whole_documents
from mteb_longembed.retrieval.scores import lexical_evidence, spread, surprise
from mteb_longembed.retrieval.temperature import pseudo_queries
from mteb_longembed.retrieval.vector_scorer import VectorScorer
from mteb_longembed.values import Vectors

RESULTS = Path("experiments/forms.csv")
#: What the page calls the vectors of a document -> tokens of each, and the search settings.
VECTORS: dict[str, tuple[Vectors, Method]] = {
    "best window, one query vector": ("window", Method("m")),
    "query tokens, chunks of 16": (16, Method("m", query="tokens")),
    "query tokens, chunks of 32": (32, Method("m", query="tokens")),
    "query tokens, chunks of 64": (64, Method("m", query="tokens")),
    "query tokens, chunks of 128": (128, Method("m", query="tokens")),
    "query tokens, windows": ("window", Method("m", query="tokens")),
}
#: How the scores of vectors, divided by their spread or as a surprisal, and lexical log-odds become one score.
Form = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
FORMS: dict[str, Form] = {
    "vectors alone": lambda scaled, surprisal, lexical: scaled,
    "sum of 0.8": lambda scaled, surprisal, lexical: scaled + lexical,
    "less chance": lambda scaled, surprisal, lexical: scaled + less_chance(lexical),
    "half": lambda scaled, surprisal, lexical: surprisal + lexical_evidence(lexical) / 2,
    "hybrid": lambda scaled, surprisal, lexical: surprisal + lexical_evidence(lexical),
}


def less_chance(lexical: np.ndarray) -> np.ndarray:
    """Weigh log-odds `[queries, documents]` by how far a query's best exceeds chance: `1 - ln N / max`, at least 0.

    >>> less_chance(np.array([[4.0, 0.0, 0.0], [0.5, 0.0, 0.0]])).round(2).tolist()
    [[2.9, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    highest = np.maximum(lexical.max(axis=1, keepdims=True), 1e-9)
    weighted: np.ndarray = lexical * np.clip(1 - np.log(lexical.shape[1]) / highest, 0, None)
    return weighted


@dataclass
class Known:
    """A scorer whose scores are known: a row for each query of a split."""

    name: str
    revision: str
    rows: dict[str, np.ndarray]

    def fit(self, documents: Documents) -> None:
        """Read nothing."""
        self.documents = documents

    def scores(self, queries: Sequence[str]) -> np.ndarray:
        """Return the rows of queries."""
        return np.stack([self.rows[query] for query in queries])

    def passages(self, queries: Sequence[str], indices: Sequence[Sequence[int]]) -> list[list[Span]]:
        """Return whole documents."""
        return whole_documents(self.documents, indices)


def matrices(split: Split, name: str) -> dict[tuple[str, str], np.ndarray]:
    """Return the scores of all vectors in all forms, `[queries, documents]` each. Each document is encoded once."""
    resolved = resolve(Method.parse(name))
    encoding = Encoding(load_encoder(resolved))
    fused = replace(resolved, method=replace(resolved.method, vectors="window", fusion="bm25"))
    hybrid = index_over(encoding, fused)
    parts = {title: VectorScorer(encoding, *given) for title, given in VECTORS.items()}
    queries = list(split.judged_queries.values())
    hybrid.fit(split.documents)  # all vectors of the encoding
    assert hybrid.lexical is not None
    lexical = hybrid.lexical.log_odds(queries)
    sampled = pseudo_queries(split.documents.texts)
    found = {}
    for title, part in parts.items():
        scores = part.scores(queries)
        scaled = scores / spread(part.scores(sampled))
        surprisal = surprise(scores) if part.matches_tokens else scaled
        for form, joined in FORMS.items():
            found[title, form] = joined(scaled, surprisal, lexical)
    return found


def measure(folder: Path, model: Path, dtype: str) -> None:
    """Measure all cells of a model and a collection, and replace the old rows of the file."""
    (split,) = splits_of(
        files_task(*(folder / f"{name}.jsonl" for name in ("corpus", "queries", "qrels"))),
        [read_metric("nDCG@10")],
    )
    queries = list(split.judged_queries.values())
    cells = matrices(split, f"{model}+pcw@32768" + (f":dtype={dtype}" if dtype != "fp32" else ""))
    scores = []
    for matrix in cells.values():
        table = evaluate(Known("form", "1", dict(zip(queries, matrix, strict=True))), split)
        scores.append(table["score"].to_numpy(float))
    labels = [[split.clusters[query] for query in table["query"]]]
    names = ["/".join(cell) for cell in cells]
    samples = resample(names, [scores], labels)
    rows = []
    for (title, form), name in zip(cells, names, strict=True):
        own = samples.mean(name).scaled(100)
        less = samples.difference(f"{title}/hybrid", name).scaled(100)
        cell = {"model": model.name, "collection": folder.name, "vectors": title, "form": form}
        score = {"score": own.mean, "low": own.low, "high": own.high}
        rows.append({**cell, **score, "to hybrid": less.mean, "less low": less.low, "less high": less.high})
    made = pd.DataFrame(rows)
    if RESULTS.exists():
        known = pd.read_csv(RESULTS)
        known = known[(known["model"] != model.name) | (known["collection"] != folder.name)]
        made = pd.concat([known, made])
    made.to_csv(RESULTS, index=False, float_format="%.2f")
    print(made.tail(len(rows)).to_string(), flush=True)


def page() -> None:
    """Write a table for each model: rows are vectors and forms, columns collections."""
    rows = pd.read_csv(RESULTS)
    surely = (rows["less low"] > 0) | (rows["less high"] < 0)
    rows["cell"] = rows["score"].map("{:.1f}".format) + surely.map({True: "*", False: ""})
    rows["collection"] = rows["collection"].replace(TITLES)
    for model, of_model in rows.groupby("model", sort=False):
        table = of_model.pivot(index=["vectors", "form"], columns="collection", values="cell")
        table = table.loc[[(title, form) for title in VECTORS for form in FORMS]].reset_index()
        write_part(PAGE, f"forms, {model}", str(table.to_markdown(index=False, disable_numparse=True)))


if __name__ == "__main__":
    run(__doc__, measure, page)
