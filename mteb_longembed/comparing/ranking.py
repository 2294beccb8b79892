"""From scores by query to ranked rows, and from these, by a fixed rule, to the sentences of a recommendation."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mteb_longembed.comparing.candidates import BM25, Candidate
from mteb_longembed.comparing.costs import ENOUGH, Cost
from mteb_longembed.statistics.bootstrap import (
    adjust,
    difference_interval,
    mean_interval,
    mean_of_means_interval,
    randomisation_test,
)
from mteb_longembed.statistics.intervals import Interval

#: (task, split) -> query id -> score from 0 to 1.
Scores = Mapping[tuple[str, str], Mapping[str, float]]
#: With fewer queries, half of them say too little.
LEAST_QUERIES = 40


@dataclass(frozen=True)
class Row:
    """One candidate's row."""

    candidate: Candidate
    score: Interval  # in percent; the mean over splits is taken first, then the mean over tasks
    #: paired difference to its base, in points; None for a base, and if there is no base.
    gain: Interval | None
    p_value: float | None  # p-value of that difference, adjusted for the number of candidates
    #: paired difference to the best that may be recommended, in points; None for the best.
    loss: Interval | None
    cost: Cost
    #: score in percent by task and split, with its interval.
    by_split: Mapping[tuple[str, str], Interval] = field(default_factory=dict)
    #: the other metrics in percent, with their intervals.
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
        return 0.0 if self.is_bm25 else self.cost.bytes


def recommendable(candidates: Sequence[Candidate], *, proxy: bool) -> list[Candidate]:
    """The candidates that may be the best: with drawn queries none that matches words, if another one finished."""
    return [c for c in candidates if not (proxy and c.matches_words)] or list(candidates)


def rank(
    scores: Mapping[Candidate, Scores],
    costs: Mapping[Candidate, Cost],
    *,
    others: Mapping[Candidate, Mapping[tuple[str, str], Mapping[str, Mapping[str, float]]]] | None = None,
    proxy: bool = False,
) -> list[Row]:
    """The candidates, the best first. All must have answered the same queries.

    All splits of a task have the same weight, and all tasks have the same weight.
    With `proxy` the queries were drawn from the documents. That helps candidates that match words, so none of them is
    the best. `others` has the scores of each metric, the ranking one first.
    """
    groups = {candidate: _groups(by_split) for candidate, by_split in scores.items()}
    weights = _weights(next(iter(scores.values())))
    means = {candidate: mean_of_means_interval(arrays, weights) for candidate, arrays in groups.items()}
    ranked = sorted(groups, key=lambda candidate: -means[candidate].mean)
    best = recommendable(ranked, proxy=proxy)[0]
    bases = {candidate.base: candidate for candidate in ranked if candidate.is_base}
    compared = [c for c in ranked if bases.get(c.base, c) is not c]
    tests = [randomisation_test(groups[bases[c.base]], groups[c], weights) for c in compared]
    p_values = dict(zip(compared, adjust(tests), strict=True))

    def difference(first: Candidate | None, second: Candidate) -> Interval | None:
        if first is None or first is second:
            return None
        return difference_interval(groups[first], groups[second], weights).scaled(100)

    return [
        Row(
            candidate,
            score=means[candidate].scaled(100),
            gain=difference(bases.get(candidate.base), candidate),
            p_value=p_values.get(candidate),
            loss=difference(best, candidate),
            cost=costs[candidate],
            by_split={
                key: mean_interval(list(by_query.values())).scaled(100)
                for key, by_query in scores[candidate].items()
            },
            others=_others((others or {}).get(candidate, {}), weights),
        )
        for candidate in ranked
    ]


@dataclass(frozen=True)
class Expected:
    """The score to expect of the winner on new queries: one half of the queries chooses, the other half scores."""

    score: float  # in percent, the mean of both ways
    choices: tuple[str, str]  # the name that each half chooses


