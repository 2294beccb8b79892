"""Which candidate to use, in three lines: what to use and type, how sure that is, what it costs."""

import json
import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from .costs import CLEARLY
from .summary import (
    BEHIND,
    EXCLUDED,
    GOOD_ENOUGH,
    LEAST_QUERIES,
    LEAST_TO_CLAIM,
    MARGIN,
    WINNER,
    is_number,
)

#: More than this many times the present queries are called many; and at least so many more are said.
MANY = 10
LEAST_MORE = 5
#: This many of those that may be best are named.
_NAMED = 3
#: Smaller or faster by less than this is not said.
_LEAST_RATIO = 1.05

#: `winner`: one is surely best. `good enough`: the cheapest of those that are. `undecided`: these queries do not tell.
#: `only`: there is one candidate. `nothing`: too few queries for any claim.
Verdict = Literal["winner", "good enough", "undecided", "only", "nothing"]


@dataclass(frozen=True)
class Setting:
    """What a comparison ran on, as far as sentences need it.

    Args:
        tasks: names of the tasks that mteb knows.
        n_queries: queries that all candidates answered.
        corpus: the file of one's own documents, None with tasks of mteb.
        language: of one's own documents, None for English.
        synthetic_queries: whether the queries are sentences of the documents.
    """

    tasks: Sequence[str] = ()
    n_queries: int = LEAST_QUERIES
    corpus: str | None = None
    language: str | None = None
    synthetic_queries: bool = False

    @property
    def queries(self) -> str:
        """The number of queries in words."""
        if self.n_queries == 1:
            return "1 query"
        return f"{self.n_queries:,} queries"


@dataclass(frozen=True)
class Advice:
    """What to do.

    Args:
        verdict: how the choice was made.
        best: the id of the candidate with the highest score.
        recommended: the id of the one to use.
        typed: the command, or the line of Python, to type next; empty if there is nothing to use.
        use: what to use.
        certainty: how sure that is, and why.
        price: what it costs.
    """

    verdict: Verdict
    best: str
    recommended: str
    typed: str
    use: str
    certainty: str
    price: str

    @property
    def answer(self) -> tuple[str, str, str]:
        """The three lines that come first."""
        use = self.use
        if self.typed:
            use = f"{use} Type: {self.typed}"
        return use, self.certainty, self.price


def advise(summary: pd.DataFrame, setting: Setting | None = None) -> Advice:
    """Choose by a fixed rule: the cheapest of those that are good enough; if none is, the one with the highest score.

    Args:
        summary: as `summarise` makes it.
        setting: what the candidates ran on.
    """
    setting = setting or Setting()
    rows = [row for row in summary.itertuples() if row.standing != EXCLUDED]
    best = rows[0]
    good = [row for row in rows if row.standing in (WINNER, GOOD_ENOUGH)]
    recommended = best
    verdict: Verdict = "undecided"
    if setting.n_queries < LEAST_TO_CLAIM:
        verdict = "nothing"
    elif len(rows) == 1:
        verdict = "only"
    elif good:
        recommended = cheapest(good)
        verdict = recommended.standing
    typed = ""
    # a scorer or a run of the user's has no name that we load
    if verdict != "nothing" and recommended.kind != "own":
        typed = type_next(recommended, setting)
    return Advice(
        verdict=verdict,
        best=best.Index,
        recommended=recommended.Index,
        typed=typed,
        use=_use(verdict, recommended, rows),
        certainty=_certainty(verdict, recommended, rows, setting),
        price=_price(recommended, best),
    )


# ---- cost


def cost(row: Any) -> tuple[float, float]:
    """The seconds in which all documents are encoded, and the bytes of a document's vectors; nan if not known."""
    if row.kind == "bm25":
        return 0.0, 0.0
    seconds = math.nan
    stored = math.nan
    if is_number(row.tokens_per_second) and row.tokens_per_second > 0:
        seconds = row.tokens / row.tokens_per_second
    if is_number(row.bytes):
        stored = float(row.bytes)
    return seconds, stored


