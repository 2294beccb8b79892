"""What a comparison says: which candidate to use, in three lines; what would mislead if nobody said it; a gate."""

import json
import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import pandas as pd

from mteb_longembed.errors import InputError
from mteb_longembed.evaluation.resampling import LEAST_GROUPS
from mteb_longembed.files import counted

from .costs import CLEARLY
from .summary import BEHIND, GOOD_ENOUGH, LEAST_QUERIES, MARGIN, is_number, resamples_of

#: This many of those that may be best are named, if they are within the margin in at least this share of resamples.
_NAMED = 3
_LEAST_SHARE = 0.01
#: What is cheaper is named beside the highest score if it is within the margin in at least this share of resamples.
NAMED_SHARE = 0.25
#: A tokenizer with at least this share of unknown tokens is named.
UNKNOWN = 0.05

#: `winner`: the highest score is good enough, and no other one. `good enough`: the cheapest of those that are.
#: `undecided`: these queries do not tell. `only`: there is one candidate. `nothing`: too few queries for any claim.
Verdict = Literal["winner", "good enough", "undecided", "only", "nothing"]


class Note(NamedTuple):
    """A sentence for people.

    `kind` is `caution` (what the numbers cannot see), `data` (what is not scored), or `left out` (what did not run).
    """

    kind: Literal["caution", "data", "left out"]
    text: str


@dataclass(frozen=True)
class Setting:
    """What a comparison ran on, as far as sentences need it.

    Args:
        tasks: names of the tasks that mteb knows.
        n_queries: queries that all candidates answered.
        n_groups: of these queries; the same number where each query is on its own.
        corpus: the file of one's own documents, None with tasks of mteb.
        language: of one's own documents, None for English.
    """

    tasks: Sequence[str] = ()
    n_queries: int = LEAST_QUERIES
    n_groups: int = LEAST_QUERIES
    corpus: str | None = None
    language: str | None = None

    @property
    def queries(self) -> str:
        """The number of queries, and of their groups, in words.

        >>> Setting(n_queries=1527, n_groups=197).queries
        '1,527 queries in 197 groups'
        """
        asked = counted(self.n_queries, "query", "queries")
        if self.n_groups == self.n_queries:
            return asked
        return f"{asked} in {counted(self.n_groups, 'group', 'groups')}"


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
            use += f" Type: {self.typed}"
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
        verdict = "good enough"
        if [row.Index for row in good] == [best.Index]:
            verdict = "winner"
    typed = ""
    # a scorer or a run of the user's has no name that we load
    if verdict != "nothing" and recommended.kind != "own":
        typed = type_next(recommended, setting)
    sentences = (
        _use(verdict, recommended, rows),
        _certainty(verdict, recommended, rows, setting),
        _price(recommended),
    )
    return Advice(verdict, best.Index, recommended.Index, typed, *sentences)


# ---- beside the answer


def cautions(scores: pd.DataFrame, summary: pd.DataFrame) -> list[Note]:
    """Facts about models that would mislead if nobody said them."""
    sentences = []
    for row in summary[summary["is_base"]].itertuples():
        if is_number(row.trained_len) and 0 < row.longest <= row.trained_len:
            sentences.append(
                f"Your documents are short: the longest has {row.longest:,.0f} tokens, and {row.label} reads "
                f"{row.trained_len:,.0f}. A longer window changes nothing."
            )
        if row.share_unknown >= UNKNOWN:
            sentences.append(
                f"{percent(row.share_unknown)} of the documents' tokens are unknown to the tokenizer of {row.label}: "
                "they count as not read."
            )
    n_tied = scores.groupby("candidate")["is_tied"].sum()
    most = n_tied.idxmax()
    if n_tied[most]:
        sentences.append(
            f"{summary.loc[most, 'label']} gives documents equal scores where that decides ({n_tied[most]:,} queries): "
            "each such query counts with its mean over all orders of them."
        )
    return [Note("caution", sentence) for sentence in sentences]


def gate(scores: pd.DataFrame, setting: Setting, first: str, named: str) -> tuple[bool, str]:
    """Whether a gate is open, and the difference with its interval: closed if all of that lies below 0.

    Args:
        scores: of a comparison.
        setting: what it ran on.
        first: the id of the candidate that is the measure.
        named: that of the candidate that must not be worse.

    Raises:
        InputError: if one of them has no scores.
    """
    if not {first, named} <= set(scores["candidate"]):
        raise InputError(f"a gate needs two runs that have finished, got {first} and {named}.")
    points = resamples_of(scores, [first, named]).difference(first, named).scaled(100)
    is_open = not points.high < 0
    verdict = "is surely below"
    if is_open:
        verdict = "is not surely below"
    interval = f"{points.mean:+.1f} points (95 % interval {points.low:+.1f} to {points.high:+.1f})"
    return is_open, f"{named} {verdict} {first}: {interval} on {setting.queries}."