def expected(scores: Mapping[Candidate, Scores]) -> Expected | None:
    """The score to expect; None if there are fewer than `LEAST_QUERIES` queries.

    The highest of many scores is too high: part of it is luck on the very queries that chose it.
    """
    some = next(iter(scores.values()))
    if sum(map(len, some.values())) < LEAST_QUERIES:
        return None
    subsets: list[dict[tuple[str, str], list[str]]] = [{}, {}]
    for key, by_query in some.items():
        # by a hash, because neighbouring ids may be of one kind or of one document
        drawn = sorted(by_query, key=lambda query: hashlib.sha256(query.encode("utf-8", "replace")).digest())
        for subset, queries in zip(subsets, (drawn[::2], drawn[1::2]), strict=True):
            if queries:
                subset[key] = queries
    means = [
        {
            candidate: sum(
                weight * float(np.mean([by_split[key][query] for query in subset[key]]))
                for weight, key in zip(_weights(subset), sorted(subset), strict=True)
            )
            for candidate, by_split in scores.items()
        }
        for subset in subsets
    ]
    chosen = [max(mean, key=mean.__getitem__) for mean in means]
    score = (means[1][chosen[0]] + means[0][chosen[1]]) / 2
    return Expected(100 * score, (chosen[0].name, chosen[1].name))


def _others(
    scores: Mapping[tuple[str, str], Mapping[str, Mapping[str, float]]], weights: list[float]
) -> dict[str, Interval]:
    names = list(next(iter(scores.values()), {}))[1:]
    by_name = {name: {key: by_metric[name] for key, by_metric in scores.items()} for name in names}
    return {name: mean_of_means_interval(_groups(by), weights).scaled(100) for name, by in by_name.items()}


def _groups(scores: Scores) -> list[NDArray[np.float64]]:
    """One array for each split, with sorted queries."""
    return [np.array([scores[key][query] for query in sorted(scores[key])]) for key in sorted(scores)]


def _weights(keys: Iterable[tuple[str, str]]) -> list[float]:
    """The weight of each split in the mean: all tasks weigh the same, and all splits of a task."""
    tasks = [task for task, _ in sorted(keys)]
    return [1 / len(set(tasks)) / tasks.count(task) for task in tasks]


#: A cheaper candidate may lose at most this many points, at the lower end of its interval.
MAX_LOSS = 2.0


@dataclass(frozen=True)
class Recommendation:
    """The recommendation."""

    verdict: str  # `better`, `nothing better` or `undecided`
    best: str  # name of the candidate with the highest score
    #: name of the fastest candidate that loses less than `MAX_LOSS` points to the best; the best itself if none is
    #: surely faster.
    cheapest: str
    smallest: str  # the same for the bytes of its vectors
    #: the score to expect of the best on new queries, None with fewer than `LEAST_QUERIES` queries.
    expected: Expected | None
    sentences: tuple[str, ...]  # for people


def recommend(
    rows: Sequence[Row],
    tasks: Sequence[str],
    n_queries: int,
    expected: Expected | None = None,
    *,
    proxy: bool = False,
    corpus: str | None = None,
    untried: str = "",
) -> Recommendation:
    """Choose with a fixed rule.

    The best candidate has the highest score. It is better than the base if the 95 % interval of the paired difference
    to the base is above 0. If it is not better and is neither a base nor BM25, the result is `undecided`. Cheaper are
    candidates whose paired difference to the best has a lower end above -`MAX_LOSS` points: the fastest of them
    whose rounds were all faster than those of the best, and the one with the smallest vectors. `untried` says how many
    candidates the budget left out.
    """
    allowed = recommendable([row.candidate for row in rows], proxy=proxy)
    best, *others = [row for row in rows if row.candidate in allowed]
    near = [row for row in others if row.loss is None or row.loss.low > -MAX_LOSS]
    faster = [row for row in near if row.is_bm25 or row.cost.is_faster_than(best.cost)]
    smaller = [row for row in near if row.size is not None and best.size is not None and row.size < best.size]
    fastest = max(faster, key=lambda row: (row.is_bm25, row.cost.tokens_per_second or 0.0), default=best)
    smallest = min(smaller, key=lambda row: row.size or 0.0, default=best)
    verdict, first = _verdict(best, f"{n_queries:,} {'query' if n_queries == 1 else 'queries'}")
    if untried:
        first += f" {untried} were not tried: --budget was too short."
    if expected is not None and len(set(expected.choices)) > 1:
        first += " But half of the queries choose {}, the other half {}.".format(*expected.choices)
    sentences = [
        first,
        f"The score to expect on new queries cannot be said: it needs {LEAST_QUERIES} queries."
        if expected is None
        else f"On new queries expect {expected.score:.1f}: one half of the queries chose, the other half scored.",
        *_cheaper(best, fastest, smallest),
    ]
    for row in rows:
        if row.is_bm25 and not proxy and row.loss is not None:
            sentences.append(
                f"BM25, which needs no vectors, scores {row.score.mean:.1f}: {_against(row.loss)} the best."
            )
    sentences += _longer_target(rows, next((row for row in [best, *others] if not row.is_bm25), best))
    if proxy:
        sentences.append(
            "The queries are sentences drawn from the documents: a proxy for real queries, which helps methods that "
            "match words, so nothing is recommended about BM25."
        )
    sentences.append(_next(fastest, tasks, corpus))
    return Recommendation(verdict, best.name, fastest.name, smallest.name, expected, tuple(sentences))


