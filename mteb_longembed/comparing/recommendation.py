"""The recommendation: a few sentences, from a fixed rule on paired differences."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from mteb_longembed.comparing.costs import ENOUGH
from mteb_longembed.comparing.ranking import LEAST_QUERIES, Expected, Row
from mteb_longembed.statistics.intervals import Interval

#: A cheaper candidate may lose at most this many points, at the lower end of its interval.
LOSS = 2.0


@dataclass(frozen=True)
class Recommendation:
    """The recommendation."""

    verdict: str  # `better`, `nothing better` or `undecided`
    best: str  # name of the candidate with the highest score
    #: name of the fastest candidate that loses less than `LOSS` points to the best; the best itself if none is surely
    #: faster.
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
) -> Recommendation:
    """Choose with a fixed rule.

    The best candidate has the highest score. It is better than the base if the 95 % interval of the paired difference
    to the base is above 0. If it is not better and is not a base itself, the result is `undecided`. Cheaper are
    candidates whose paired difference to the best has a lower end above -2 points: the fastest of them whose rounds
    were all faster than those of the best, and the one with the smallest vectors.
    """
    able = [row for row in rows if not (proxy and row.candidate.matches_words)]
    best = able[0]
    near = [row for row in able[1:] if row.loss is None or row.loss.low > -LOSS]
    faster = [row for row in near if row.is_bm25 or row.cost.is_faster_than(best.cost)]
    smaller = [row for row in near if row.size is not None and best.size is not None and row.size < best.size]
    fastest = max(faster, key=lambda row: (row.is_bm25, row.cost.tokens_per_second or 0.0), default=best)
    smallest = min(smaller, key=lambda row: row.size or 0.0, default=best)
    verdict, first = _verdict(best, f"{n_queries:,} {'query' if n_queries == 1 else 'queries'}")
    if expected is not None and len(set(expected.choices)) > 1:
        first += (
            f" But half of the queries choose {expected.choices[0]}, the other half {expected.choices[1]}."
        )
    sentences = [
        first,
        f"The score to expect on new queries cannot be said: it needs {LEAST_QUERIES} queries."
        if expected is None
        else f"On new queries expect {expected.score:.1f}: one half of the queries chose, the other half scored.",
        *_cheaper(best, fastest, smallest),
    ]
    for row in rows:
        if row.is_bm25 and row is not best and not proxy and row.loss is not None:
            sentences.append(
                f"BM25, which needs no vectors, scores {row.score.mean:.1f}: {_against(row.loss)} the best."
            )
    longest = max(
        (r.candidate.target_len or 0 for r in rows if r.candidate.base == best.candidate.base), default=0
    )
    if best.cost.share_read < ENOUGH and best.cost.enough_len > longest:
        sentences.append(
            f"{best.name} reads {best.cost.share_read:.0%} of the text: raise --target to "
            f"{_length(best.cost.enough_len)} to read {ENOUGH:.0%} or more."
        )
    if proxy:
        sentences.append(
            "The queries are sentences drawn from the documents: a proxy for real queries, which helps methods that "
            "match words, so nothing is recommended about BM25."
        )
    sentences.append(_next(fastest, tasks, corpus))
    return Recommendation(verdict, best.name, fastest.name, smallest.name, expected, tuple(sentences))


def _verdict(best: Row, questions: str) -> tuple[str, str]:
    score = f"{best.score.mean:.1f}"
    if best.is_base or best.is_bm25:
        return "nothing better", f"Nothing beats {best.name} on these {questions} ({score})."
    if best.gain is None:
        return "undecided", (
            f"{best.name} has the highest score ({score}). Its base did not take part, so nothing is known about what "
            "it gains."
        )
    if best.gain.is_known and best.gain.low > 0:
        return "better", (
            f"{best.name} is best with {score}, {best.gain.mean:+.1f} points against its base "
            f"({best.gain.low:+.1f} to {best.gain.high:+.1f} on {questions})."
        )
    return "undecided", (
        f"Undecided: {best.name} has the highest score ({score}), but {questions} cannot show that it is better than "
        "its base."
    )


def _cheaper(best: Row, fastest: Row, smallest: Row) -> list[str]:
    """What is faster, and what has smaller vectors, without losing much."""
    limit = f"and loses less than {LOSS:g} points (95 % interval)."
    found = []
    if fastest is not best:
        found.append(f"{fastest.name} is faster ({_speed(fastest)} against {_speed(best)}) {limit}")
    if smallest is not best and not smallest.is_bm25:
        found.append(
            f"{smallest.name} has smaller vectors ({(smallest.size or 0) / 1024:,.1f} KB a document against "
            f"{(best.size or 0) / 1024:,.1f} KB) {limit}"
        )
    return found or [f"Nothing faster or smaller is certain to stay within {LOSS:g} points of it."]


def _against(loss: Interval) -> str:
    if not loss.is_known:
        return f"{loss.mean:+.1f} points against"
    ends = f"{loss.low:+.1f} to {loss.high:+.1f}"
    if loss.low <= 0 <= loss.high:
        return f"{loss.mean:+.1f} points ({ends}), so these queries cannot tell it from"
    return f"{loss.mean:+.1f} points ({ends}) against"


def _length(tokens: int) -> str:
    return f"{tokens // 1024}k" if tokens >= 1024 else str(tokens)


def _speed(row: Row) -> str:
    return (
        "no encoding"
        if row.cost.tokens_per_second is None
        else f"{row.cost.tokens_per_second:,.0f} tokens a second"
    )


def _next(row: Row, tasks: Sequence[str], corpus: str | None) -> str:
    if corpus is not None:
        return f'Type next: mteb-longembed search {row.name} --corpus {shlex.quote(corpus)} "YOUR QUESTION".'
    run = f"mteb run -m {row.name} -t {' '.join(tasks)}"
    if row.is_bm25:
        return f"Type next: {run}."
    return (
        f'Type next: mteb_longembed.{"search" if row.searches else "load"}("{row.name}") in Python, or {run}.'
    )
