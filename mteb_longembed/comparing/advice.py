"""From the summary to sentences: what to use and type, how sure that is, what it costs, and what misleads."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pandas as pd

from .costs import is_faster
from .summary import LEAST_QUERIES, LEAST_TO_CLAIM, MARGIN, is_number

#: More than this many times the present queries are called many; and at least so many more are said.
MANY = 10
LEAST_MORE = 5
#: This many equals of a leader are named.
_NAMED = 3
#: A tokenizer with at least this share of unknown tokens is named.
UNKNOWN = 0.05

#: `winner`: one is surely first, or the only one. `equivalent`: a cheaper one is equal enough. `undecided`: the queries
#: do not tell the first ones apart. `nothing`: too few queries for any claim.
Verdict = Literal["winner", "equivalent", "undecided", "nothing"]


class Note(NamedTuple):
    """A sentence for people.

    `kind` is `caution` (what the numbers cannot see), `finding` (what else follows), `data` (what is not scored),
    `untried` (not among the candidates), `left out` (could not run) or `skipped` (over the budget).
    """

    kind: Literal["caution", "finding", "data", "untried", "left out", "skipped"]
    text: str


@dataclass(frozen=True)
class Setting:
    """What a comparison ran on, as far as sentences need it.

    Args:
        tasks: names of the tasks.
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
    """Choose by a fixed rule.

    The leader has the highest score. A candidate that is equal enough to it (two one-sided tests within `MARGIN`
    points) and cheaper is recommended in its place, the fastest first. Otherwise it is the leader, which is called a
    winner only if it surely is one.

    Args:
        summary: as `summarise` makes it.
        setting: what the candidates ran on.
    """
    setting = setting or Setting()
    rows = list(summary.itertuples())
    best, *others = [row for row in rows if row.standing != "excluded"]
    equal_enough = [
        row for row in others if row.is_same or (row.equal_low > -MARGIN and row.equal_high < MARGIN)
    ]
    cheaper = cheapest(equal_enough, best)
    recommended = best
    verdict: Verdict = "undecided"
    if setting.n_queries < LEAST_TO_CLAIM:
        verdict = "nothing"
    elif cheaper is not None:
        verdict = "equivalent"
        recommended = cheaper
    elif all(row.standing == "behind" or row.is_same for row in others):
        verdict = "winner"
    typed = ""
    if verdict != "nothing":
        typed = type_next(recommended, setting)
    return Advice(
        verdict=verdict,
        best=best.Index,
        recommended=recommended.Index,
        typed=typed,
        use=_use(verdict, recommended, best),
        certainty=_certainty(verdict, recommended, best, others, len(rows), setting),
        price=_price(recommended, rows),
    )


def cheapest(rows: Sequence[Any], best: Any) -> Any | None:
    """The cheapest of some candidates; None if none is cheaper than the best.

    BM25 is cheaper than all others. So is what is surely faster without larger vectors, and what has smaller vectors
    and is not surely slower. The fastest comes first.
    """
    faster = []
    smaller = []
    for row in rows:
        if row.kind == "words" and best.kind != "words":
            return row
        if not (is_number(row.bytes) and is_number(best.bytes)):
            continue
        # without the words of a fusion, there is one index less
        is_smaller = row.bytes < best.bytes or (row.bytes == best.bytes and best.kind == "fusion" != row.kind)
        if is_faster(row, best) and row.bytes <= best.bytes:
            faster.append(row)
        elif is_smaller and not is_faster(best, row):
            smaller.append(row)
    if faster:
        return max(faster, key=lambda row: row.tokens_per_second)
    return min(smaller, key=lambda row: row.bytes, default=None)


def _use(verdict: Verdict, row: Any, best: Any) -> str:
    if verdict == "nothing":
        return "Nothing can be said yet."
    if verdict == "equivalent":
        return f"Use {row.label}: it is as good as {best.label} within {MARGIN:g} points, and cheaper."
    if verdict == "winner" and row.is_base:
        return f"Stay with {row.label}: nothing that was tried is better."
    if verdict == "winner":
        return f"Use {row.label}."
    if row.is_base:
        return f"Stay with {row.label} for now: nothing that was tried is surely better."
    return f"Use {row.label} for now: it scores highest, but these queries do not decide."


def _certainty(
    verdict: Verdict, row: Any, best: Any, others: Sequence[Any], n_finished: int, setting: Setting
) -> str:
    if verdict == "nothing":
        return f"{setting.queries} cannot decide anything: judge {LEAST_QUERIES} or more, and compare again."
    if verdict == "equivalent" and row.is_same:
        return f"{row.label} and {best.label} have the same score on each of {setting.queries}: {best.score:.1f}."
    if verdict == "equivalent":
        return (
            f"{row.label} has {row.score:.1f}, {best.label} {best.score:.1f}: the difference of {row.to_best:+.1f} "
            f"points on {setting.queries} lies within {MARGIN:g} points by two one-sided tests at 5 % (90 % interval "
            f"{row.equal_low:+.1f} to {row.equal_high:+.1f})."
        )
    if not others:
        only = "the only one without BM25"
        if n_finished == 1:
            only = "the only one"
        return f"It is {only} that finished, with {best.score:.1f} on {setting.queries}."
    if best.standing == "winner":
        return _why_it_wins(best, others, setting)
    return _why_it_is_undecided(best, others, setting)


