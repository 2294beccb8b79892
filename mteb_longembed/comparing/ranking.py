"""From each query's scores to ranked rows: who is first, how surely, who is out, and who is equal enough."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pandas as pd

from mteb_longembed.statistics.bootstrap import adjust, mean_interval
from mteb_longembed.statistics.intervals import Interval
from mteb_longembed.statistics.paired import PairedScores

from .candidates import BM25, Candidate, short_names
from .costs import Cost, Key
from .evaluations import COLUMNS

#: With fewer queries, half of them say too little.
LEAST_QUERIES = 40
#: With fewer queries nothing is claimed.
LEAST_TO_CLAIM = 3
#: A winner is first in at least this share of resamples. Of two equal candidates one is then named in at most 5 % of
#: comparisons (a test simulates it).
WINNING_SHARE = 0.975
#: Candidates are equal enough if they differ by less than so many points.
MARGIN = 2.0

#: `winner`: it is surely first. `leader`: it is first, but not surely. `equal`: the queries cannot tell it from the
#: leader. `out`: it is surely behind. `apart`: it takes no part in the choice, as BM25 with synthetic queries.
Standing = Literal["winner", "leader", "equal", "out", "apart"]


@dataclass(frozen=True)
class Row:
    """One candidate's row. Scores are in percent, differences in points.

    Args:
        candidate: the candidate.
        label: its short name.
        score: the mean over splits, then over tasks.
        cost: its cost.
        standing: its place among the others.
        first_share: the share of resamples of the queries in which it is first, from 0 to 1.
        diff_to_base: paired difference to its base; None for a base, and if there is no base.
        p_value: of that difference, adjusted for the number of candidates.
        diff_to_best: paired difference to the leader; None for the leader.
        equivalence: the 90 % interval of that difference: both of its ends are tests at 5 %.
        more_queries: how many more queries like these would tell it from the leader; infinite if none would.
        by_split: score by task and split.
        others: the other metrics.
    """

    candidate: Candidate
    label: str
    score: Interval
    cost: Cost
    standing: Standing = "out"
    first_share: float = 0.0
    diff_to_base: Interval | None = None
    p_value: float | None = None
    diff_to_best: Interval | None = None
    equivalence: Interval | None = None
    more_queries: float = math.inf
    by_split: Mapping[Key, Interval] = field(default_factory=dict)
    others: Mapping[str, Interval] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name for `mteb run -m`."""
        return self.candidate.name

    @property
    def is_bm25(self) -> bool:
        """Whether this is BM25, which embeds nothing."""
        return self.candidate.name == BM25

    @property
    def size(self) -> float | None:
        """Mean bytes of a document's vectors: 0 for BM25, None if it is not known."""
        if self.is_bm25:
            return 0.0
        return self.cost.bytes

    @property
    def is_equivalent(self) -> bool:
        """Whether it differs from the leader by less than `MARGIN`, by two one-sided tests."""
        return self.equivalence is not None and self.equivalence.lies_within(MARGIN)


def pair(scores: pd.DataFrame, candidates: Sequence[Candidate], column: str = "score") -> PairedScores:
    """The scores of candidates on the queries that all have answered; all tasks, and all splits of one, weigh the same.

    Args:
        scores: one row for each query, see `evaluations.COLUMNS`.
        candidates: those that take part, in this order.
        column: which metric.
    """
    names = [candidate.name for candidate in candidates]
    groups = []
    tasks = []
    for (task, _), part in scores.groupby(["task", "split"], sort=True):
        table = part.pivot(index="candidate", columns="query", values=column)
        groups.append(table.loc[names].dropna(axis=1).to_numpy(float))
        tasks.append(task)
    weights = tuple(1 / len(set(tasks)) / tasks.count(task) for task in tasks)
    return PairedScores(tuple(names), tuple(groups), weights)


def eligible(candidates: Sequence[Candidate], *, synthetic_queries: bool) -> list[Candidate]:
    """The candidates that may be the best: with synthetic queries none that matches words, if another one finished.

    Sentences of the documents as queries help candidates that match words.
    """
    if not synthetic_queries:
        return list(candidates)
    return [c for c in candidates if not c.matches_words] or list(candidates)


