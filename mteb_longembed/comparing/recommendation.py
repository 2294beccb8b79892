"""From ranked rows to sentences for people: what to use and type, how sure that is, what it costs, and what else."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mteb_longembed.comparing.table import percent
from mteb_longembed.statistics.intervals import Interval

from .costs import ENOUGH
from .ranking import LEAST_QUERIES, LEAST_TO_CLAIM, MARGIN, Expected, Row

#: More than this many times the present queries are called many.
MANY = 10
#: This many equals of a leader are named.
_NAMED = 3

#: `winner`: one is surely first, or the only one. `equivalent`: a cheaper one is equal enough. `undecided`: the queries
#: do not tell the first ones apart. `nothing`: too few queries for any claim.
Verdict = Literal["winner", "equivalent", "undecided", "nothing"]


@dataclass(frozen=True)
class Recommendation:
    """What to do.

    Args:
        verdict: how the choice was made.
        best: the name of the candidate with the highest score.
        recommended: the name of the one to use.
        equals: names of those that the queries cannot tell from the best.
        out: names of those that are surely behind.
        typed: the command, or the line of Python, to type next; empty if there is nothing to use.
        use: what to use.
        certainty: how sure that is, and why.
        price: what it costs.
        notes: what else there is to say.
        expected: the score of the best to expect on new queries, None with fewer than `LEAST_QUERIES` queries.
    """

    verdict: Verdict
    best: str
    recommended: str
    equals: tuple[str, ...]
    out: tuple[str, ...]
    typed: str
    use: str
    certainty: str
    price: str
    notes: tuple[str, ...] = ()
    expected: Expected | None = None

    @property
    def answer(self) -> tuple[str, str, str]:
        """The three lines that come first."""
        use = self.use
        if self.typed:
            use = f"{use} Type: {self.typed}"
        return use, self.certainty, self.price


@dataclass(frozen=True)
class Setting:
    """What a comparison ran on, as far as sentences need it.

    Args:
        tasks: names of the tasks.
        n_queries: queries that all candidates answered.
        corpus: the file of one's own documents, None with tasks of mteb.
        language: of one's own documents, None for English.
        synthetic_queries: whether the queries are sentences of the documents.
        n_untried: how many candidates the budget left out.
        n_asked: how many candidates there were.
    """

    tasks: Sequence[str]
    n_queries: int
    corpus: str | None = None
    language: str | None = None
    synthetic_queries: bool = False
    n_untried: int = 0
    n_asked: int = 0

    @property
    def queries(self) -> str:
        """The number of queries in words."""
        if self.n_queries == 1:
            return "1 query"
        return f"{self.n_queries:,} queries"


@dataclass(frozen=True)
class Shortfall:
    """That the models read too little of the text, and could read more.

    Args:
        row: the model that is meant.
        target: the value of `--target` with which it reads `ENOUGH`.
    """

    row: Row
    target: str

    @property
    def words(self) -> str:
        """Such as `reads 4 % of the text: raise --target to 32k to read 90 % or more`."""
        share = percent(self.row.cost.share_read)
        return f"reads {share} of the text: raise --target to {self.target} to read {percent(ENOUGH)} or more"


def recommend(rows: Sequence[Row], setting: Setting, expected: Expected | None = None) -> Recommendation:
    """Choose by a fixed rule.

    The leader has the highest score. A candidate that is equal enough to it (two one-sided tests within `MARGIN`
    points) and cheaper is recommended in its place, the fastest first. Otherwise it is the leader, which is called a
    winner only if it surely is one.

    Args:
        rows: the candidates, the best first, as `rank` makes them.
        setting: what they ran on.
        expected: the score to expect, as `expect` makes it.
    """
    chosen = [row for row in rows if row.standing != "apart"]
    best, *others = chosen
    equals = [row for row in others if row.standing == "equal"]
    out = [row for row in others if row.standing == "out"]
    cheaper = cheapest([row for row in others if row.is_equivalent], best)
    recommended = best
    verdict: Verdict = "undecided"
    if setting.n_queries < LEAST_TO_CLAIM:
        verdict = "nothing"
    elif cheaper is not None:
        verdict = "equivalent"
        recommended = cheaper
    elif best.standing == "winner" or not others:
        verdict = "winner"
    shortfall = reading_shortfall(rows, recommended)
    return Recommendation(
        verdict=verdict,
        best=best.name,
        recommended=recommended.name,
        equals=tuple(row.name for row in equals),
        out=tuple(row.name for row in out),
        typed="" if verdict == "nothing" else type_next(recommended, setting),
        use=_use(verdict, recommended, best, shortfall),
        certainty=_certainty(verdict, recommended, best, others, setting),
        price=_price(recommended, rows, shortfall),
        notes=tuple(_notes(rows, best, setting, expected)),
        expected=expected,
    )


def cheapest(rows: Sequence[Row], best: Row) -> Row | None:
    """The cheapest of some candidates; None if none is cheaper than the best.

    BM25 is cheaper than all others. So is what is surely faster without larger vectors, and what has smaller vectors
    and is not surely slower. The fastest comes first.
    """
    faster = []
    smaller = []
    for row in rows:
        if row.is_bm25:
            return row
        if row.size is None or best.size is None or best.is_bm25:
            continue
        if row.cost.is_faster_than(best.cost) and row.size <= best.size:
            faster.append(row)
        elif row.size < best.size and not best.cost.is_faster_than(row.cost):
            smaller.append(row)
    if faster:
        return max(faster, key=lambda row: row.cost.tokens_per_second or 0.0)
    return min(smaller, key=lambda row: row.size or 0.0, default=None)


def _use(verdict: Verdict, row: Row, best: Row, shortfall: Shortfall | None) -> str:
    if verdict == "nothing":
        return "Nothing can be said yet."
    if verdict == "winner" and row.is_bm25 and shortfall is not None:
        return f"Use {row.label} for now: the models have read too little of the text to be judged."
    if verdict == "equivalent":
        return f"Use {row.label}: it is as good as {best.label} within {MARGIN:g} points, and cheaper."
    if verdict == "winner" and row.candidate.is_base:
        return f"Stay with {row.label}: nothing that was tried is better."
    if verdict == "winner":
        return f"Use {row.label}."
    if row.candidate.is_base:
        return f"Stay with {row.label} for now: nothing that was tried is surely better."
    return f"Use {row.label} for now: it scores highest, but these queries do not decide."


def _certainty(verdict: Verdict, row: Row, best: Row, others: Sequence[Row], setting: Setting) -> str:
    if verdict == "nothing":
        return f"{setting.queries} cannot decide anything: judge {LEAST_QUERIES} or more, and compare again."
    if verdict == "equivalent" and row.diff_to_best is not None and row.equivalence is not None:
        low, high = row.equivalence.low, row.equivalence.high
        return (
            f"{row.label} has {row.score.mean:.1f}, {best.label} {best.score.mean:.1f}: the difference of "
            f"{row.diff_to_best.mean:+.1f} points on {setting.queries} lies within {MARGIN:g} points by two one-sided "
            f"tests at 5 % (90 % interval {low:+.1f} to {high:+.1f})."
        )
    if not others:
        return f"It is the only one that finished, with {best.score.mean:.1f} on {setting.queries}."
    if verdict == "winner":
        return _why_it_wins(best, others, setting)
    return _why_it_is_undecided(best, others, setting)


def _why_it_wins(best: Row, others: Sequence[Row], setting: Setting) -> str:
    second = others[0]
    reasons = []
    if second.diff_to_best is not None:
        reasons.append(f"{_above(_turned(second.diff_to_best))} above {second.label}")
    if best.diff_to_base is not None and best.diff_to_base.low > 0 and not second.candidate.is_base:
        reasons.append(f"{_above(best.diff_to_base)} above its base")
    return (
        f"It scores {best.score.mean:.1f} on {setting.queries} and is first in {percent(best.first_share)} of their "
        f"resamples: {_listed(reasons)}."
    )


def _why_it_is_undecided(best: Row, others: Sequence[Row], setting: Setting) -> str:
    equals = sorted(
        (row for row in others if row.standing == "equal"), key=lambda row: (-row.first_share, row.label)
    )
    shown = equals[:_NAMED]
    names = [row.label for row in shown]
    shares = [percent(row.first_share) for row in [best, *shown]]
    if len(equals) > len(shown):
        names.append(f"{len(equals) - len(shown)} more")
    n_more = max(row.more_queries for row in equals)
    leads = "leads"
    if any(row.score.mean == best.score.mean for row in equals):
        leads = "scores highest, though not alone"
    return (
        f"{best.label} {leads} ({best.score.mean:.1f}), {_listed(names)} cannot be told from it on {setting.queries} "
        f"(first in {_listed(shares)} of resamples); {_more(n_more, setting.n_queries)}."
    )


def _more(n_more: float, n_queries: int) -> str:
    """How many more queries would tell two candidates apart: to fives up to 99, to fifties up to 999, and so on."""
    if math.isinf(n_more) or n_more > MANY * n_queries:
        return "it would take many more queries like these"
    step = 5
    while step * 20 <= n_more:
        step *= 10
    rounded = max(math.ceil(n_more / step) * step, step)
    return f"about {rounded:,} more queries like these would"


def _price(row: Row, rows: Sequence[Row], shortfall: Shortfall | None) -> str:
    """What a candidate costs, beside its base if that took part, and what it or the models leave unread."""
    if row.is_bm25:
        sentence = "It encodes nothing and keeps no vectors; its index holds the words"
        if shortfall is None:
            return f"{sentence}."
        return f"{sentence} of whole documents, while {shortfall.row.label} {shortfall.words}."
    parts = []
    if row.cost.tokens_per_second is not None:
        base = next((other for other in rows if _is_base_of(other, row)), None)
        beside = ""
        if base is not None and base.cost.tokens_per_second:
            beside = f" ({base.label}: {base.cost.tokens_per_second:,.0f})"
        parts.append(f"encodes {row.cost.tokens_per_second:,.0f} tokens a second{beside}")
    if row.cost.vectors is not None and row.cost.bytes is not None:
        size = f"{row.cost.bytes / 1024:,.1f} KB a document"
        if row.cost.vectors == 1:
            parts.append(f"keeps 1 vector of {size}")
        else:
            parts.append(f"keeps {row.cost.vectors:,.1f} vectors of together {size}")
    if shortfall is None:
        parts.append(f"reads {percent(row.cost.share_read)} of the text")
    else:
        parts.append(shortfall.words)
    return f"It {_listed(parts)}."


def _is_base_of(other: Row, row: Row) -> bool:
    return other.candidate.is_base and other.candidate.base == row.candidate.base and other is not row


def _notes(rows: Sequence[Row], best: Row, setting: Setting, expected: Expected | None) -> list[str]:
    labels = {row.name: row.label for row in rows}
    notes = []
    if setting.n_untried:
        notes.append(
            f"{setting.n_untried} of {setting.n_asked} candidates were not tried: --budget was too short."
        )
    if setting.synthetic_queries:
        notes.append(
            "The queries are sentences drawn from the documents. They stand in for real queries and help methods that "
            "match words, so nothing is recommended about BM25."
        )
    if expected is None:
        notes.append(f"The score to expect on new queries cannot be said: it needs {LEAST_QUERIES} queries.")
    else:
        notes.append(
            f"On new queries expect {expected.score:.1f}: one half of the queries chose, the other half scored."
        )
        first, second = expected.choices
        if first != second:
            notes.append(f"Half of the queries choose {labels[first]}, the other half {labels[second]}.")
    if setting.n_queries >= LEAST_TO_CLAIM:
        for row in rows:
            if row.is_bm25 and row.standing != "apart" and row is not best and row.diff_to_best is not None:
                notes.append(_about_bm25(row, best))
    return notes


def _about_bm25(row: Row, best: Row) -> str:
    assert row.diff_to_best is not None
    sentence = f"BM25, which needs no vectors, scores {row.score.mean:.1f}: {_points(row.diff_to_best)}"
    if row.standing == "equal":
        return f"{sentence}, so these queries cannot tell it from {best.label}."
    return f"{sentence} against {best.label}."


def reading_shortfall(rows: Sequence[Row], recommended: Row) -> Shortfall | None:
    """What the recommended model leaves unread, or the best model beside BM25.

    None if a candidate of the same base reads enough, or has a target that would do.
    """
    models = [row for row in (recommended, *rows) if not row.is_bm25]
    if not models:
        return None
    model = models[0]
    if model.cost.share_read >= ENOUGH:
        return None
    # chunks of one's own read a document without any target, so they say nothing of the others
    same_base = [row for row in rows if row.candidate.base == model.candidate.base]
    if any(row.cost.share_read >= ENOUGH and not row.candidate.chunks_of for row in same_base):
        return None
    enough = model.cost.enough_len
    if enough <= max(row.candidate.target_len or 0 for row in same_base):
        return None
    if enough >= 1024:  # a power of two
        return Shortfall(model, f"{enough // 1024}k")
    return Shortfall(model, str(enough))


def type_next(row: Row, setting: Setting) -> str:
    """A command, or a line of Python, that uses a candidate and has its full name.

    A name with search parameters is a search and not a model; a model of mteb's own is not ours to load.
    """
    candidate = row.candidate
    in_python = json.dumps(row.name, ensure_ascii=False)
    if candidate.chunks_of:
        in_python = json.dumps(candidate.chunks_of, ensure_ascii=False)
        return f"mteb_longembed.search({in_python}, chunker={candidate.chunker})"
    if setting.corpus is not None:
        words = ["mteb-longembed", "search", row.name, "--corpus", setting.corpus]
        if setting.language is not None:
            words += ["--language", setting.language]
        return f'{shlex.join(words)} "YOUR QUESTION"'
    if candidate.is_mtebs:
        return f"mteb run -m {shlex.quote(row.name)} -t {' '.join(map(shlex.quote, setting.tasks))}"
    if candidate.is_search:
        return f"mteb_longembed.search({in_python})"
    return f"mteb_longembed.load({in_python})"


def _points(interval: Interval) -> str:
    if not interval.is_known:
        return f"{interval.mean:+.1f} points"
    return f"{interval.mean:+.1f} points ({interval.low:+.1f} to {interval.high:+.1f})"


def _above(interval: Interval) -> str:
    return f"{interval.mean:.1f} points ({interval.low:.1f} to {interval.high:.1f})"


def _turned(interval: Interval) -> Interval:
    return Interval(-interval.mean, -interval.high, -interval.low)


def _listed(words: Sequence[str]) -> str:
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