def _why_it_wins(best: Any, others: Sequence[Any], setting: Setting) -> str:
    second = others[0]
    above = f"{-second.to_best:.1f} points ({-second.to_best_high:.1f} to {-second.to_best_low:.1f})"
    reasons = [f"{above} above {second.label}"]
    if is_number(best.to_base) and best.to_base_low > 0 and not second.is_base:
        reasons.append(
            f"{best.to_base:.1f} points ({best.to_base_low:.1f} to {best.to_base_high:.1f}) above its base"
        )
    return (
        f"It scores {best.score:.1f} on {setting.queries} and ranks first in {percent(best.first_share)} of bootstrap "
        f"resamples: {listed(reasons)}."
    )


def _why_it_is_undecided(best: Any, others: Sequence[Any], setting: Setting) -> str:
    equals = [row for row in others if row.standing == "equal"]
    same = [row.label for row in equals if row.is_same]
    tied = sorted((row for row in equals if not row.is_same), key=lambda row: (-row.first_share, row.label))
    sentence = f"{best.label} has the highest score ({best.score:.1f})"
    if tied:
        named = [row.label for row in tied[:_NAMED]]
        if len(tied) > _NAMED:
            named.append(f"{len(tied) - _NAMED} more")
        shares = [percent(row.first_share) for row in [best, *tied[:_NAMED]]]
        n_more = max(row.more_queries for row in tied)
        sentence += (
            f"; {listed(named)} cannot be told from it on {setting.queries} (first in {listed(shares)} of bootstrap "
            f"resamples); {_more(n_more, setting.n_queries)}"
        )
    if same:
        sentence += f". The same score on every query: {listed(same)}"
    return f"{sentence}."


def _more(n_more: float, n_queries: int) -> str:
    """How many more queries would tell two candidates apart; at least a few, because these do not."""
    if n_more > MANY * n_queries:
        return "it would take many more queries like these"
    n_more = max(math.ceil(n_more), LEAST_MORE)
    return f"with about {n_more:,} more queries like these a difference would show in 80 % of cases"


def _price(row: Any, rows: Sequence[Any]) -> str:
    """What a candidate costs, beside its base if that took part, and how much of the text it reads."""
    if row.kind == "words":
        return "It encodes nothing and keeps no vectors; its index holds the words."
    parts = []
    if is_number(row.tokens_per_second):
        base = next(
            (one for one in rows if one.is_base and one.base == row.base and one.Index != row.Index), None
        )
        beside = ""
        if base is not None and is_number(base.tokens_per_second) and base.device == row.device:
            beside = f" ({base.label}: {base.tokens_per_second:,.0f})"
        parts.append(f"encodes {row.tokens_per_second:,.0f} tokens a second{beside}")
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
    if row.kind in ("words", "api"):
        return f"mteb run -m {shlex.quote(row.Index)} -t {' '.join(map(shlex.quote, setting.tasks))}"
    if row.kind in ("search", "fusion"):
        return f"mteb_longembed.search({in_python})"
    return f"mteb_longembed.load({in_python})"


def findings(setting: Setting, expected: float | None) -> list[Note]:
    """What else follows from the numbers."""
    sentences = []
    if setting.synthetic_queries:
        sentences.append(
            "The queries are sentences drawn from the documents. On long documents they rank methods much as real "
            "queries do (in our tests their choice was 0 to 3.3 points behind the best), but they favour exact words, "
            "so nothing is recommended about BM25."
        )
    sentence = f"The score to expect on new queries cannot be said: it needs {LEAST_QUERIES} queries."
    if expected is not None:
        sentence = (
            f"Expected score on new queries: {expected:.1f} (the winner is picked on one half and scored on the other, "
            "both ways)."
        )
    return [Note("finding", text) for text in (*sentences, sentence)]


def cautions(scores: pd.DataFrame, summary: pd.DataFrame) -> list[Note]:
    """Facts about models that would mislead if nobody said them, each of them once."""
    sentences = [
        *short_documents(summary),
        *ties(scores, summary),
        *unknown_tokens(summary),
    ]
    return [Note("caution", sentence) for sentence in sentences]


def short_documents(summary: pd.DataFrame) -> list[str]:
    """That all documents fit into the window of a base, so that nothing can be gained by a longer one."""
    return [
        f"Your documents are short: the longest has {row.longest:,.0f} tokens, and {row.label} reads "
        f"{row.trained_len:,.0f}. A longer window changes nothing, so candidates that only extend it are all equal."
        for row in summary[summary["is_base"]].itertuples()
        if is_number(row.trained_len) and 0 < row.longest <= row.trained_len
    ]


def ties(scores: pd.DataFrame, summary: pd.DataFrame) -> list[str]:
    """That equal scores of documents decided queries, with the candidate for which they decided most."""
    n_tied = scores.groupby("candidate")["is_tied"].sum()
    most = n_tied.idxmax()
    if not n_tied[most]:
        return []
    n_queries = int((scores["candidate"] == most).sum())
    return [
        f"{summary.loc[most, 'label']} gives documents equal scores where that decides ({n_tied[most]:,} of "
        f"{n_queries:,} queries): they have equal vectors or words, and each such query counts with its mean over all "
        "orders of them."
    ]


def unknown_tokens(summary: pd.DataFrame) -> list[str]:
    """That a tokenizer does not know the documents' words. Candidates of one base have one tokenizer."""
    shares = summary[summary["base"] != ""].groupby("base")["share_unknown"].max()
    return [
        f"The tokenizer of {Path(str(base)).name} does not know {percent(share)} of the documents' tokens: they count "
        "as not read."
        for base, share in shares.items()
        if share >= UNKNOWN
    ]


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
