"""From the scores of each query to one row per candidate: intervals, differences to the best, standing, cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal, TypeGuard

import pandas as pd

from mteb_longembed.evaluation.resampling import LEAST_CLUSTERS, Interval, Resamples, resample
from mteb_longembed.files import Json

from .candidates import Candidate, Kind
from .costs import Cost
from .labels import short_names

#: The columns of every frame of scores: one row for each query. `score` is the ranking metric, from 0 to 1; `is_tied`
#: says that it is a mean over orders of documents with equal scores; `clusters` has the labels of the query's clusters;
#: `rank` is the rank of the best relevant document, `top_document` and `best_relevant` are ids. Other
#: metrics follow under their own names.
COLUMNS = (
    "candidate", "task", "split", "query", "clusters", "score", "is_tied", "rank", "top_document", "best_relevant",
)  # fmt: skip
#: Recommended minimum number of queries, if there are too few for any claim.
LEAST_QUERIES = 40
#: A candidate less than this many points behind all others in at least this share of resamples is good enough.
MARGIN = 2.0
ENOUGH_SHARE = 0.95

#: `best`: the highest score. `behind`: the interval of the difference to it excludes 0. `not separated`: it holds 0.
Standing = Literal["best", "not separated", "behind"]
BEST: Standing = "best"
NOT_SEPARATED: Standing = "not separated"
BEHIND: Standing = "behind"
_NO_INTERVAL = Interval(math.nan, math.nan, math.nan)


@dataclass(frozen=True, kw_only=True)
class Row:
    """The result of a candidate. Scores are in percent, differences in points.

    Args:
        id: the id of the candidate.
        label: its short name.
        kind: kind of candidate.
        base: its base as the user wrote it; empty for BM25.
        is_base: whether it is the base without extension.
        expand: the model of BM25's query expansion; empty for none.
        name: the name that loads it.
        passes: the name of the pass that gives its vectors.
        trained_len: the trained length of the base, in tokens.
        target_len: number of tokens of a document that it reads; None for all.
        score: the score with its 95 % interval.
        to_best: the paired difference to the highest score with its interval, whose upper end is corrected for the
            number of candidates; nan for the best itself.
        standing: see `Standing`.
        near_share: the share of resamples in which it is less than `MARGIN` points behind all others.
        is_same: whether it scores every query as the best does.
        cost: the cost of encoding and storing the documents.
        metrics: further metrics with their intervals, by name.
        n_unjudged: mean number of its ten best documents that nobody judged; None if no rankings are kept.
    """

    id: str
    label: str
    kind: Kind
    base: str = ""
    is_base: bool = False
    expand: str = ""
    name: str = ""
    passes: str = ""
    trained_len: int | None = None
    target_len: int | None = None
    score: Interval = _NO_INTERVAL
    to_best: Interval = _NO_INTERVAL
    standing: Standing = NOT_SEPARATED
    near_share: float = 0.0
    is_same: bool = False
    cost: Cost = field(default_factory=Cost)
    metrics: Mapping[str, Interval] = field(default_factory=dict)
    n_unjudged: float | None = None

    @property
    def is_good_enough(self) -> bool:
        """Whether it is near the best, or the best, in nearly all resamples."""
        return self.near_share >= ENOUGH_SHARE

    def as_dict(self) -> Json:
        """Return the row as plain values, each interval in three: the mean, `_low` and `_high`."""
        values = {"candidate": self.id, **asdict(self)}
        del values["id"]
        metrics: dict[str, dict[str, float]] = values.pop("metrics")
        values |= values.pop("cost")
        for name in ("score", "to_best"):
            values |= _spread(name, values[name])
        for name, interval in metrics.items():
            values |= _spread(name, interval)
        return values


def _spread(name: str, interval: Mapping[str, float]) -> dict[str, float]:
    return {name: interval["mean"], f"{name}_low": interval["low"], f"{name}_high": interval["high"]}


def frame_of(rows: Sequence[Row]) -> pd.DataFrame:
    """Return rows as a table, indexed by candidate id; an empty one without rows."""
    if not rows:
        return pd.DataFrame()
    return pd.DataFrame([row.as_dict() for row in rows]).set_index("candidate")


def summarise(
    scores: pd.DataFrame, candidates: Sequence[Candidate], costs: Mapping[str, Cost] | None = None
) -> list[Row]:
    """Return one row for each candidate, the best first.

    Args:
        scores: a table with `COLUMNS`, and perhaps further metrics.
        candidates: the candidates.
        costs: costs by candidate id. A candidate without one costs nothing.
    """
    by_id = {candidate.id: candidate for candidate in candidates}
    samples = resamples_of(scores, list(by_id))
    # among equal candidates a base is first, as the simplest one, and BM25 with a model last
    order = sorted(
        by_id, key=lambda name: (-samples.means[name], not by_id[name].is_base, by_id[name].expand)
    )
    labels = short_names([by_id[name] for name in order])
    near_shares = samples.near_shares(order, MARGIN / 100)
    metrics = _further_metrics(scores, order)
    rows = []
    for name in order:
        candidate = by_id[name]
        to_best = _NO_INTERVAL
        standing = NOT_SEPARATED
        if name == order[0]:
            standing = BEST
        else:
            to_best = samples.to_best(name, order).scaled(100)
            if samples.n_clusters >= LEAST_CLUSTERS and to_best.high < 0:
                standing = BEHIND
        rows.append(
            Row(
                id=name,
                label=labels[name],
                kind=candidate.kind,
                base=candidate.base,
                is_base=candidate.is_base,
                expand=candidate.expand,
                name=candidate.name,
                passes=candidate.passes,
                trained_len=candidate.trained_len,
                target_len=candidate.target_len,
                score=samples.mean(name).scaled(100),
                to_best=to_best,
                standing=standing,
                near_share=near_shares[name],
                is_same=name != order[0] and samples.n_differing(order[0], name) == 0,
                cost=(costs or {}).get(name, Cost()),
                metrics=metrics[name],
            )
        )
    return rows


def _further_metrics(scores: pd.DataFrame, names: Sequence[str]) -> dict[str, dict[str, Interval]]:
    """Return each candidate's other metrics, in percent."""
    intervals: dict[str, dict[str, Interval]] = {name: {} for name in names}
    for metric in scores.columns.difference(COLUMNS, sort=False):
        known = scores.dropna(subset=[metric])
        samples = resamples_of(known.assign(score=known[metric]), names)
        for name in names:
            intervals[name][metric] = samples.mean(name).scaled(100)
    return intervals


