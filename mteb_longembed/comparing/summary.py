"""From one frame of scores to one frame of candidates: how good each is, how surely, and what the word for that is."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from mteb_longembed.statistics.intervals import Interval
from mteb_longembed.statistics.resampling import Resamples, resample

from .candidates import Candidate, short_names
from .costs import Cost

#: The columns of every frame of scores: one row for each query. `score` is the ranking metric, from 0 to 1; `is_tied`
#: says that it is a mean over orders of documents with equal scores. Other metrics follow under their own names.
COLUMNS = ("candidate", "task", "split", "query", "score", "is_tied")
#: With fewer queries no difference can be claimed (`Resamples.difference`), so nothing is.
LEAST_TO_CLAIM = 6
#: With fewer queries, half of them say too little.
LEAST_QUERIES = 40
#: A winner is best in at least this share of resamples. Of two equal candidates one is then called so in at most 5 % of
#: comparisons (a test simulates it).
WINNING_SHARE = 0.975
#: What is less than so many points behind the best in at least this share of resamples is good enough.
MARGIN = 2.0
ENOUGH_SHARE = 0.95

WINNER = "winner"
GOOD_ENOUGH = "good enough"
MAY_BE_BEST = "may be best"
BEHIND = "behind"
#: No part of the choice.
EXCLUDED = "excluded"


def summarise(
    scores: pd.DataFrame,
    candidates: Sequence[Candidate],
    costs: Mapping[str, Mapping[str, Any]],
    *,
    synthetic_queries: bool = False,
) -> pd.DataFrame:
    """One row for each candidate, the best first, by its id. Scores are in percent, differences in points.

    `best_share` and `near_share` are the shares of resamples in which a candidate is best, and less than `MARGIN`
    points behind the best. `standing` is the word for them: `winner`, `good enough`, `may be best` (neither, but not
    surely behind), `behind` (the interval of the difference to the best lies below 0) or `excluded`. `to_best` is that
    paired difference with its 95 % interval; NaN stands for what there is not.

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
    labels = short_names([by_id[name] for name in order])
    best_shares = samples.best_shares(chosen)
    near_shares = samples.near_shares(chosen, MARGIN / 100)
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
            "chunker": candidate.chunker_name,
            "encoder": candidate.name,
            "trained_len": candidate.trained_len,
            "target_len": candidate.target_len,
            "score": score.mean,
            "low": score.low,
            "high": score.high,
            "standing": EXCLUDED,
            "best_share": best_shares.get(name, math.nan),
            "near_share": near_shares.get(name, math.nan),
            "is_same": False,
            **dict.fromkeys(("to_best", "to_best_low", "to_best_high", "more_queries"), math.nan),
        }
        if name != best:
            points = samples.difference(best, name).scaled(100)
            row |= {"to_best": points.mean, "to_best_low": points.low, "to_best_high": points.high}
            row |= {"is_same": samples.are_same(best, name), "more_queries": samples.more_queries(best, name)}
        if name in chosen:
            row["standing"] = _standing(row, samples.n_queries, len(chosen))
        rows.append({**row, **asdict(Cost()), **costs.get(name, {})})
    summary = pd.DataFrame(rows).set_index("candidate")
    for metric in scores.columns.difference(COLUMNS, sort=False):
        summary = summary.join(_of_metric(scores, metric, order))
    return summary


def _standing(row: Mapping[str, Any], n_queries: int, n_candidates: int) -> str:
    """The word for a candidate."""
    if n_queries < LEAST_TO_CLAIM or n_candidates == 1:
        return MAY_BE_BEST
    if row["best_share"] >= WINNING_SHARE:
        return WINNER
    if row["near_share"] >= ENOUGH_SHARE:
        return GOOD_ENOUGH
    if row["to_best_high"] < 0:
        return BEHIND
    return MAY_BE_BEST


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


def by_split(scores: pd.DataFrame) -> pd.DataFrame:
    """The score of each candidate on each split, in percent, with its interval."""
    rows = []
    for (task, split), part in scores.groupby(["task", "split"], sort=False):
        names = list(part["candidate"].unique())
        samples = resamples_of(part, names)
        for name in names:
            interval: Interval = samples.mean(name).scaled(100)
            row = {"candidate": name, "task": task, "split": split}
            rows.append({**row, "score": interval.mean, "low": interval.low, "high": interval.high})
    return pd.DataFrame(rows)


def expected(scores: pd.DataFrame, names: Sequence[str]) -> float | None:
    """The score to expect of the highest one on new queries.

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
