"""The result of a comparison: two frames (scores by query, and costs), and what follows from them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

from mteb_longembed.data.task import OwnData

from .blind_spots import blind_spots
from .by_query import QueryDifference, differences
from .candidates import Candidate
from .evaluate import Evaluated, Ground
from .passages import PassageScores
from .ranking import Row, eligible, expect, rank
from .recommendation import Recommendation, Setting, recommend


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The result of a comparison.

    Args:
        scores: one row for each query of each candidate, see `evaluations.COLUMNS`.
        costs: one row for each candidate: speed, vectors, what is read, and what was encoded now.
        rows: the candidates, the best first.
        recommendation: what to do.
        cautions: one sentence for each thing that the numbers cannot see.
        tasks: names of the tasks.
        metrics: what was scored, the first one ranks; if each task has its own, all of them.
        n_queries: queries that all candidates answered.
        n_documents: documents of all splits.
        synthetic_queries: whether the queries are sentences of the documents.
        skipped: one sentence for each candidate that did not fit into the budget.
        left_out: one sentence for each candidate that could not run.
        counted: one sentence for each kind of query or document that is not scored.
        queries: for the base of the best and for BM25, the queries on which the best differs most from it.
        passages: by candidate, where tasks know which passages answer.
        identity: a hash of data, candidates and metrics.
        written: when it was made, in UTC.
    """

    scores: pd.DataFrame
    costs: pd.DataFrame
    rows: list[Row]
    recommendation: Recommendation
    cautions: list[str]
    tasks: list[str]
    metrics: list[str]
    n_queries: int
    n_documents: int
    synthetic_queries: bool
    skipped: list[str]
    left_out: list[str]
    counted: list[str]
    queries: dict[str, list[QueryDifference]]
    passages: dict[str, PassageScores]
    identity: str = ""
    written: str = ""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a run of candidates ended with.

    Args:
        done: what has run.
        asked: the candidates that were to run.
        skipped: sentences about the budget.
        left_out: sentences about candidates that could not run.
        counted: sentences about what is not scored.
    """

    done: Sequence[Evaluated]
    asked: Sequence[Candidate]
    skipped: Sequence[str]
    left_out: Sequence[str]
    counted: Sequence[str]


def make_comparison(
    outcome: Outcome, ground: Ground, names: Sequence[str], *, synthetic_queries: bool
) -> Comparison:
    """The comparison of the candidates that have run, on the queries that all of them answered.

    Args:
        outcome: what has run.
        ground: on what.
        names: the tasks' names for `mteb run`: a sample has a name of its own.
        synthetic_queries: whether the queries are sentences of the documents.
    """
    done = outcome.done
    evaluations = ground.evaluations
    scores = pd.concat([one.scores for one in done], ignore_index=True)
    rows = rank(scores, {one.candidate: one.cost for one in done}, synthetic_queries=synthetic_queries)
    # `mteb run` does not know the names of tasks from local files
    local = next((task for task in ground.tasks if isinstance(task, OwnData)), None)
    corpus = None
    language = None
    if local is not None:
        if isinstance(local.corpus_source, Path):
            corpus = str(local.corpus_source)
        language = local.language
    setting = Setting(
        tasks=names,
        n_queries=len(done[0].scores),
        corpus=corpus,
        language=language,
        synthetic_queries=synthetic_queries,
        n_untried=len(outcome.skipped),
        n_asked=len(outcome.asked),
    )
    chosen = eligible([row.candidate for row in rows], synthetic_queries=synthetic_queries)
    recommendation = recommend(rows, setting, expect(scores, chosen))
    metrics: dict[str, None] = {}
    for task in ground.tasks:
        metrics |= dict.fromkeys(map(str, evaluations.metrics(task)))
    rule = evaluations.ignore_identical_ids
    parts = [evaluations.identity(*split) for split in ground.splits.values()]
    parts += [*metrics, *(candidate.name for candidate in outcome.asked), str(rule)]
    return Comparison(
        scores=scores,
        costs=cost_frame(done),
        rows=rows,
        recommendation=recommendation,
        cautions=blind_spots(scores, rows, ground.tasks, ignore_identical_ids=rule),
        tasks=[task.metadata.name for task in ground.tasks],
        metrics=list(metrics),
        n_queries=setting.n_queries,
        n_documents=_n_documents(ground),
        synthetic_queries=synthetic_queries,
        skipped=list(outcome.skipped),
        left_out=list(outcome.left_out),
        counted=list(outcome.counted),
        queries=differences(
            evaluations, ground.tasks, rows, scores, recommendation.best, _shown_passages(ground)
        ),
        passages={one.candidate.name: one.passages for one in done if one.passages is not None},
        identity=hashlib.sha256(" ".join(parts).encode()).hexdigest(),
        written=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
    )


def cost_frame(done: Sequence[Evaluated]) -> pd.DataFrame:
    """One row for each candidate that has run: its cost, and what was encoded now."""
    rows = []
    for one in done:
        plain = asdict(one.cost)
        plain["tokens"] = sum(one.cost.tokens.values())
        rows.append(
            {
                "candidate": one.candidate.name,
                "tokens_per_second": one.cost.tokens_per_second,
                **plain,
                "seconds": one.seconds,
                "tokens_encoded": one.tokens_encoded,
                "tokens_shared": one.tokens_shared,
                "tokens_windows": one.tokens_windows,
            }
        )
    return pd.DataFrame(rows)


def _n_documents(ground: Ground) -> int:
    total = 0
    for parts in ground.corpora.values():
        total += sum(map(len, parts))
    return total


def _shown_passages(ground: Ground) -> Mapping[tuple[str, str], dict[str, dict[str, list[tuple[int, int]]]]]:
    """The judged passages, if candidates show windows."""
    if not ground.shows_windows:
        return {}
    return ground.passages
