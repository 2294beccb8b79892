"""Frames that tests make without a model."""

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pandas as pd

from mteb_longembed.comparing.candidates import Candidate, Kind
from mteb_longembed.comparing.costs import Cost
from mteb_longembed.comparing.summary import COLUMNS, Row, summarise
from mteb_longembed.encoders.method import Method
from mteb_longembed.encoders.resolved import Resolved

#: Scores of one candidate by split and query.
Scores = dict[tuple[str, str], dict[str, float]]


def fake(name: str, kind: Kind, trained_len: int | None = None, target_len: int | None = None) -> Candidate:
    """A candidate of a model that nobody has."""
    if kind == "api":
        return Candidate(name, kind)
    method = Method.parse(name)
    strategy = SimpleNamespace(trained_len=trained_len, target_len=target_len)
    of_base: Any = SimpleNamespace(vectors=None)
    of_strategy: Any = strategy
    resolved = None if method.is_bm25 else Resolved(of_base, method, of_strategy)
    return Candidate(name, kind, method, resolved)


LEXICAL = fake("bm25:window=200", "bm25")
BASE = fake("org/mine+none@512", "base", 512, 512)
GOOD = fake("org/mine+ntk@4096", "strategy", 512, 4096)
OTHER = fake("org/mine+pi@4096", "strategy", 512, 4096)
FUSED = fake("org/mine+ntk@4096:fusion=bm25", "fusion", 512, 4096)
KEY = ("Task", "test")


def frame(scores: dict[Candidate, Scores], tied: int = 0) -> pd.DataFrame:
    """The frame of these scores; the first queries of each candidate are tied."""
    rows = []
    for candidate, by_split in scores.items():
        for (task, split), by_query in by_split.items():
            for number, (query, score) in enumerate(by_query.items()):
                # the score 1 is rank 1, and half of it rank 2
                ranks = (1 / score if score else math.nan, f"first of {query}", f"document of {query}")
                rows.append((candidate.id, task, split, query, [], score, number < tied, *ranks))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def queries_of(scores: pd.DataFrame) -> pd.DataFrame:
    """The queries of a frame of scores, each with a text and one relevant document."""
    found = scores[["task", "split", "query"]].drop_duplicates(ignore_index=True)
    return found.assign(
        text="text of " + found["query"], relevant=[[f"document of {query}"] for query in found["query"]]
    )


def cost(**fields: Any) -> Cost:
    """The cost of a model with one vector of 3 KB and a million operations a document, unless overridden."""
    plain = {
        "tokens": 1000,
        "vectors": 1.0,
        "bytes": 3072.0,
        "flops": 1e6,
        "longest": 4000,
        "median_len": 900.0,
    }
    return Cost(**{**plain, **fields})


def answers(right: int, n: int = 40) -> dict[str, float]:
    return {f"q{i}": float(i < right) for i in range(n)}


def summary(
    right: dict[Candidate, int],
    n: int = 40,
    of: dict[Candidate, dict[str, Any]] | None = None,
) -> list[Row]:
    """The rows of candidates that each answer the first queries of `n`; `of` differs from `cost`."""
    scores = frame({candidate: {KEY: answers(k, n)} for candidate, k in right.items()})
    models = [candidate for candidate in right if candidate.kind != "bm25"]
    given = {model.id: cost(**(of or {}).get(model, {})) for model in models}
    return summarise(scores, list(right), given)


def row_of(rows: Sequence[Row], candidate: Candidate) -> Row:
    (found,) = (row for row in rows if row.id == candidate.id)
    return found