# ---- cost


def cost(row: Any) -> tuple[float, float]:
    """The seconds in which all documents are encoded, and the bytes of a document's vectors; nan if not known."""
    if row.kind == "bm25":
        return 0.0, 0.0
    seconds = row.tokens / float(row.tokens_per_second or math.nan)
    if not is_number(row.bytes):
        return seconds, math.nan
    return seconds, float(row.bytes)


def _index(row: Any) -> tuple[float, bool]:
    """What a candidate keeps: bytes of vectors, and whether words need more than vectors (an index, or a model)."""
    return cost(row)[1], row.kind == "fusion" or bool(row.neighbours)


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


def cheapest_named(rows: Sequence[Any]) -> Any:
    """The cheapest candidate beside the first one that may well be within the margin; else the first one itself.

    The best one of its class of cost speaks for it: if that one is not near, nobody is named.
    """
    cheap = cheapest(rows)
    while cheap.Index != rows[0].Index and cheap.near_share < NAMED_SHARE:
        rows = [row for row in rows if _index(row) != _index(cheap) or row.Index == rows[0].Index]
        cheap = cheapest(rows)
    return cheap


# ---- sentences


def _use(verdict: Verdict, row: Any, rows: Sequence[Any]) -> str:
    reasons = {
        "only": "there is nothing to compare it with.",
        "winner": "it alone is good enough.",
        "good enough": "it is the cheapest that is good enough.",
    }
    if verdict == "nothing":
        return "Nothing can be said yet."
    if verdict in reasons:
        return f"Use {row.label}: {reasons[verdict]}"
    sentence = f"Use {row.label} for now: it has the highest score, but these queries do not decide."
    cheap = cheapest_named(rows)
    if cheap.Index == row.Index:
        return sentence
    share = percent(cheap.near_share)
    return f"{sentence} {cheap.label} is cheaper, and less than {MARGIN:g} points behind in {share} of the resamples."


def _certainty(verdict: Verdict, row: Any, rows: Sequence[Any], setting: Setting) -> str:
    if verdict == "nothing":
        return (
            f"{setting.queries} cannot decide anything: judge {LEAST_QUERIES} or more, about different documents, and "
            "compare again."
        )
    if verdict == "only":
        return f"It scores {row.score:.1f} on {setting.queries}."
    sentence = (
        f"It scores {row.score:.1f} and is less than {MARGIN:g} points behind all others in {percent(row.near_share)} "
        f"of the resamples of {setting.queries}"
    )
    rivals = [one for one in rows if one.standing != BEHIND and one.near_share >= _LEAST_SHARE]
    rivals = sorted(rivals, key=lambda one: (-one.near_share, one.label))
    named = [f"{one.label} ({percent(one.near_share)})" for one in rivals if one.Index != row.Index]
    if verdict != "undecided" or not named:
        return f"{sentence}."
    if len(named) > _NAMED:
        named[_NAMED:] = [f"{len(named) - _NAMED} more"]
    return f"{sentence}; {', '.join(named)} may be best too (in one resample several can be so near)."


def _price(row: Any) -> str:
    """What a candidate costs, and how much of the text it reads."""
    if row.kind == "bm25" and not row.neighbours:
        return "It encodes nothing and keeps no vectors; its index holds the words."
    parts = []
    if row.neighbours:
        parts.append(f"encodes each word once, about {row.tokens:,.0f} tokens")
    if row.reranks:
        parts.append("encodes the first documents of each query once")
    if is_number(row.tokens_per_second):
        parts.append(f"encodes {row.tokens_per_second:,.0f} tokens a second")
    if is_number(row.bytes):
        parts.append(f"keeps {row.bytes / 1024:,.1f} KB of vectors a document")
    if is_number(row.share_read) and row.kind != "bm25":
        parts.append(f"reads {percent(row.share_read)} of the text")
    if row.kind == "fusion":
        parts.append("has an index of words too")
    if not parts:
        return "What it costs is not known here."
    return f"It {', '.join(parts)}."


def type_next(row: Any, setting: Setting) -> str:
    """A command, or a line of Python, that uses a candidate and has its full name.

    A name with settings of search is a search and not a model; a model of mteb's own is not ours to load.
    """
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
        return shlex.join(["mteb", "run", "-m", row.Index, "-t", *setting.tasks])
    name = json.dumps(row.Index, ensure_ascii=False)
    if row.kind not in ("api", "bm25", "search", "fusion"):
        return f"mteb_longembed.load({name})"
    if setting.language is not None:
        name += f", language={json.dumps(setting.language)}"
    return f"mteb_longembed.search({name})"


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
