"""What to do, in three sentences, by a fixed rule on paired differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mteb_longembed.comparing.ranking import Row

#: How many points a cheaper contender may lose at most, by the lower end of its interval.
LOSS = 2.0


@dataclass(frozen=True)
class Recommendation:
    """The answer.

    Args:
        verdict: `better`, `nothing better` or `undecided`.
        best: name of the contender with the highest score.
        cheapest: name of the cheapest contender that loses no more than `LOSS` points against it.
        sentences: three sentences for people.
    """

    verdict: str
    best: str
    cheapest: str
    sentences: tuple[str, ...]


def recommend(
    rows: Sequence[Row], tasks: Sequence[str], n_queries: int, *, proxy: bool = False
) -> Recommendation:
    """Choose by the rule.

    The best is the contender with the highest score. It is better than the base where the 95 % interval of its paired
    difference to the base lies above 0. The cheapest is, of all contenders whose paired difference to the best has a
    lower end above -2 points, the one that encodes the most tokens a second. Where no contender is better than the
    base and the base is not the best itself, the data cannot tell.

    Args:
        rows: ranked, the best first; at least one.
        tasks: what was run, for the command to type.
        n_queries: queries that all contenders answered.
        proxy: whether the queries were drawn from the documents, which favours BM25: it is left out then.
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
    else:
        verdict = "undecided"
        first = (
            f"Undecided: {questions} cannot tell {best.name}, the highest with {best.score.mean:.1f}, from its "
            "base."
        )
    if cheapest is best:
        second = f"No cheaper contender is sure to stay within {LOSS:g} points of it."
    else:
        second = (
            f"{cheapest.name} is cheaper ({_speed(cheapest)} against {_speed(best)}) and loses less than "
            f"{LOSS:g} points (95 % interval)."
        )
    return Recommendation(verdict, best.name, cheapest.name, (first, second, _next(cheapest, tasks)))


def _speed(row: Row) -> str:
    return "no encoding" if row.tokens_per_second is None else f"{row.tokens_per_second:,.0f} tokens a second"


def _next(row: Row, tasks: Sequence[str]) -> str:
    run = f"mteb run -m {row.name} -t {' '.join(tasks)}" if tasks else f"mteb run -m {row.name} -t YOUR_TASK"
    call = "search" if row.searches else "load"
    if row.is_bm25:
        return f"Type next: {run}."
    return f'Type next: mteb_longembed.{call}("{row.name}") in Python, or {run}.'