def is_cheaper(one: Any, other: Any) -> bool:
    """Whether one candidate costs clearly less: in time or storage, and not more in the other of the two.

    A fusion has one index more than its vectors. Times of two devices are not compared.
    """
    seconds, stored = cost(one)
    others_seconds, others_stored = cost(other)
    same_device = one.device == other.device
    is_faster = same_device and CLEARLY * seconds < others_seconds
    is_slower = same_device and CLEARLY * others_seconds < seconds
    has_less = stored < others_stored or (stored == others_stored and other.kind == "fusion" != one.kind)
    return (is_faster and stored <= others_stored) or (has_less and not is_slower)


def cheapest(rows: Sequence[Any]) -> Any:
    """The cheapest of some candidates, the best first: the first one, or what is cheaper than it."""
    cheaper = [row for row in rows if is_cheaper(row, rows[0])]
    return min(cheaper, key=lambda row: cost(row)[::-1], default=rows[0])


def _cheaper_by(row: Any, other: Any) -> str:
    """How much cheaper a candidate is, such as `45 times smaller`."""
    seconds, stored = cost(row)
    others_seconds, others_stored = cost(other)
    if stored == 0:
        return "encodes nothing"
    if others_stored > _LEAST_RATIO * stored:
        return f"is {others_stored / stored:,.3g} times smaller"
    if others_seconds > _LEAST_RATIO * seconds:
        return f"is encoded {others_seconds / seconds:,.3g} times faster"
    return "needs no index of words"


# ---- sentences


def _use(verdict: Verdict, row: Any, rows: Sequence[Any]) -> str:
    best = rows[0]
    if verdict == "nothing":
        return "Nothing can be said yet."
    if verdict == "only":
        return f"Use {row.label}: there is nothing to compare it with."
    if verdict == "winner" and row.is_base:
        return f"Stay with {row.label}: nothing that was tried is better."
    if verdict == "winner":
        return f"Use {row.label}: it is the winner."
    if verdict == "good enough" and row.Index == best.Index:
        return f"Use {row.label}: it has the highest score, and nothing cheaper is good enough."
    if verdict == "good enough":
        return f"Use {row.label}: it is good enough, and {_cheaper_by(row, best)}."
    sentence = f"Use {row.label} for now: it has the highest score, but these queries do not decide."
    if row.is_base:
        sentence = f"Stay with {row.label} for now: nothing that was tried is surely better."
    cheap = cheapest([best, *may_be_best(rows)])
    if cheap.Index != best.Index:
        sentence += f" {cheap.label} {_cheaper_by(cheap, best)} and cannot be told from it."
    return sentence


def may_be_best(rows: Sequence[Any]) -> list[Any]:
    """All but the first one that are not surely behind, the likeliest first."""
    others = [row for row in rows[1:] if row.standing != BEHIND]
    return sorted(others, key=lambda row: (-row.best_share, row.label))


def _certainty(verdict: Verdict, row: Any, rows: Sequence[Any], setting: Setting) -> str:
    best = rows[0]
    resamples = f"of the resamples of {setting.queries}"
    if verdict == "nothing":
        return f"{setting.queries} cannot decide anything: judge {LEAST_QUERIES} or more, and compare again."
    if verdict == "only":
        return (
            f"It scores {best.score:.1f} on {setting.queries}; no other candidate takes part in the choice."
        )
    if verdict == "winner":
        others = [other for other in rows if other.Index != row.Index]
        second = others[0]
        above = f"{-second.to_best:.1f} points ({-second.to_best_high:.1f} to {-second.to_best_low:.1f})"
        return (
            f"It scores {row.score:.1f} and is best in {percent(row.best_share)} {resamples}; it is {above} above "
            f"{second.label}."
        )
    if verdict == "good enough":
        sentence = (
            f"It scores {row.score:.1f} and is less than {MARGIN:g} points behind the best in "
            f"{percent(row.near_share)} {resamples}"
        )
        if row.is_same:
            return f"{sentence}; {best.label} has the same score on every query."
        if row.Index != best.Index:
            return f"{sentence}; the highest score is {best.score:.1f}, of {best.label}."
        return f"{sentence}, and best in {percent(row.best_share)}."
    return _why_it_is_undecided(rows, setting)


