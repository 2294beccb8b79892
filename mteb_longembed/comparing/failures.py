"""The worst failures of the recommended candidate: queries on which another one scores higher, with passages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from mteb_longembed.retrieval.analyzer import Language
from mteb_longembed.retrieval.passages import excerpt

from .summary import Row

if TYPE_CHECKING:
    from mteb_longembed.evaluation.split import Split

    from .candidates import Candidate
    from .comparison import Comparison
    from .run import Runner

#: Maximum number of failures, and of characters of a passage.
N_FAILURES = 200
_PASSAGE = 240
#: Digits to which scores are compared: smaller differences come from rounding.
_DIGITS = 6


def base_row(comparison: Comparison) -> Row | None:
    """Return the base to show beside the recommended candidate: its own, or else the first; None without one."""
    recommended = comparison.recommended
    bases = [row for row in comparison.rows if row.is_base and row is not recommended]
    return min(bases, key=lambda row: row.base != recommended.base, default=None)


def failures(comparison: Comparison) -> pd.DataFrame:
    """Return the queries on which the recommended candidate scores less than the best other one, the worst first.

    The best other one is chosen for each query; among equal ones it is the first of the ranking. Only queries that
    all candidates answered count. Scores are from 0 to 1.

    Returns:
        One row for each query: task, split, query, recommended, base, best other, by (its id), lost, the `ranks` of
        the best relevant document by each candidate in their order, `top_document` and `best_relevant` of the
        recommended one, and the columns of `Comparison.queries`.
    """
    keys = ["task", "split", "query"]
    ranked = [row.id for row in comparison.rows]
    scores = comparison.scores.pivot(index=keys, columns="candidate", values="score")[ranked].dropna()
    own = scores[comparison.recommended.id]
    others = scores.drop(columns=own.name)
    if others.empty:
        return pd.DataFrame()
    best = others.max(axis=1)
    table = pd.DataFrame(
        {
            "recommended": own,
            "best other": best,
            "by": others.idxmax(axis=1),
            "lost": (best - own).round(_DIGITS),
        }
    )
    ranks = comparison.scores.pivot(index=keys, columns="candidate", values="rank")[ranked]
    table["ranks"] = ranks.loc[table.index].to_numpy().tolist()
    base = base_row(comparison)
    table["base"] = scores[base.id] if base else None
    table = table[table["lost"] > 0].sort_values(
        ["lost", "recommended"], ascending=[False, True], kind="stable"
    )
    shown = comparison.scores.loc[
        comparison.scores["candidate"] == own.name, [*keys, "top_document", "best_relevant"]
    ]
    return (
        table.reset_index().merge(shown, on=keys, how="left").merge(comparison.queries, on=keys, how="left")
    )


def shown_passages(comparison: Comparison, runner: Runner, candidates: Sequence[Candidate]) -> pd.DataFrame:
    """Return the recommended candidate's passages of two documents on its worst failures.

    Returns:
        One row for each query: task, split, query, `shown` (of the top document), `answer` (of the best relevant
        one). No row if the candidate's vectors are not in memory and no earlier run saved its passages.
    """
    candidate = next(one for one in candidates if one.id == comparison.recommended.id)
    worst = failures(comparison).head(N_FAILURES)
    tables = []
    for split in runner.splits if len(worst) else ():
        task, name = split.label
        of_split = worst[(worst["task"] == task) & (worst["split"] == name)]
        if of_split.empty:
            continue
        kept = runner.cache.find_passages(candidate.identity, split)
        if kept is None or not set(of_split["query"]) <= set(kept["query"]):
            kept = _passages(of_split, runner, candidate, split)
            if kept is not None:
                runner.cache.save_passages(candidate.identity, split, kept)
        if kept is not None:
            tables.append(kept.assign(task=task, split=name))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def _passages(
    of_split: pd.DataFrame, runner: Runner, candidate: Candidate, split: Split
) -> pd.DataFrame | None:
    documents = split.documents
    pairs = of_split[["top_document", "best_relevant"]].to_numpy()
    indices = [[documents.indices[key] for key in pair if key] for pair in pairs]
    texts = of_split["text"].tolist()
    spans = runner.passages(candidate, split, texts, indices)
    if spans is None:
        return None
    language = Language.of(documents.language)
    rows = []
    for query, text, pair, of_pair, of_query in zip(
        of_split["query"], texts, pairs, indices, spans, strict=True
    ):
        row = {"query": query, "shown": "", "answer": ""}
        keys = [title for title, key in zip(("shown", "answer"), pair, strict=True) if key]
        for key, index, (start, end) in zip(keys, of_pair, of_query, strict=True):
            row[key] = excerpt(documents.texts[index][start:end], text, _PASSAGE, language)
        rows.append(row)
    return pd.DataFrame(rows)
