"""From one frame of scores to one frame of candidates: who is first, how surely, who is behind, who is equal enough."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from mteb_longembed.evaluation.passages import ShownPassages
from mteb_longembed.evaluation.scoring import Ranking
from mteb_longembed.evaluation.split import Split
from mteb_longembed.names.grammar import is_bm25_name
from mteb_longembed.statistics.intervals import Interval
from mteb_longembed.statistics.resampling import Resamples, adjust, mean_interval, resample

from .cache import Cache
from .candidates import Candidate, Kind, short_names

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
#: So many queries, characters of a query, and characters of a passage are shown.
N_SHOWN = 10
_SHOWN = 120
_PASSAGE = 240


def summarise(
    scores: pd.DataFrame,
    candidates: Sequence[Candidate] | None = None,
    costs: pd.DataFrame | None = None,
    *,
    synthetic_queries: bool = False,
) -> pd.DataFrame:
    """One row for each candidate, the best first, by its id. Scores are in percent, differences in points.

    `standing` is `winner` (surely first), `leader` (first, but not surely), `equal` (these queries cannot tell it from
    the leader), `behind` (surely), `unknown` (too few queries) or `apart` (it takes no part in the choice). `to_base`
    and `to_best` are paired differences with their 95 % intervals, `equal_low` and `equal_high` the 90 % interval of
    the latter. NaN stands for what there is not.

    Args:
        scores: the columns candidate, query and score from 0 to 1; perhaps task, split, and further metrics.
        candidates: what they are. Default: what their names say.
        costs: one row for each candidate, with the fields of `Cost`. Default: nothing is known.
        synthetic_queries: whether the queries are sentences of the documents: these favour what matches words, so such
            candidates are not chosen, if another one finished.
    """
    if candidates is None:
        candidates = [_by_its_name(name) for name in scores["candidate"].unique()]
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
        row: dict[str, Any] = {"candidate": name, "label": labels[name], "kind": candidate.kind}
        row |= {"base": candidate.base, "is_base": candidate.is_base, "has_chunker": bool(candidate.key)}
        row["encoder"] = candidate.name
        row |= {"trained_len": candidate.trained_len, "target_len": candidate.target_len}
        row |= _spread("score", samples.mean(name))
        row |= {"standing": standings.get(name, "apart"), "first_share": shares.get(name, 0.0)}
        if name != best:
            row |= _spread("to_best", samples.difference(best, name))
            equal = samples.equivalence(best, name).scaled(100)
            row |= {"equal_low": equal.low, "equal_high": equal.high}
            row |= {"is_same": samples.are_same(best, name), "more_queries": samples.more_queries(best, name)}
        base = bases.get(candidate.base)
        if base is not None and base != name:
            row |= _spread("to_base", samples.difference(base, name))
            row["p_value"] = samples.p_value(base, name)
        rows.append(row)
    summary = pd.DataFrame(rows).set_index("candidate")
    summary = summary.reindex(columns=list(dict.fromkeys([*summary.columns, *_ALWAYS])))
    summary["is_same"] = summary["is_same"].eq(True)
    tested = summary["p_value"].notna()
    summary.loc[tested, "p_value"] = adjust(summary.loc[tested, "p_value"].tolist())
    for metric in [column for column in scores.columns if column not in COLUMNS]:
        summary = summary.join(_of_metric(scores, metric, order))
    if costs is not None:
        summary = summary.join(costs.set_index("candidate"))
    return summary.reindex(columns=list(dict.fromkeys([*summary.columns, *_OF_COSTS])))


#: Columns that a summary has even where no candidate has a value.
_ALWAYS = (
    "to_best", "to_best_low", "to_best_high", "equal_low", "equal_high", "is_same", "more_queries", "to_base",
    "to_base_low", "to_base_high", "p_value",
)  # fmt: skip
_OF_COSTS = (
    "tokens", "share_read", "share_unknown", "vectors", "enough_len", "median_len", "longest",
    "slowest", "tokens_per_second", "fastest", "bytes", "device",
)  # fmt: skip


def _spread(name: str, interval: Interval) -> dict[str, float]:
    scaled = interval.scaled(100)
    if name == "score":
        return {"score": scaled.mean, "low": scaled.low, "high": scaled.high}
    return {name: scaled.mean, f"{name}_low": scaled.low, f"{name}_high": scaled.high}


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
    keys = [key for key in ("task", "split") if key in scores.columns]
    parts = [(("", ""), scores)]
    if keys:
        parts = list(scores.groupby(keys, sort=True))
    groups = []
    tasks = []
    for key, part in parts:
        table = part.pivot(index="candidate", columns="query", values=column)
        groups.append(table.loc[list(names)].dropna(axis=1).to_numpy(float))
        tasks.append(key[0])
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


def _by_its_name(name: str) -> Candidate:
    """What a name alone says of a candidate; no file is read."""
    base, _, tail = name.rpartition("+")
    kind: Kind = "strategy"
    if name == "bm25" or is_bm25_name(name):
        return Candidate(name, "", "words")
    if "fuse=bm25" in tail:
        kind = "fusion"
    elif re.fullmatch(r"none(@\d+k?)?", tail) or not base:
        kind = "base"
    return Candidate(name, base or name, kind)


def by_split(scores: pd.DataFrame) -> pd.DataFrame:
    """The score of each candidate on each split, in percent, with its interval."""
    rows = []
    for (name, task, split), part in scores.groupby(["candidate", "task", "split"], sort=False):
        interval = mean_interval(part["score"].to_numpy(float)).scaled(100)
        row = {"candidate": name, "task": task, "split": split}
        rows.append({**row, "score": interval.mean, "low": interval.low, "high": interval.high})
    return pd.DataFrame(rows)


def expected(scores: pd.DataFrame, names: Sequence[str]) -> tuple[float, tuple[str, str]] | None:
    """The score to expect of the winner on new queries, and the names that both halves of the queries choose.

    One half of the queries chooses, the other half scores. The highest of many scores is too high: part of it is luck
    on the very queries that chose it. None if there are fewer than `LEAST_QUERIES` queries.
    """
    if len(scores) // scores["candidate"].nunique() < LEAST_QUERIES:
        return None
    halves = scores.groupby(["candidate", "task", "split"])["query"].transform(_halves)
    means = [resamples_of(scores[halves == half], names).means for half in (0, 1)]
    first = max(means[0], key=means[0].__getitem__)
    second = max(means[1], key=means[1].__getitem__)
    return 50 * (means[1][first] + means[0][second]), (first, second)


def _halves(queries: pd.Series) -> pd.Series:
    """0 or 1 for each query, in turns by its hash: neighbouring ids may be of one kind or of one document."""
    hashes = [hashlib.sha256(query.encode("utf-8", "replace")).hexdigest() for query in queries]
    half = np.empty(len(hashes), dtype=int)
    half[np.argsort(hashes)] = np.arange(len(hashes)) % 2
    return pd.Series(half, index=queries.index)


def query_differences(
    cache: Cache,
    splits: Sequence[Split],
    candidates: Mapping[str, Candidate],
    scores: pd.DataFrame,
    best: str,
    others: Sequence[str],
    *,
    windows: bool,
) -> pd.DataFrame:
    """The queries on which the best candidate differs most from each of some others, the largest differences first.

    Args:
        cache: where rankings are.
        splits: the data.
        candidates: by their ids.
        scores: one row for each query of each candidate.
        best: the id of the best.
        others: the ids of the others.
        windows: whether passages are shown, where they are judged.
    """
    keys = ["task", "split", "query"]
    by_key = {split.key: split for split in splits}

    @lru_cache
    def found_by(name: str, split: Split) -> _Found:
        meta = candidates[name].meta
        passages = None
        if split.passages and windows:
            passages = cache.find_passages(meta, split, windows=windows)
        return _Found(split, cache.ranking(meta, split) or {}, passages or {})

    rows = []
    for other in others:
        both = scores[scores["candidate"] == best].merge(
            scores[scores["candidate"] == other], on=keys, suffixes=("", "_there")
        )
        both["points"] = 100 * (both["score"] - both["score_there"])
        both = both[both["points"] != 0]
        largest = both["points"].abs().sort_values(ascending=False, kind="stable").index[:N_SHOWN]
        for row in both.loc[largest].itertuples():
            split = by_key[str(row.task), str(row.split)]
            query = str(row.query)
            text = _one_line(split.queries[query])
            if len(text) > _SHOWN:
                text = f"{text[: _SHOWN - 1]}…"
            here = found_by(best, split).for_query(query)
            there = found_by(other, split).for_query(query)
            about = {"other": other, "task": row.task, "split": row.split, "query": query, "text": text}
            rows.append(
                {**about, "points": row.points, **here, **{f"{key}_there": there[key] for key in there}}
            )
    return pd.DataFrame(rows)


@dataclass(frozen=True, eq=False)
class _Found:
    """What a candidate found on a split: its ranking, and the passages that it shows."""

    split: Split
    ranking: Ranking
    passages: ShownPassages

    def for_query(self, query: str) -> dict[str, Any]:
        """The rank of the best relevant document, the first document, and its passage."""
        order = self.split.order(self.ranking, query)
        judged = self.split.judged[query]
        grades = sorted(judged, key=lambda document: -judged[document])
        relevant = [document for document in grades if judged[document] > 0] or grades
        rank = next((rank for rank, document in enumerate(order, start=1) if document in relevant), None)
        first = next(iter(order), None)
        passage, start, end = "", None, None
        for document, low, high, _ in self.passages.get(query, ()):
            if document == first:
                answers = self.split.passages.get(query, {}).get(document, ())
                passage, place = shortened(self.split.text(document), low, high, answers)
                start, end = place or (None, None)
        best = relevant[0]
        if rank is not None:
            best = order[rank - 1]
        return {
            "rank": rank,
            "relevant": best,
            "first": first,
            "passage": passage,
            "answer_start": start,
            "answer_end": end,
        }


def shortened(
    text: str, start: int, end: int, answers: Sequence[tuple[int, int]]
) -> tuple[str, tuple[int, int] | None]:
    """A passage of a text, at most `_PASSAGE` characters around the answer in it, and the place of this answer."""
    inside = [(start, start), *((max(start, first), min(end, last)) for first, last in answers)]
    first, last = max(inside, key=lambda span: span[1] - span[0])
    low = max(start, min(first - max(_PASSAGE - (last - first), 0) // 2, end - _PASSAGE))
    high = min(end, low + _PASSAGE)
    last = min(last, high)
    head = _one_line(text[low:first])
    answer = _one_line(text[first:last])
    tail = _one_line(text[last:high])
    if low > start:
        head = f"…{head}"
    if high < end:
        tail = f"{tail}…"
    place = None
    if answer:
        place = (len(head), len(head) + len(answer))
    return f"{head}{answer}{tail}", place


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def is_number(value: object) -> bool:
    """Whether a cell of a frame has a finite number."""
    return isinstance(value, (int, float)) and math.isfinite(value)
