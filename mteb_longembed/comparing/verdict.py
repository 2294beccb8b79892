"""The answer of a comparison: which candidate to use, in three lines; cautions; a gate."""

import json
import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import pandas as pd

from mteb_longembed.errors import InputError
from mteb_longembed.evaluation.resampling import LEAST_CLUSTERS
from mteb_longembed.files import counted
from mteb_longembed.names import absolute_name, with_preset

from .summary import BEHIND, LEAST_QUERIES, MARGIN, Row, is_number, queries_to_separate, resamples_of

#: Maximum number of rivals to name, and the minimum share of resamples in which they are within the margin.
_NAMED = 3
_LEAST_SHARE = 0.01
#: A cheaper candidate is named beside the highest score if it is within the margin in at least this share of resamples.
NAMED_SHARE = 0.25
#: If more further queries than this would be needed to separate two candidates, they are equal in practice.
MOST_QUERIES = 1000
#: A tokenizer with at least this share of unknown tokens is named.
UNKNOWN = 0.05

#: `winner`: only the highest score is good enough. `good enough`: the cheapest candidate that is good enough.
#: `undecided`: these queries do not decide. `only`: there is one candidate. `nothing`: too few queries for any claim.
#: `cautious`: few queries, judged on our page, so the default stays unless another candidate is clearly better.
Verdict = Literal["winner", "good enough", "undecided", "only", "nothing", "cautious"]
#: With fewer queries that were judged on our page, the choice is cautious.
FEW_QUERIES = 50


class Note(NamedTuple):
    """A note for the reader.

    `kind` is `caution` (not visible in the numbers), `data` (not scored), or `left out` (did not run).
    """

    kind: Literal["caution", "data", "left out"]
    text: str


@dataclass(frozen=True)
class Setting:
    """The data of a comparison, as far as messages need it.

    Args:
        tasks: names of the tasks that mteb knows.
        n_queries: number of queries that all candidates answered.
        n_clusters: number of their clusters; `n_queries` if all queries are independent.
        corpus: the file of your own documents, None with tasks of mteb.
        language: the language of your own documents, None for English.
    """

    tasks: Sequence[str] = ()
    n_queries: int = LEAST_QUERIES
    n_clusters: int = LEAST_QUERIES
    corpus: str | None = None
    language: str | None = None

    @property
    def queries(self) -> str:
        """The number of queries, and of their clusters, in words.

        >>> Setting(n_queries=1527, n_clusters=197).queries
        '1,527 queries in 197 clusters'
        """
        queries = counted(self.n_queries, "query", "queries")
        if self.n_clusters == self.n_queries:
            return queries
        return f"{queries} in {counted(self.n_clusters, 'cluster', 'clusters')}"