def queries_to_separate(rows: Sequence[Row], n_queries: int) -> int | None:
    """Estimate how many more queries would separate the first two rows; None if they are separated, or score the same.

    An interval shrinks with the square root of the number of queries, if further queries are like these.
    """
    if len(rows) < 2 or rows[1].standing == BEHIND or not rows[1].to_best.mean < 0:
        return None
    half = rows[1].to_best.high - rows[1].to_best.mean
    needed = n_queries * (half / rows[1].to_best.mean) ** 2
    if not math.isfinite(needed):
        return None
    return max(math.ceil(needed) - n_queries, 1)


def resamples_of(scores: pd.DataFrame, names: Sequence[str]) -> Resamples:
    """Resample the queries that all candidates answered. Tasks have equal weights, and so have the splits of a task."""
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
    """Return the score of each candidate on each split, in percent, with its interval."""
    rows = []
    for (task, split), part in scores.groupby(["task", "split"], sort=False):
        rows += mean_scores(part, task=task, split=split)
    return pd.DataFrame(rows)


def mean_scores(scores: pd.DataFrame, **where: object) -> list[Json]:
    """Return for each candidate its id, `where`, and its score in percent with its interval."""
    names = list(scores["candidate"].unique())
    samples = resamples_of(scores, names)
    rows = []
    for name in names:
        interval = asdict(samples.mean(name).scaled(100))
        rows.append({"candidate": name, **where, **_spread("score", interval)})
    return rows


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a finite number."""
    return isinstance(value, (int, float)) and math.isfinite(value)