def rank(
    scores: pd.DataFrame,
    costs: Mapping[Candidate, Cost],
    *,
    synthetic_queries: bool = False,
) -> list[Row]:
    """The candidates, the best first. All must have answered the same queries.

    Args:
        scores: one row for each query of each candidate, see `evaluations.COLUMNS`.
        costs: the candidates and their costs.
        synthetic_queries: whether the queries are sentences of the documents.
    """
    paired = pair(scores, list(costs))
    means = {candidate: paired.mean(candidate.name) for candidate in costs}
    # of equal ones a base is first, because it is the simplest
    ranked = sorted(costs, key=lambda candidate: (-means[candidate].mean, not candidate.is_base))
    chosen = eligible(ranked, synthetic_queries=synthetic_queries)
    best = chosen[0]
    shares = paired.only([candidate.name for candidate in chosen]).first_shares()
    standings = stand(paired.only(list(shares)), shares)
    bases = {candidate.base: candidate for candidate in ranked if candidate.is_base}
    extended = [c for c in ranked if c.base in bases and bases[c.base] is not c]
    tests = [paired.p_value(bases[c.base].name, c.name) for c in extended]
    p_values = dict(zip(extended, adjust(tests), strict=True))
    labels = short_names(ranked)
    metrics = [column for column in scores.columns if column not in COLUMNS]
    others = {metric: pair(scores, ranked, metric) for metric in metrics}
    rows = []
    for candidate in ranked:
        diff_to_base = None
        if candidate in p_values:
            diff_to_base = paired.difference(bases[candidate.base].name, candidate.name).scaled(100)
        diff_to_best = equivalence = None
        more_queries = math.inf
        if candidate is not best:
            diff_to_best = paired.difference(best.name, candidate.name).scaled(100)
            equivalence = paired.equivalence(candidate.name, best.name).scaled(100)
            more_queries = paired.more_queries(best.name, candidate.name)
        rows.append(
            Row(
                candidate=candidate,
                label=labels[candidate.name],
                score=means[candidate].scaled(100),
                cost=costs[candidate],
                standing=standings.get(candidate.name, "apart"),
                first_share=shares.get(candidate.name, 0.0),
                diff_to_base=diff_to_base,
                p_value=p_values.get(candidate),
                diff_to_best=diff_to_best,
                equivalence=equivalence,
                more_queries=more_queries,
                by_split=_by_split(scores, candidate),
                others={metric: table.mean(candidate.name).scaled(100) for metric, table in others.items()},
            )
        )
    return rows


def stand(paired: PairedScores, shares: Mapping[str, float]) -> dict[str, Standing]:
    """Who wins or leads, who cannot be told from the first, and who is out.

    A winner is first in `WINNING_SHARE` of the resamples, and all others are out. If all are out although no winner may
    be named, the one that is first most often after the leader is not out.

    Args:
        paired: the scores, the best mean first.
        shares: the share of resamples in which each candidate is first.
    """
    leader, *others = paired.candidates
    if paired.n_queries < LEAST_TO_CLAIM:
        return {leader: "leader", **dict.fromkeys(others, "equal")}
    behind = [name for name in others if paired.is_behind(name, leader)]
    is_sure = len(behind) == len(others) and shares[leader] >= WINNING_SHARE
    if others and len(behind) == len(others) and not is_sure:
        behind.remove(max(others, key=lambda name: shares[name]))
    standings: dict[str, Standing] = {leader: "winner" if is_sure and others else "leader"}
    for name in others:
        standings[name] = "out" if name in behind else "equal"
    return standings


def _by_split(scores: pd.DataFrame, candidate: Candidate) -> dict[Key, Interval]:
    own = scores[scores["candidate"] == candidate.name]
    return {
        (str(task), str(split)): mean_interval(part["score"].to_numpy(float)).scaled(100)
        for (task, split), part in own.groupby(["task", "split"], sort=False)
    }


@dataclass(frozen=True)
class Expected:
    """The score to expect of the winner on new queries: one half of the queries chooses, the other half scores.

    Args:
        score: in percent, the mean of both ways.
        choices: the name that each half chooses.
    """

    score: float
    choices: tuple[str, str]


def expect(scores: pd.DataFrame, candidates: Sequence[Candidate]) -> Expected | None:
    """The score to expect; None if there are fewer than `LEAST_QUERIES` queries.

    The highest of many scores is too high: part of it is luck on the very queries that chose it.
    """
    n_queries = len(scores) // scores["candidate"].nunique()
    if n_queries < LEAST_QUERIES:
        return None
    halves = scores.groupby(["candidate", "task", "split"])["query"].transform(_halves)
    means = []
    for half in (0, 1):
        paired = pair(scores[halves == half], candidates)
        means.append({c.name: paired.mean_only(c.name) for c in candidates})
    first = max(means[0], key=means[0].__getitem__)
    second = max(means[1], key=means[1].__getitem__)
    score = (means[1][first] + means[0][second]) / 2
    return Expected(100 * score, (first, second))


def _halves(queries: pd.Series) -> pd.Series:
    """0 or 1 for each query, in turns by its hash: neighbouring ids may be of one kind or of one document."""
    hashes = [hashlib.sha256(query.encode("utf-8", "replace")).hexdigest() for query in queries]
    order = np.argsort(hashes)
    half = np.empty(len(hashes), dtype=int)
    half[order] = np.arange(len(hashes)) % 2
    return pd.Series(half, index=queries.index)