@dataclass(frozen=True)
class Advice:
    """The advice of a comparison.

    Args:
        verdict: how the choice was made.
        best: the id of the candidate with the highest score.
        recommended: the id of the candidate to use.
        typed: the command, or the line of Python, to type next; empty if there is nothing to use.
        use: the candidate to use, in a sentence.
        certainty: how sure that is, and why.
        price: its cost.
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
        """The three lines of the answer."""
        use = self.use
        if self.typed:
            use += f" Type: {self.typed}"
        return use, self.certainty, self.price


def advise(rows: Sequence[Row], setting: Setting | None = None, *, unfinished: str = "") -> Advice:
    """Choose by a fixed rule: the cheapest candidate that is good enough; if none is, the highest score.

    Args:
        rows: the rows of `summarise`.
        setting: the data of the comparison.
        unfinished: the progress of an interrupted comparison; empty if complete.
    """
    setting = setting or Setting()
    best = rows[0]
    good = [row for row in rows if row.is_good_enough]
    recommended = best
    verdict: Verdict = "undecided"
    if setting.n_clusters < LEAST_CLUSTERS:
        verdict = "nothing"
    elif len(rows) == 1:
        verdict = "only"
    elif good:
        recommended = cheapest(good)
        verdict = "good enough"
        if [row.id for row in good] == [best.id]:
            verdict = "winner"
    typed = ""
    # a custom scorer or a run has no name that we can load
    if verdict != "nothing" and recommended.kind != "own":
        typed = type_next(recommended, setting)
    use = _use(verdict, recommended, rows)
    if unfinished:
        use = f"{unfinished}. So far: {use[0].lower()}{use[1:]}"
    sentences = (use, _certainty(verdict, recommended, rows, setting), _price(recommended, rows))
    return Advice(verdict, best.id, recommended.id, typed, *sentences)


def cautious(
    advice: Advice, scores: pd.DataFrame, rows: Sequence[Row], setting: Setting, default: str
) -> Advice:
    """Keep the default, unless another candidate is better by more than one standard error over clusters.

    Source: the one-standard-error rule, Breiman et al. 1984; experiments/judging.md has what it costs and saves.

    Args:
        advice: the advice without caution.
        scores: the scores of all candidates.
        rows: the rows of `summarise`.
        setting: the data of the comparison.
        default: the id of the candidate that is used by default.
    """
    samples = resamples_of(scores, [row.id for row in rows])
    by_id = {row.id: row for row in rows}
    others = [row for row in rows if row.id != default]
    better = [row for row in others if samples.is_better(default, row.id)]
    chosen = better[0] if better else by_id[default]
    questions = counted(setting.n_queries, "question", "questions")
    use = f"{questions}: stay with {chosen.label}"
    if better:
        use = f"{questions}: use {chosen.label}"
    rival = by_id[default] if better else next(iter(others), None)
    if rival is not None:
        # rows are in the order of their scores
        first, second = (row for row in rows if row.id in (chosen.id, rival.id))
        points = samples.difference(second.id, first.id).scaled(100)
        lead = f"{points.mean:.1f} ({points.low:+.0f}, {points.high:+.0f})"
        use += f"; {first.label} leads {second.label} by {lead}"
    certainty = (
        f"With fewer than {FEW_QUERIES} judged questions the default, {by_id[default].label}, stays unless another "
        "candidate is better by more than one standard error."
    )
    typed = "" if chosen.kind == "own" else type_next(chosen, setting)
    price = _price(chosen, rows)
    return Advice("cautious", advice.best, chosen.id, typed, f"{use}.", certainty, price)


# ---- beside the answer


def cautions(scores: pd.DataFrame, rows: Sequence[Row]) -> list[Note]:
    """Return notes on short documents, unknown tokens and ties, without which the scores would mislead."""
    sentences = []
    for row in rows:
        if not row.is_base:
            continue
        cost = row.cost
        if row.trained_len is not None and 0 < cost.longest <= row.trained_len:
            sentences.append(
                f"Your documents are short: the longest has {cost.longest:,.0f} tokens, and {row.label} reads "
                f"{row.trained_len:,.0f}. A longer window changes nothing."
            )
        if cost.share_unknown >= UNKNOWN:
            sentences.append(
                f"{percent(cost.share_unknown)} of the documents' tokens are unknown to the tokenizer of {row.label}: "
                "they count as not read."
            )
    n_tied = scores.groupby("candidate")["is_tied"].sum()
    most = n_tied.idxmax()
    if n_tied[most]:
        (label,) = (row.label for row in rows if row.id == most)
        sentences.append(
            f"{label} has ties that affect its score ({n_tied[most]:,} queries): each such query counts with its mean "
            "over all orders of the tied documents."
        )
    return [Note("caution", sentence) for sentence in sentences]


def gate(scores: pd.DataFrame, setting: Setting, first: str, named: str) -> tuple[bool, str]:
    """Return whether a gate is open, and the difference as a sentence. It is closed if the whole interval is below 0.

    Args:
        scores: the scores of a comparison.
        setting: the data of the comparison.
        first: the id of the reference candidate.
        named: the id of the candidate that must not be worse.

    Raises:
        InputError: if one of them has no scores.
    """
    if not {first, named} <= set(scores["candidate"]):
        raise InputError(f"a gate needs two runs that have finished, got {first} and {named}.")
    points = resamples_of(scores, [first, named]).difference(first, named).scaled(100)
    is_open = not points.high < 0
    verdict = "is significantly below"
    if is_open:
        verdict = "is not significantly below"
    interval = f"{points.mean:+.1f} points (95 % interval {points.low:+.1f} to {points.high:+.1f})"
    return is_open, f"{named} {verdict} {first}: {interval} on {setting.queries}."


# ---- cost


def size_of(row: Row) -> tuple[float, bool]:
    """Return the bytes of a document's vectors, nan if not known, and whether it also needs a term index or model."""
    n_bytes = 0.0 if row.kind == "bm25" else float(row.cost.bytes or math.nan)
    return n_bytes, row.kind == "fusion" or bool(row.expand)


