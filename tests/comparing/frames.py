"""Frames and rows that tests make without a model."""

import pandas as pd

from mteb_longembed.comparing.candidates import BM25, Candidate
from mteb_longembed.comparing.costs import Cost
from mteb_longembed.comparing.ranking import Row
from mteb_longembed.comparing.recommendation import Setting
from mteb_longembed.statistics.intervals import Interval

#: Scores of one candidate by split and query.
Scores = dict[tuple[str, str], dict[str, float]]
LEXICAL = Candidate(BM25, "")
COST = Cost(speeds=[1000.0] * 3, vectors=1.0, bytes=3072.0, device="cpu")
SETTING = Setting(tasks=["LongEmbedPasskey"], n_queries=50)


def frame(scores: dict[Candidate, Scores], tied: int = 0) -> pd.DataFrame:
    """Frame 1 of these scores; the first queries of each candidate are tied."""
    rows = []
    for candidate, by_split in scores.items():
        for (task, split), by_query in by_split.items():
            for number, (query, score) in enumerate(by_query.items()):
                rows.append((candidate.name, task, split, query, score, number < tied))
    return pd.DataFrame(rows, columns=["candidate", "task", "split", "query", "score", "is_tied"])


def row(
    name: str,
    score: float,
    standing: str = "out",
    *,
    base: bool = False,
    speed: float | None = 1000.0,
    best: tuple[float, float, float] | None = None,
    gain: tuple[float, float, float] | None = None,
    equivalence: tuple[float, float] | None = None,
    first: float = 0.0,
    more: float = float("inf"),
    **cost: object,
) -> Row:
    """A row of a candidate of the base `mine`, or of BM25."""
    candidate = Candidate(name, "" if name == BM25 else "org/mine", base, 512, 512 if base else 4096)
    values = {
        "vectors": 1.0,
        "bytes": 3072.0,
        "device": "cpu",
        "speeds": [speed] * 3 if speed else [],
        **cost,
    }
    mean = best[0] if best else 0.0
    return Row(
        candidate=candidate,
        label="base" if base else name.removeprefix("org/mine"),
        score=Interval(score, score - 5, score + 5),
        cost=Cost(**values),
        standing=standing,
        first_share=first,
        diff_to_base=Interval(*gain) if gain else None,
        p_value=0.01 if gain else None,
        diff_to_best=Interval(*best) if best else None,
        equivalence=Interval(mean, *equivalence) if equivalence else None,
        more_queries=more,
    )
