"""Scores by kind of query: which method is best may depend on how people ask."""

from collections.abc import Sequence

import pandas as pd

from mteb_longembed.evaluation.split import Split
from mteb_longembed.files import counted

from .summary import Row, mean_scores


def by_kind(scores: pd.DataFrame, splits: Sequence[Split]) -> pd.DataFrame:
    """Return the score of each candidate on each kind of query, in percent, with its interval.

    Args:
        scores: one row for each query of each candidate.
        splits: the data. Queries without a kind are in none; without any kind the table is empty.
    """
    kinds = {(*split.label, query): kind for split in splits for query, kind in split.kinds.items()}
    of_rows = pd.Series(
        [kinds.get(key) for key in zip(scores["task"], scores["split"], scores["query"], strict=True)],
        scores.index,
        dtype=object,
    )
    rows = []
    for kind in sorted(set(of_rows.dropna())):
        part = scores[of_rows == kind]
        n_queries = len(part.drop_duplicates(["task", "split", "query"]))
        rows += mean_scores(part, kind=kind, n_queries=n_queries)
    return pd.DataFrame(rows)


def differing(table: pd.DataFrame, rows: Sequence[Row]) -> list[str]:
    """Return a sentence for each kind on which another candidate has a higher score than the best of all.

    Args:
        table: the table of `by_kind`.
        rows: the candidates, the best first.
    """
    if table.empty:
        return []
    labels = {row.id: row.label for row in rows}
    best = rows[0]
    sentences = []
    for kind, part in table.groupby("kind"):
        score_of = part.set_index("candidate")["score"]
        first = score_of.idxmax()
        if score_of[first] > score_of[best.id]:
            n_queries = counted(int(part["n_queries"].iloc[0]), "query", "queries")
            sentences.append(
                f"On the kind {kind!r} ({n_queries}) {labels[first]} is best with {score_of[first]:.1f}; "
                f"{best.label}, the best of all, has {score_of[best.id]:.1f}."
            )
    return sentences