def operations_of(row: Row) -> float:
    """Return the operations to encode a document; nan if not known."""
    if row.kind == "bm25":
        return 0.0
    return math.nan if row.cost.flops is None else row.cost.flops


def cheapest(rows: Sequence[Row]) -> Row:
    """Return the candidate that stores least, of rows in descending order of scores.

    A candidate that stores less than the first one must not need more operations; one that stores as much must need
    fewer. Among candidates that store as much, the first one counts.
    """
    first = rows[0]
    best_of: dict[tuple[float, bool], Row] = {}
    for row in rows[1:]:
        needs_more = operations_of(row) > operations_of(first)
        has_less = size_of(row) < size_of(first) and not needs_more
        if has_less or (size_of(row) == size_of(first) and operations_of(row) < operations_of(first)):
            best_of.setdefault(size_of(row), row)
    return min(best_of.values(), key=size_of, default=first)


def cheapest_named(rows: Sequence[Row]) -> Row:
    """Return the cheapest candidate that may well be within the margin of the first one; else the first one.

    A class of cost is judged by its best candidate: if that one is not near, none of the class is named.
    """
    cheap = cheapest(rows)
    while cheap.id != rows[0].id and cheap.near_share < NAMED_SHARE:
        rows = [row for row in rows if size_of(row) != size_of(cheap) or row.id == rows[0].id]
        cheap = cheapest(rows)
    return cheap


# ---- sentences


def _use(verdict: Verdict, row: Row, rows: Sequence[Row]) -> str:
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
    if cheap.id == row.id:
        return sentence
    share = percent(cheap.near_share)
    return f"{sentence} {cheap.label} is cheaper, and less than {MARGIN:g} points behind in {share} of the resamples."


def _certainty(verdict: Verdict, row: Row, rows: Sequence[Row], setting: Setting) -> str:
    if verdict == "nothing":
        return (
            f"{setting.queries} cannot decide anything: judge {LEAST_QUERIES} or more, about different documents, and "
            "compare again."
        )
    if verdict == "only":
        return f"It scores {row.score.mean:.1f} on {setting.queries}."
    sentence = (
        f"It scores {row.score.mean:.1f} and is less than {MARGIN:g} points behind all others in "
        f"{percent(row.near_share)} of the resamples of {setting.queries}"
    )
    rivals = [one for one in rows if one.standing != BEHIND and one.near_share >= _LEAST_SHARE]
    rivals = sorted(rivals, key=lambda one: (-one.near_share, one.label))
    named = [f"{one.label} ({percent(one.near_share)})" for one in rivals if one.id != row.id]
    if len(named) > _NAMED:
        named[_NAMED:] = [f"{len(named) - _NAMED} more"]
    if verdict == "undecided" and named:
        sentence += f"; not separated from it: {', '.join(named)}"
    more = queries_to_separate(rows, setting.n_queries)
    if verdict != "undecided" or more is None:
        return f"{sentence}."
    if more > MOST_QUERIES:
        pair = rows[:2]
        cheaper = cheapest(pair)
        other = next(one for one in pair if one.id != cheaper.id)
        price = f"{cheaper.label} is the cheaper one"
        if size_of(cheaper) == size_of(other) and operations_of(cheaper) == operations_of(other):
            price = "they cost the same"
        return f"{sentence}. {pair[0].label} and {pair[1].label} are equal in practice; {price}."
    return f"{sentence}. About {_rounded(more)} more such queries would separate the first two."