def _longer_target(rows: Sequence[Row], model: Row) -> list[str]:
    """That a longer target reads more, if no candidate of this base reads enough."""
    same_base = [row for row in rows if row.candidate.base == model.candidate.base]
    if any(row.cost.share_read >= ENOUGH and not row.candidate.chunks_of for row in same_base):
        return []
    enough = model.cost.enough_len
    if enough <= max(row.candidate.target_len or 0 for row in same_base):
        return []
    target = f"{enough // 1024}k" if enough >= 1024 else enough
    return [
        f"{model.name} reads {model.cost.share_read:.0%} of the text: raise --target to {target} to read {ENOUGH:.0%} "
        "or more."
    ]


def _verdict(best: Row, queries: str) -> tuple[str, str]:
    score = f"{best.score.mean:.1f}"
    if best.candidate.is_base or best.is_bm25:
        return "nothing better", f"Nothing beats {best.name} on {queries} ({score})."
    if best.gain is None:
        return "undecided", (
            f"{best.name} has the highest score ({score}). Its base did not take part, so nothing is known about what "
            "it gains."
        )
    if best.gain.low > 0:
        return "better", (
            f"{best.name} is best with {score}, {best.gain.mean:+.1f} points against its base "
            f"({best.gain.low:+.1f} to {best.gain.high:+.1f} on {queries})."
        )
    return "undecided", (
        f"Undecided: {best.name} has the highest score ({score}), but {queries} cannot show that it is better than "
        "its base."
    )


def _cheaper(best: Row, fastest: Row, smallest: Row) -> list[str]:
    """What is faster, and what has smaller vectors, without losing much."""
    limit = f"and loses less than {MAX_LOSS:g} points (95 % interval)."
    sentences = []
    if fastest is not best:
        sentences.append(f"{fastest.name} is faster ({_speed(fastest)} against {_speed(best)}) {limit}")
    if smallest is not best and not smallest.is_bm25:
        sentences.append(
            f"{smallest.name} has smaller vectors ({(smallest.size or 0) / 1024:,.1f} KB a document against "
            f"{(best.size or 0) / 1024:,.1f} KB) {limit}"
        )
    return sentences or [f"Nothing faster or smaller is certain to stay within {MAX_LOSS:g} points of it."]


def _against(loss: Interval) -> str:
    ends = f" ({loss.low:+.1f} to {loss.high:+.1f})" if loss.is_known else ""
    same = not (loss.low > 0 or loss.high < 0)  # also with one query, which has no interval
    return f"{loss.mean:+.1f} points{ends}{', so these queries cannot tell it from' if same else ' against'}"


def _speed(row: Row) -> str:
    rate = row.cost.tokens_per_second
    return "no encoding" if rate is None else f"{rate:,.0f} tokens a second"


def _next(row: Row, tasks: Sequence[str], corpus: str | None) -> str:
    if row.candidate.chunks_of:
        return f'Type next: mteb_longembed.search("{row.candidate.chunks_of}", chunker=...) in Python.'
    if corpus is not None:
        return f'Type next: mteb-longembed search {row.name} --corpus {shlex.quote(corpus)} "YOUR QUESTION".'
    run = f"mteb run -m {row.name} -t {' '.join(tasks)}"
    # with search parameters it is a search and not a model
    call = "search" if any(key in row.name for key in ("center=", "fuse=")) else "load"
    python = "" if row.is_bm25 else f'mteb_longembed.{call}("{row.name}") in Python, or '
    return f"Type next: {python}{run}."
