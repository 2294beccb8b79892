"""From the frame of scores to one frame of candidates: how good each is, how surely, and what the word for that is."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd

from mteb_longembed.evaluation.resampling import LEAST_CLUSTERS, Resamples, resample

from .candidates import Candidate, short_names
from .costs import Cost

#: The columns of every frame of scores: one row for each query. `score` is the ranking metric, from 0 to 1; `is_tied`
#: says that it is a mean over orders of documents with equal scores; `clusters` has the labels by which queries belong
#: together. Other metrics follow under their own names.
COLUMNS = ("candidate", "task", "split", "query", "clusters", "score", "is_tied")
#: So many queries are asked for where there are too few for any claim.
LEAST_QUERIES = 40
#: What is less than so many points behind all others in at least this share of resamples is good enough.
MARGIN = 2.0
ENOUGH_SHARE = 0.95

GOOD_ENOUGH = "good enough"
MAY_BE_BEST = "may be best"
BEHIND = "behind"


def summarise(
    scores: pd.DataFrame, candidates: Sequence[Candidate], costs: Mapping[str, Mapping[str, Any]]
) -> pd.DataFrame:
    """One row for each candidate, the best first, by its id. Scores are in percent, differences in points.

    `near_share` is the share of resamples in which a candidate is less than `MARGIN` points behind all others.
    `standing` is the word for it: `good enough`, `behind` (surely behind the highest score), or else `may be best`.
    `to_best` is the paired difference to the highest score with its 95 % interval; NaN stands for what there is not.

    Args:
        scores: `COLUMNS`, and perhaps further metrics.
        candidates: what they are.
        costs: by their ids: the fields of `Cost`. What is left out costs nothing.
    """
    by_id = {candidate.id: candidate for candidate in candidates}
    samples = resamples_of(scores, list(by_id))
    # of equal ones a base is first, because it is the simplest; and words that need a model are last
    order = sorted(
        by_id, key=lambda name: (-samples.means[name], not by_id[name].is_base, by_id[name].expand)
    )
    labels = short_names([by_id[name] for name in order])
    near_shares = samples.near_shares(order, MARGIN / 100)
    rows = []
    for name in order:
        candidate = by_id[name]
        row: dict[str, Any] = {
            "candidate": name,
            "label": labels[name],
            "kind": candidate.kind,
            "base": candidate.base,
            "is_base": candidate.is_base,
            "expand": candidate.expand,
            "chunker": getattr(candidate.chunker, "name", ""),
            "encoder": candidate.name,
            "passes": candidate.passes,
            "trained_len": candidate.trained_len,
            "target_len": candidate.target_len,
            "standing": MAY_BE_BEST,
            "near_share": near_shares[name],
            "is_same": name != order[0] and samples.n_differing(order[0], name) == 0,
            **_interval(samples, name),
            **dict.fromkeys(("to_best", "to_best_low", "to_best_high"), math.nan),
        }
        if name != order[0]:
            points = samples.difference(order[0], name).scaled(100)
            row |= {"to_best": points.mean, "to_best_low": points.low, "to_best_high": points.high}
        if samples.n_clusters >= LEAST_CLUSTERS and len(order) > 1:
            if row["near_share"] >= ENOUGH_SHARE:
                row["standing"] = GOOD_ENOUGH
            elif samples.is_behind(name, order):
                row["standing"] = BEHIND
        rows.append({**row, **asdict(Cost()), **costs.get(name, {})})
    summary = pd.DataFrame(rows).set_index("candidate")
    for metric in scores.columns.difference(COLUMNS, sort=False):
        known = scores.dropna(subset=[metric])
        of_metric = resamples_of(known.assign(score=known[metric]), order)
        for name in order:
            interval = _interval(of_metric, name)
            summary.loc[name, [metric, f"{metric} low", f"{metric} high"]] = list(interval.values())
    return summary


def _interval(samples: Resamples, name: str) -> dict[str, float]:
    """A candidate's score in percent, with its interval."""
    interval = samples.mean(name).scaled(100)
    return {"score": interval.mean, "low": interval.low, "high": interval.high}


def resamples_of(scores: pd.DataFrame, names: Sequence[str]) -> Resamples:
    """Candidates on the queries that all have answered. All tasks weigh the same, and all splits of one."""
    by_split = []
    labels = []
    tasks = []
    for (task, _), part in scores.groupby(["task", "split"]):
        table = part.pivot(index="candidate", columns="query", values="score").loc[list(names)].dropna(axis=1)
        clusters = part.drop_duplicates("query").set_index("query")["clusters"]
        by_split.append(table.to_numpy(float))
        labels.append([[(task, label) for label in clusters[query]] for query in table])
        tasks.append(task)
    weights = [1 / len(set(tasks)) / tasks.count(task) for task in tasks]
    return resample(names, by_split, labels, weights)


def by_split(scores: pd.DataFrame) -> pd.DataFrame:
    """The score of each candidate on each split, in percent, with its interval."""
    rows = []
    for (task, split), part in scores.groupby(["task", "split"], sort=False):
        names = list(part["candidate"].unique())
        samples = resamples_of(part, names)
        rows += [
            {"candidate": name, "task": task, "split": split, **_interval(samples, name)} for name in names
        ]
    return pd.DataFrame(rows)


def is_number(value: object) -> bool:
    """Whether a cell of a frame has a finite number."""
    return isinstance(value, (int, float)) and math.isfinite(value)