def _rounded(n: int) -> str:
    """Round to two digits: it is an estimate.

    >>> _rounded(7), _rounded(1234)
    ('7', '1,200')
    """
    digits = max(len(str(n)) - 2, 0)
    return f"{round(n, -digits):,}"


def _price(row: Row, rows: Sequence[Row]) -> str:
    """Describe the cost of a candidate, and how much of the text it reads."""
    if row.kind == "bm25" and not row.expand:
        return "It encodes nothing and keeps no vectors; its index holds the terms."
    cost = row.cost
    parts = []
    if row.expand:
        parts.append(f"encodes each term once, about {cost.tokens:,.0f} tokens")
    times = times_base(row, rows)
    if times is not None and not row.is_base:
        parts.append(f"needs {times:.3g} times the operations of the base")
    if is_number(cost.bytes):
        text = ""
        if is_number(cost.text_bytes):
            text = f"for {cost.text_bytes / 1024:,.1f} KB of text "
        parts.append(f"keeps {cost.bytes / 1024:,.1f} KB of vectors {text}per document")
    if is_number(cost.share_read) and row.kind != "bm25":
        parts.append(f"reads {percent(cost.share_read)} of the text")
    if row.kind == "fusion":
        parts.append("has an index of terms too")
    if not parts:
        return "Its cost is not known here."
    return f"It {', '.join(parts)}."


def times_base(row: Row, rows: Sequence[Row]) -> float | None:
    """Return how many times the operations of its base a candidate needs for a document; None if not known."""
    for base in rows:
        if base.is_base and base.base == row.base and base.cost.flops and row.cost.flops is not None:
            return row.cost.flops / base.cost.flops
    return None


def type_next(row: Row, setting: Setting) -> str:
    """Return a command, or a line of Python, that uses a candidate by its full name.

    A name with search settings is a search, not a model; `load` does not load models of mteb's own.
    """
    typed = with_preset(absolute_name(row.id))
    if setting.corpus is not None:
        command = ["mteb-longembed", "search", typed, "--corpus", setting.corpus]
        if setting.language is not None:
            command += ["--language", setting.language]
        return f'{shlex.join(command)} "YOUR QUESTION"'
    # `mteb run -m bm25` is mteb's own BM25
    runs_in_mteb = row.kind == "api" or (row.kind == "bm25" and row.id != "bm25")
    if runs_in_mteb and setting.tasks:
        return shlex.join(["mteb", "run", "-m", typed, "-t", *setting.tasks])
    name = json.dumps(typed, ensure_ascii=False)
    if row.kind not in ("api", "bm25", "search", "fusion"):
        return f"mteb_longembed.load({name})"
    if setting.language is not None:
        name += f", language={json.dumps(setting.language)}"
    return f"mteb_longembed.search({name})"


def percent(share: float) -> str:
    """Format a share from 0 to 1 for a table or a sentence; only exact 0 and 1 become 0 % and 100 %.

    >>> percent(0.714), percent(0.9997), percent(0.0004), percent(1.0)
    ('71 %', '>99 %', '<1 %', '100 %')
    """
    if 0 < share <= 0.005:
        return "<1 %"
    if 0.995 <= share < 1:
        return ">99 %"
    return f"{100 * share:.0f} %"
