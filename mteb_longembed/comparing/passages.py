"""Does a ranking show the passage that answers, and how much does one read until then?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from mteb.abstasks.retrieval import AbsTaskRetrieval
from scipy import stats

from mteb_longembed.data.check import Passages
from mteb_longembed.evaluation.scoring import texts_of
from mteb_longembed.retrieval.searcher import Searcher
from mteb_longembed.statistics.bootstrap import mean_of_means_interval
from mteb_longembed.statistics.intervals import CONFIDENCE, Interval

from .token_count import count_tokens

#: So many documents of each query are looked at.
DEPTH = 100
#: A passage answers if it covers this share of the characters of one judged passage.
COVERED = 0.5

#: Query id -> its documents, the best first: id, start and end of the best passage in characters, and its tokens.
ShownPassages = Mapping[str, Sequence[tuple[str, int, int, int]]]


@dataclass(frozen=True)
class PassageScores:
    """How well the passages of a candidate answer."""

    #: k -> percent of queries with an answer among the passages of the first k documents
    at: Mapping[int, Interval]
    #: median of the tokens of all passages down to the first that answers; infinite if it is not among `DEPTH`.
    tokens: Interval
    n_queries: int  # that have a judged passage


def show_passages(searcher: Searcher, task: AbsTaskRetrieval, split: str, judged: Passages) -> ShownPassages:
    """The best passage of each of the first documents, for each query with a judged passage.

    Args:
        searcher: an empty one; the documents are added here.
        task: a task that knows which passages answer.
        split: one of its splits.
        judged: the passages that answer.
    """
    (subset,) = task.hf_subsets  # tasks with passages have one
    data = task.dataset[subset][split]
    texts: dict[str, str] = dict(
        zip(data["corpus"]["id"], chain.from_iterable(texts_of(data["corpus"])), strict=True)
    )
    searcher.add(list(texts), list(texts.values()))
    shown = {}
    for query, question in zip(data["queries"]["id"], data["queries"]["text"], strict=True):
        if query in judged:
            passages = []
            for hit in searcher.search(question, DEPTH):
                # by words, so that it is the same for each candidate, whatever its tokenizer
                n_tokens = count_tokens(texts[hit.id][hit.start : hit.end])
                passages.append((hit.id, hit.start, hit.end, n_tokens))
            shown[query] = passages
    return shown


def first_answers(shown: ShownPassages, judged: Passages) -> dict[str, tuple[float, float]]:
    """For each query the rank of the first passage that answers, from 1, and the tokens read down to its end.

    Both are infinite if none answers.
    """
    answers = {}
    for query, passages in shown.items():
        answers[query] = (math.inf, math.inf)
        n_read = 0
        for rank, (name, start, end, n_tokens) in enumerate(passages, start=1):
            n_read += n_tokens
            if _covers_one(start, end, judged[query].get(name, ())):
                answers[query] = (float(rank), float(n_read))
                break
    return answers


def _covers_one(start: int, end: int, answers: Sequence[tuple[int, int]]) -> bool:
    """Whether a passage has at least `COVERED` of the characters of one that answers."""
    for answer_start, answer_end in answers:
        shared = min(end, answer_end) - max(start, answer_start)
        if shared >= COVERED * (answer_end - answer_start):
            return True
    return False


def score_passages(by_split: Sequence[Mapping[str, tuple[float, float]]]) -> PassageScores:
    """The scores of a candidate from the answers of each split; all splits weigh the same in the shares.

    Args:
        by_split: what `first_answers` gives for each split.
    """
    at = {}
    for k in (1, 5):
        shares = [[float(rank <= k) for rank, _ in answers.values()] for answers in by_split]
        at[k] = mean_of_means_interval(shares).scaled(100)
    tokens: list[float] = []
    for answers in by_split:
        tokens += [n_read for _, n_read in answers.values()]
    return PassageScores(at, _median(sorted(tokens)), len(tokens))


def _median(values: Sequence[float]) -> Interval:
    """The median, and the values between which the true one lies by the binomial distribution of ranks."""
    n = len(values)
    middle = (values[(n - 1) // 2] + values[n // 2]) / 2
    low = int(stats.binom.ppf((1 - CONFIDENCE) / 2, n, 0.5))
    return Interval(middle, values[max(low - 1, 0)], values[min(n - low, n - 1)])