def _why_it_is_undecided(rows: Sequence[Any], setting: Setting) -> str:
    best = rows[0]
    share = percent(best.best_share)
    sentence = f"It scores {best.score:.1f} and is best in {share} of the resamples of {setting.queries}"
    rivals = may_be_best(rows)
    if not rivals:
        return f"{sentence}; each other one is surely behind it, but not all of them together."
    named = [f"{row.label} ({percent(row.best_share)})" for row in rivals[:_NAMED]]
    if len(rivals) > _NAMED:
        named.append(f"{len(rivals) - _NAMED} more")
    sentence = f"{sentence}; {listed(named)} may be best too."
    same = [row.label for row in rivals if row.is_same]
    if same:
        sentence += f" The same score on every query: {listed(same)}."
    differing = [row for row in rivals if not row.is_same]
    if differing:
        sentence += f" {_more(differing[0], setting.n_queries)}"
    return sentence


def _more(row: Any, n_queries: int) -> str:
    """How many more queries would tell a candidate from the best, if the difference is the one that was seen."""
    difference = f"the difference of {abs(row.to_best):.1f} points to {row.label}"
    if row.more_queries > MANY * n_queries:
        return f"If {difference} is real, it would take many more queries to show it."
    n_more = max(math.ceil(row.more_queries), LEAST_MORE)
    return f"If {difference} is real, about {n_more:,} more queries would show it in 80 % of cases."


def _price(row: Any, best: Any) -> str:
    """What a candidate costs, what that saves against the best, and how much of the text it reads."""
    if row.kind == "bm25":
        return "It encodes nothing and keeps no vectors; its index holds the words."
    if row.kind == "own" and not is_number(row.bytes):
        return "What it costs is not known here."
    if row.kind == "own":
        return f"It stores {row.bytes / 1024:,.1f} KB a document, as was stated."
    parts = []
    if is_number(row.tokens_per_second):
        parts.append(f"encodes {row.tokens_per_second:,.0f} tokens a second")
    if is_number(row.vectors) and is_number(row.bytes):
        size = f"{row.bytes / 1024:,.1f} KB a document"
        if row.vectors == 1:
            parts.append(f"keeps 1 vector of {size}")
        else:
            parts.append(f"keeps {row.vectors:,.1f} vectors of together {size}")
    if is_number(row.share_read):
        parts.append(f"reads {percent(row.share_read)} of the text")
    if not parts:
        return "What it costs is not known."
    sentence = f"It {listed(parts)}."
    if row.kind == "fusion":
        sentence += " An index of words comes on top of its vectors."
    savings = []
    titles = ("of the time of encoding", "of the storage")
    for title, own, others in zip(titles, cost(row), cost(best), strict=True):
        if own < others and row.Index != best.Index:
            savings.append(f"{percent(1 - own / others)} {title}")
    if savings:
        sentence += f" Against {best.label} it saves {listed(savings)}."
    return sentence


def type_next(row: Any, setting: Setting) -> str:
    """A command, or a line of Python, that uses a candidate and has its full name.

    A name with settings of search is a search and not a model; a model of mteb's own is not ours to load.
    """
    in_python = json.dumps(row.Index, ensure_ascii=False)
    if row.chunker:
        return f"mteb_longembed.search({json.dumps(row.encoder, ensure_ascii=False)}, chunker={row.chunker})"
    if setting.corpus is not None:
        words = ["mteb-longembed", "search", row.Index, "--corpus", setting.corpus]
        if setting.language is not None:
            words += ["--language", setting.language]
        return f'{shlex.join(words)} "YOUR QUESTION"'
    runs_in_mteb = row.kind in ("bm25", "api")
    if runs_in_mteb and setting.tasks:
        return f"mteb run -m {shlex.quote(row.Index)} -t {' '.join(map(shlex.quote, setting.tasks))}"
    if runs_in_mteb or row.kind in ("search", "fusion"):
        arguments = in_python
        if setting.language is not None:
            arguments += f", language={json.dumps(setting.language)}"
        return f"mteb_longembed.search({arguments})"
    return f"mteb_longembed.load({in_python})"


def percent(share: float) -> str:
    """A share from 0 to 1 for a table or a sentence; what is not all or nothing is not written so.

    >>> percent(0.714), percent(0.9997), percent(0.0004), percent(1.0)
    ('71 %', '>99 %', '<1 %', '100 %')
    """
    if 0 < share < 0.005:
        return "<1 %"
    if 0.995 <= share < 1:
        return ">99 %"
    return f"{100 * share:.0f} %"


def listed(words: Any) -> str:
    """Words with commas and an `and`."""
    words = list(words)
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
