"""The recommendation: three sentences, from a fixed rule on paired differences."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from mteb_longembed.comparing.ranking import Row

#: A cheaper candidate may lose at most this many points, at the lower end of its interval.
LOSS = 2.0


@dataclass(frozen=True)
class Recommendation:
    """The recommendation.

    Args:
        verdict: `better`, `nothing better` or `undecided`.
        best: name of the candidate with the highest score.
        cheapest: name of the cheapest candidate that loses less than `LOSS` points to the best.
        sentences: three sentences for people.
    """

    verdict: str
    best: str
    cheapest: str
    sentences: tuple[str, ...]


def recommend(
    rows: Sequence[Row],
    tasks: Sequence[str],
    n_queries: int,
    *,
    proxy: bool = False,
    corpus: str | None = None,
) -> Recommendation:
    """Choose with a fixed rule.

    The best candidate has the highest score. It is better than the base if the 95 % interval of the paired difference
    to the base is above 0. If it is not better and is not a base itself, the result is `undecided`. To find the
    cheapest, we look at all candidates whose paired difference to the best has a lower end above -2 points, and take
    the one that encodes the most tokens per second.

    Args:
        rows: the candidates, the best first; at least one.
        tasks: names of the tasks, for the command to type next.
        n_queries: queries that all candidates answered.
        corpus: the file of the documents, if they are not those of a task that mteb knows.
        proxy: whether the queries were drawn from the documents. That helps BM25, so BM25 is then left out.
    """
    able = [row for row in rows if not (proxy and row.matches_words)]
    best = able[0]
    near = [row for row in able if row is best or row.loss is None or row.loss.low > -LOSS]
    cheapest = min(near, key=lambda row: (row.seconds_per_million is None, row.seconds_per_million or 0.0))
    questions = f"{n_queries:,} {'query' if n_queries == 1 else 'queries'}"
    if best.is_base or best.is_bm25:
        verdict, first = (
            "nothing better",
            f"Nothing beats {best.name} on these {questions} ({best.score.mean:.1f}).",
        )
    elif best.gain is not None and best.gain.is_known and best.gain.low > 0:
        verdict = "better"
        first = (
            f"{best.name} is best with {best.score.mean:.1f}, {best.gain.mean:+.1f} points against its base "
            f"({best.gain.low:+.1f} to {best.gain.high:+.1f} on {questions})."
        )
    elif best.gain is None:
        verdict = "undecided"
        first = (
            f"{best.name} has the highest score ({best.score.mean:.1f}). Its base did not take part, so nothing is "
            "known about what it gains."
        )
    else:
        verdict = "undecided"
        first = (
            f"Undecided: {best.name} has the highest score ({best.score.mean:.1f}), but {questions} cannot show "
            "that it is better than its base."
        )
    if cheapest is best:
        second = f"No cheaper candidate is certain to stay within {LOSS:g} points of it."
    else:
        second = (
            f"{cheapest.name} is cheaper ({_speed(cheapest)} against {_speed(best)}) and loses less than "
            f"{LOSS:g} points (95 % interval)."
        )
    return Recommendation(verdict, best.name, cheapest.name, (first, second, _next(cheapest, tasks, corpus)))


def _speed(row: Row) -> str:
    return "no encoding" if row.tokens_per_second is None else f"{row.tokens_per_second:,.0f} tokens a second"


def _next(row: Row, tasks: Sequence[str], corpus: str | None) -> str:
    if corpus is not None:
        return f'Type next: mteb-longembed search {row.name} --corpus {shlex.quote(corpus)} "YOUR QUESTION".'
    run = f"mteb run -m {row.name} -t {' '.join(tasks)}"
    if row.is_bm25:
        return f"Type next: {run}."
    return (
        f'Type next: mteb_longembed.{"search" if row.searches else "load"}("{row.name}") in Python, or {run}.'
    )
