"""From one frame of scores to one frame of candidates: who is first, how surely, who is behind, who is equal enough."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from mteb_longembed.statistics.intervals import Interval
from mteb_longembed.statistics.resampling import Resamples, adjust, mean_interval, resample

from .candidates import Candidate, short_names
from .costs import Cost

#: The columns of every frame of scores: one row for each query. `score` is the ranking metric, from 0 to 1; `is_tied`
#: says that it is a mean over orders of documents with equal scores. Other metrics follow under their own names.
COLUMNS = ("candidate", "task", "split", "query", "score", "is_tied")
#: With fewer queries nothing is claimed; with fewer than `LEAST_QUERIES`, half of them say too little.
LEAST_TO_CLAIM = 3
LEAST_QUERIES = 40
#: A winner is first in at least this share of resamples. Of two equal candidates one is then named in at most 5 % of
#: comparisons (a test simulates it).
WINNING_SHARE = 0.975
#: Candidates are equal enough if they differ by less than so many points.
MARGIN = 2.0


def summarise(
    scores: pd.DataFrame,
    candidates: Sequence[Candidate],
    costs: Mapping[str, Mapping[str, Any]],
    *,
    synthetic_queries: bool = False,
) -> pd.DataFrame:
    """One row for each candidate, the best first, by its id. Scores are in percent, differences in points.

    `standing` is `winner` (surely first), `leader` (first, but not surely), `equal` (these queries cannot tell it from
    the leader), `behind` (surely), `unknown` (too few queries) or `excluded` (no part of the choice). `to_base`
    and `to_best` are paired differences with their 95 % intervals, `equal_low` and `equal_high` the 90 % interval of
    the latter. NaN stands for what there is not.

    Args:
        scores: `COLUMNS`, and perhaps further metrics.
        candidates: what they are.
        costs: by their ids: the fields of `Cost`, and further ones. What is left out costs nothing.
        synthetic_queries: whether the queries are sentences of the documents: these favour what matches words, so such
            candidates are not chosen, if another one finished.
    """
    by_id = {candidate.id: candidate for candidate in candidates}
    samples = resamples_of(scores, list(by_id))
    means = samples.means
    # of equal ones a base is first, because it is the simplest
    order = sorted(by_id, key=lambda name: (-means[name], not by_id[name].is_base))
    chosen = order
    if synthetic_queries:
        chosen = [name for name in order if not by_id[name].matches_words] or order
    standings, shares = _standings(samples, chosen)
    labels = short_names([by_id[name] for name in order])
    bases = {candidate.base: candidate.id for candidate in candidates if candidate.is_base}
    best = chosen[0]
    rows = []
    for name in order:
        candidate = by_id[name]
        score = samples.mean(name).scaled(100)
        row: dict[str, Any] = {
            "candidate": name,
            "label": labels[name],
            "kind": candidate.kind,
            "base": candidate.base,
            "is_base": candidate.is_base,
            "chunker": candidate.key,
            "encoder": candidate.name,
            "trained_len": candidate.trained_len,
            "target_len": candidate.target_len,
            "score": score.mean,
            "low": score.low,
            "high": score.high,
            "standing": standings.get(name, "excluded"),
            "first_share": shares.get(name, 0.0),
            "is_same": False,
            **dict.fromkeys(_DISTANCES, math.nan),
        }
        if name != best:
            row |= _difference("to_best", samples.difference(best, name))
            equal = samples.equivalence(best, name).scaled(100)
            row |= {"equal_low": equal.low, "equal_high": equal.high}
            row |= {"is_same": samples.are_same(best, name), "more_queries": samples.more_queries(best, name)}
        base = bases.get(candidate.base)
        if base is not None and base != name:
            row |= _difference("to_base", samples.difference(base, name))
            row["p_value"] = samples.p_value(base, name)
        rows.append({**row, **asdict(Cost()), **costs.get(name, {})})
    summary = pd.DataFrame(rows).set_index("candidate")
    tested = summary["p_value"].notna()
    summary.loc[tested, "p_value"] = adjust(summary.loc[tested, "p_value"].tolist())
    for metric in scores.columns.difference(COLUMNS, sort=False):
        summary = summary.join(_of_metric(scores, metric, order))
    return summary


#: How far a candidate is from the best and from its base; NaN for these themselves.
_DISTANCES = (
    "to_best", "to_best_low", "to_best_high", "equal_low", "equal_high", "more_queries", "to_base", "to_base_low",
    "to_base_high", "p_value",
)  # fmt: skip


def _difference(name: str, interval: Interval) -> dict[str, float]:
    points = interval.scaled(100)
    return {name: points.mean, f"{name}_low": points.low, f"{name}_high": points.high}


def _of_metric(scores: pd.DataFrame, metric: str, names: Sequence[str]) -> pd.DataFrame:
    """A further metric with its interval, in percent; the tokens of a context as they are."""
    known = scores.dropna(subset=[metric])
    if metric.startswith("context@"):
        return known.groupby("candidate")[[metric]].mean()
    samples = resamples_of(known, names, metric)
    rows = {}
    for name in names:
        interval = samples.mean(name).scaled(100)
        rows[name] = {metric: interval.mean, f"{metric} low": interval.low, f"{metric} high": interval.high}
    return pd.DataFrame.from_dict(rows, orient="index")


def resamples_of(scores: pd.DataFrame, names: Sequence[str], column: str = "score") -> Resamples:
    """Candidates on the queries that all have answered. All tasks weigh the same, and all splits of one.

    Args:
        scores: as for `summarise`.
        names: of the candidates that take part.
        column: which metric.
    """
    groups = []
    tasks = []
    for (task, _), part in scores.groupby(["task", "split"]):
        table = part.pivot(index="candidate", columns="query", values=column)
        groups.append(table.loc[list(names)].dropna(axis=1).to_numpy(float))
        tasks.append(task)
    weights = [1 / len(set(tasks)) / tasks.count(task) for task in tasks]
    return resample(names, groups, weights)


def _standings(samples: Resamples, names: Sequence[str]) -> tuple[dict[str, str], dict[str, float]]:
    """Who wins or leads, who cannot be told from the first, who is behind; and how often each is first.

    A winner is first in `WINNING_SHARE` of the resamples, and all others are behind. If all are behind although no
    winner may be named, the one that is first most often after the leader is not.
    """
    leader, *others = names
    shares = samples.first_shares(names)
    if samples.n_queries < LEAST_TO_CLAIM:
        return {leader: "leader", **dict.fromkeys(others, "unknown")}, shares
    behind = [name for name in others if samples.is_behind(name, leader)]
    is_sure = len(behind) == len(others) and shares[leader] >= WINNING_SHARE
    if others and len(behind) == len(others) and not is_sure:
        behind.remove(max(others, key=lambda name: shares[name]))
    standings = {leader: "leader"} | dict.fromkeys(others, "equal") | dict.fromkeys(behind, "behind")
    if is_sure and others:
        standings[leader] = "winner"
    return standings, shares


def by_split(scores: pd.DataFrame) -> pd.DataFrame:
    """The score of each candidate on each split, in percent, with its interval."""
    rows = []
    for (name, task, split), part in scores.groupby(["candidate", "task", "split"], sort=False):
        interval = mean_interval(part["score"].to_numpy(float)).scaled(100)
        row = {"candidate": name, "task": task, "split": split}
        rows.append({**row, "score": interval.mean, "low": interval.low, "high": interval.high})
    return pd.DataFrame(rows)


def expected(scores: pd.DataFrame, names: Sequence[str]) -> float | None:
    """The score to expect of the winner on new queries.

    One half of the queries chooses, the other half scores. The highest of many scores is too high: part of it is luck
    on the very queries that chose it. None if there are fewer than `LEAST_QUERIES` queries.
    """
    if len(scores) // scores["candidate"].nunique() < LEAST_QUERIES:
        return None
    halves = scores.groupby(["candidate", "task", "split"])["query"].transform(_halves)
    means = [resamples_of(scores[halves == half], names).means for half in (0, 1)]
    first = max(means[0], key=means[0].__getitem__)
    second = max(means[1], key=means[1].__getitem__)
    return 50 * (means[1][first] + means[0][second])


def _halves(queries: pd.Series) -> pd.Series:
    """0 or 1 for each query, in turns by its hash: neighbouring ids may be of one kind or of one document."""
    hashes = [hashlib.sha256(query.encode("utf-8", "replace")).hexdigest() for query in queries]
    half = np.empty(len(hashes), dtype=int)
    half[np.argsort(hashes)] = np.arange(len(hashes)) % 2
    return pd.Series(half, index=queries.index)


def is_number(value: object) -> bool:
    """Whether a cell of a frame has a finite number."""
    return isinstance(value, (int, float)) and math.isfinite(value)
