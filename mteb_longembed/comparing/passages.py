"""Does a ranking show the passage that answers, and how much does one read until then?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain

from mteb.abstasks.retrieval import AbsTaskRetrieval
from scipy import stats

from mteb_longembed.retrieval.searcher import Searcher
from mteb_longembed.statistics.bootstrap import mean_of_means_interval
from mteb_longembed.statistics.intervals import CONFIDENCE, Interval
from mteb_longembed.tasks.cutting import Counter
from mteb_longembed.tasks.data_files import Passages
from mteb_longembed.tasks.scoring import texts_of

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
    """The best passage of each of the first documents, for each query with a judged passage; the searcher is empty."""
    (subset,) = task.hf_subsets  # tasks with passages have one
    data = task.dataset[subset][split]
    texts = dict(zip(data["corpus"]["id"], chain.from_iterable(texts_of(data["corpus"])), strict=True))
    counter = Counter()
    searcher.add(list(texts), list(texts.values()))
    asked = dict(zip(data["queries"]["id"], data["queries"]["text"], strict=True))
    return {
        query: [
            (hit.id, hit.start, hit.end, counter.ends(texts[hit.id][hit.start : hit.end], [])[0])
            for hit in searcher.search(asked[query], DEPTH)
        ]
        for query in judged
        if query in asked
    }


def first_answers(shown: ShownPassages, judged: Passages) -> dict[str, tuple[float, float]]:
    """For each query the rank of the first passage that answers, from 1, and the tokens read down to its end."""
    answers = {}
    for query, passages in shown.items():
        read = accumulate(n for *_, n in passages)
        ranks = (
            (float(rank), float(n))
            for rank, ((name, start, end, _), n) in enumerate(zip(passages, read, strict=True), start=1)
            if any(
                min(end, last) - max(start, first) >= COVERED * (last - first)
                for first, last in judged[query].get(name, ())
            )
        )
        answers[query] = next(ranks, (math.inf, math.inf))
    return answers


def score_passages(by_split: Sequence[Mapping[str, tuple[float, float]]]) -> PassageScores:
    """The scores of a candidate from the answers of each split; all splits weigh the same in the shares."""
    ranks = [[rank for rank, _ in answers.values()] for answers in by_split]
    answered = {k: [[float(rank <= k) for rank in split] for split in ranks] for k in (1, 5)}
    at = {k: mean_of_means_interval(shares).scaled(100) for k, shares in answered.items()}
    tokens = sorted(n for answers in by_split for _, n in answers.values())
    return PassageScores(at, _median(tokens), len(tokens))


def _median(values: Sequence[float]) -> Interval:
    """The median, and the values between which the true one lies by the binomial distribution of ranks."""
    n = len(values)
    middle = (values[(n - 1) // 2] + values[n // 2]) / 2
    low = int(stats.binom.ppf((1 - CONFIDENCE) / 2, n, 0.5))
    return Interval(middle, values[max(low - 1, 0)], values[min(n - low, n - 1)])
