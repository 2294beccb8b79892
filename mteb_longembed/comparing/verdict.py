"""Which candidate to use, in three lines: what to use and type, how sure that is, what it costs."""

import json
import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from mteb_longembed.statistics.resampling import LEAST_GROUPS

from .costs import CLEARLY
from .summary import BEHIND, GOOD_ENOUGH, LEAST_QUERIES, MARGIN, is_number

#: More than this many times the present queries are called many; and at least so many more are said.
MANY = 10
LEAST_MORE = 5
#: This many of those that may be best are named.
_NAMED = 3
#: What is within the margin in a smaller share of resamples is not named as one that may be best.
LEAST_SHARE = 0.01
#: What is cheaper is named beside the highest score if it is within the margin in at least this share of resamples.
NAMED_SHARE = 0.25

#: `winner`: the highest score is good enough, and no other one. `good enough`: the cheapest of those that are.
#: `undecided`: these queries do not tell. `only`: there is one candidate. `nothing`: too few queries for any claim.
Verdict = Literal["winner", "good enough", "undecided", "only", "nothing"]


@dataclass(frozen=True)
class Setting:
    """What a comparison ran on, as far as sentences need it.

    Args:
        tasks: names of the tasks that mteb knows.
        n_queries: queries that all candidates answered.
        n_groups: of these queries; the same number where each query is on its own.
        are_named: whether the queries' file says which belong together, and not their documents.
        corpus: the file of one's own documents, None with tasks of mteb.
        language: of one's own documents, None for English.
    """

    tasks: Sequence[str] = ()
    n_queries: int = LEAST_QUERIES
    n_groups: int = LEAST_QUERIES
    are_named: bool = False
    corpus: str | None = None
    language: str | None = None

    @property
    def queries(self) -> str:
        """The number of queries, and of their groups, in words.

        >>> Setting(n_queries=1527, n_groups=197).queries
        '1,527 queries about 197 documents'
        """
        if self.n_queries == 1:
            return "1 query"
        if self.n_groups == self.n_queries:
            return f"{self.n_queries:,} queries"
        if self.are_named:
            return f"{self.n_queries:,} queries in {counted(self.n_groups, 'group')}"
        return f"{self.n_queries:,} queries about {counted(self.n_groups, 'document')}"


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
        way_out: how it is had as an object and as a folder; empty if there is nothing to use.
    """

    verdict: Verdict
    best: str
    recommended: str
    typed: str
    use: str
    certainty: str
    price: str
    way_out: str = ""

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
    rows = list(summary.itertuples())
    best = rows[0]
    good = [row for row in rows if row.standing == GOOD_ENOUGH]
    recommended = best
    verdict: Verdict = "undecided"
    if setting.n_groups < LEAST_GROUPS:
        verdict = "nothing"
    elif len(rows) == 1:
        verdict = "only"
    elif good:
        recommended = cheapest(good)
        verdict = "winner" if [row.Index for row in good] == [best.Index] else "good enough"
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
    seconds = row.tokens / float(row.tokens_per_second or math.nan)
    stored = math.nan
    if is_number(row.bytes):
        stored = float(row.bytes)
    return seconds, stored


def _index(row: Any) -> tuple[float, bool]:
    """What a candidate keeps: bytes of vectors, and whether words need more than vectors (an index, or a model)."""
    needs_more = row.kind == "fusion" or bool(row.neighbours)
    return cost(row)[1], needs_more


def is_faster(one: Any, other: Any) -> bool:
    """Whether one candidate encodes all documents in clearly less time, by more than both speeds vary.

    Times of two devices are not compared.
    """
    seconds = cost(one)[0] * (1 + one.speed_spread)
    others = cost(other)[0] / (1 + other.speed_spread)
    return bool(one.device == other.device and CLEARLY * seconds < others)


def cheapest(rows: Sequence[Any]) -> Any:
    """The cheapest of some candidates, the highest score first; of those that keep as much, the highest score.

    What keeps less than the first one must not be slower; what keeps as much must be faster.
    """
    first = rows[0]
    best_of: dict[tuple[float, bool], Any] = {}
    for row in rows[1:]:
        has_less = _index(row) < _index(first) and not is_faster(first, row)
        if has_less or (_index(row) == _index(first) and is_faster(row, first)):
            best_of.setdefault(_index(row), row)
    return min(best_of.values(), key=_index, default=first)


def _cheaper_by(row: Any, other: Any) -> str:
    """How much cheaper a candidate is, such as `45 times smaller`."""
    stored, _ = _index(row)
    others_stored, _ = _index(other)
    if others_stored > stored == 0:
        return "encodes no document"
    if others_stored > stored:
        return f"is {others_stored / stored:,.3g} times smaller"
    if _index(row) < _index(other):
        return "needs no model" if stored == 0 else "needs no index of words"
    return f"is encoded {cost(other)[0] / cost(row)[0]:,.3g} times faster"


# ---- sentences


def _use(verdict: Verdict, row: Any, rows: Sequence[Any]) -> str:
    best = rows[0]
    use = f"Use {row.label}"
    stay = f"Stay with {row.label}" if row.is_base else use
    if verdict == "nothing":
        return "Nothing can be said yet."
    if verdict == "only":
        return f"{use}: there is nothing to compare it with."
    if verdict == "winner":
        return f"{stay}: it alone is good enough."
    if verdict == "good enough" and row.Index == best.Index:
        return f"{use}: it has the highest score, and nothing cheaper is good enough."
    if verdict == "good enough":
        reason = "the highest score is not surely best"
        if cheapest([best, row]) is row:
            reason = _cheaper_by(row, best)
        return f"{use}: it is good enough, and {reason}."
    sentence = f"{use} for now: it has the highest score, but these queries do not decide."
    if row.is_base:
        sentence = f"{stay} for now: nothing that was tried is surely better."
    cheap = cheapest_named(rows)
    if cheap.Index == best.Index:
        return sentence
    return (
        f"{sentence} {cheap.label} {_cheaper_by(cheap, best)} and is less than {MARGIN:g} points behind in "
        f"{percent(cheap.near_share)} of the resamples."
    )


def cheapest_named(rows: Sequence[Any]) -> Any:
    """The cheapest candidate beside the first one that may well be within the margin; else the first one itself.

    The best one of its class of cost speaks for it: if that one is not near, nobody is named.
    """
    cheap = cheapest(rows)
    while cheap.Index != rows[0].Index and cheap.near_share < NAMED_SHARE:
        rows = [row for row in rows if _index(row) != _index(cheap) or row.Index == rows[0].Index]
        cheap = cheapest(rows)
    return cheap


def _certainty(verdict: Verdict, row: Any, rows: Sequence[Any], setting: Setting) -> str:
    best = rows[0]
    if verdict == "nothing":
        return (
            f"{setting.queries} cannot decide anything: judge {LEAST_QUERIES} or more, about different documents, and "
            "compare again."
        )
    if verdict == "only":
        return f"It scores {best.score:.1f} on {setting.queries}."
    sentence = (
        f"It scores {row.score:.1f} and is less than {MARGIN:g} points behind all others in {percent(row.near_share)} "
        f"of the resamples of {setting.queries}"
    )
    if verdict == "winner":
        return f"{sentence}; the next is {rows[1].label} with {rows[1].score:.1f}."
    if row.is_same:
        return f"{sentence}; {best.label} has the same score on every query."
    if row.Index != best.Index:
        return f"{sentence}; the highest score is {best.score:.1f}, of {best.label}."
    if verdict == "good enough":
        return f"{sentence}."
    others = [other for other in rows[1:] if other.standing != BEHIND and other.near_share >= LEAST_SHARE]
    rivals = sorted(others, key=lambda other: (-other.near_share, other.label))
    if not rivals:
        return f"{sentence}; each other one is in less than {percent(LEAST_SHARE)}."
    named = [f"{rival.label} ({percent(rival.near_share)})" for rival in rivals[:_NAMED]]
    if len(rivals) > _NAMED:
        named.append(f"{len(rivals) - _NAMED} more")
    sentence = f"{sentence}; {listed(named)} may be best too."
    for rival in [rival for rival in rivals if not rival.is_same][:1]:
        sentence += f" {_more(rival, setting.n_queries)}"
    return sentence


def _more(row: Any, n_queries: int) -> str:
    """How many more queries would tell a candidate from the best, if the difference is the one that was seen."""
    difference = f"the difference of {abs(row.to_best):.1f} points to {row.label}"
    if row.more_queries > MANY * n_queries:
        return f"If {difference} is real, it would take many more queries to show it."
    n_more = max(math.ceil(row.more_queries), LEAST_MORE)
    return (
        f"If {difference} is real, about {n_more:,} more queries like these would show it in 80 % of cases."
    )


def _price_of_words(row: Any) -> str:
    words = f"It encodes each word once, about {row.tokens:,.0f} tokens, and new words of queries"
    if is_number(row.share_encoded):
        return (
            f"{words}; of the documents those that words find first, when they are asked for: these queries had "
            f"{percent(row.share_encoded)} of all encoded."
        )
    if row.neighbours:
        return f"{words}, but no document, of which it keeps no vectors; so it needs its model."
    return "It encodes nothing and keeps no vectors; its index holds the words."


def _price(row: Any, best: Any) -> str:
    """What a candidate costs, what that saves against the best, and how much of the text it reads."""
    if row.kind == "own":
        return "What it costs is not known here."
    if row.kind == "bm25":
        return _price_of_words(row)
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
    (seconds, stored), (others_seconds, others_stored) = cost(row), cost(best)
    if is_faster(row, best):
        savings.append(f"{percent(1 - seconds / others_seconds)} of the time of encoding")
    if stored < others_stored:
        savings.append(f"{percent(1 - stored / others_stored)} of the storage")
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
    # `mteb run -m bm25` is mteb's own BM25
    runs_in_mteb = row.kind == "api" or (row.kind == "bm25" and row.Index != "bm25")
    if runs_in_mteb and setting.tasks:
        return f"mteb run -m {shlex.quote(row.Index)} -t {' '.join(map(shlex.quote, setting.tasks))}"
    if row.kind in ("api", "bm25", "search", "fusion"):
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


def counted(n: int, one: str, several: str = "") -> str:
    """A number and its word.

    >>> counted(1, "document"), counted(1200, "document"), counted(2, "query", "queries")
    ('1 document', '1,200 documents', '2 queries')
    """
    word = several or f"{one}s"
    return f"{n:,} {one if n == 1 else word}"
