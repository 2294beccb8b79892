"""Metrics of a ranking, averaged over all orders of documents with equal scores.

trec_eval orders equal scores by document id, so that new ids change the score. Without ties, the metrics are defined as
in trec_eval.

Source: McSherry & Najork 2008, Computing information retrieval performance measures efficiently in the presence of
    tied scores, https://doi.org/10.1007/978-3-540-78646-7_38.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mteb_longembed.errors import InputError

#: ir_measures' names of metrics.
_METRICS = ("nDCG", "R", "P", "AP", "RR", "Success")
#: Other names of metrics, in lower case -> names of ir_measures.
_NAMES = {name.lower(): name for name in _METRICS} | {
    "recall": "R",
    "precision": "P",
    "map": "AP",
    "mrr": "RR",
    "hit_rate": "Success",
}
#: Scores that we compute are equal if they differ by at most this share of the query's largest: the error of a product.
#: Scores of other programs are taken literally.
TOLERANCE = 1e-6


class Metric(NamedTuple):
    """A metric (nDCG, R, P, AP, RR or Success) of the first `rank` documents."""

    name: str
    rank: int

    def __str__(self) -> str:
        return f"{self.name}@{self.rank}"


def read_metric(text: str) -> Metric:
    """Parse a metric at a rank, in the spelling of ir_measures or mteb, ignoring case.

    >>> read_metric("NDCG@10") == read_metric("ndcg_at_10"), str(read_metric("MRR@5"))
    (True, 'RR@5')

    Raises:
        InputError: if it is not one of nDCG, R, P, AP, RR and Success at a rank.
    """
    name, _, rank = text.replace("_at_", "@").rpartition("@")
    canonical = _NAMES.get(name.lower())
    if canonical is None or not rank.isdecimal() or not 1 <= int(rank) <= 1_000_000:
        raise InputError(
            f"a metric must be one of {', '.join(_METRICS)} at a rank, such as nDCG@10, got {text!r}."
        )
    return Metric(canonical, int(rank))


class Tie(NamedTuple):
    """Documents with equal scores, or one document: the number of documents above them, and their grades.

    A missing or negative grade is 0.
    """

    before: int
    grades: list[int]

    @property
    def size(self) -> int:
        """The number of documents."""
        return len(self.grades)

    @property
    def n_relevant(self) -> int:
        """The number of relevant documents."""
        return sum(grade > 0 for grade in self.grades)

    def n_within(self, rank: int) -> int:
        """Count the documents at this rank or above."""
        return min(max(rank - self.before, 0), self.size)


def group_ties(documents: Mapping[str, float], judged: Mapping[str, int], tolerance: float) -> list[Tie]:
    """Group the documents of a ranking, the highest score first, by equal scores.

    Args:
        documents: scores by document id.
        judged: grades of judged documents by id.
        tolerance: as `TOLERANCE`; 0 for scores that are taken literally.
    """
    order = sorted(documents, key=lambda name: -documents[name])
    room = tolerance * max((abs(score) for score in documents.values()), default=0.0)
    ties: list[Tie] = []
    for index, name in enumerate(order):
        grade = max(judged.get(name, 0), 0)
        if ties and documents[order[index - 1]] - documents[name] <= room:
            ties[-1].grades.append(grade)
        else:
            ties.append(Tie(index, [grade]))
    return ties


def decide_score(ties: Sequence[Tie], rank: int) -> bool:
    """Return whether the order of equal scores can change a metric at this rank."""
    return any(tie.before < rank and len(set(tie.grades)) > 1 for tie in ties)


def expected_score(metric: Metric, ties: Sequence[Tie], judged: Mapping[str, int]) -> float:
    """Average a metric over all orders of equal scores, from 0 to 1. A grade above 0 is relevant."""
    name, rank = metric
    n_relevant = sum(grade > 0 for grade in judged.values())
    if not n_relevant:
        return 0.0
    if name == "nDCG":
        ideal = sorted((float(max(grade, 0)) for grade in judged.values()), reverse=True)
        means: list[float] = []
        for tie in ties:
            means += [sum(tie.grades) / tie.size] * tie.size
        return _discounted(means, rank) / _discounted(ideal, rank)
    if name == "AP":
        return _precision_sum(ties, rank) / n_relevant
    if name == "RR":
        return sum(chance / position for position, chance in _first_relevant(ties, rank).items())
    if name == "Success":
        return sum(_first_relevant(ties, rank).values())
    n_found = sum(tie.n_relevant * tie.n_within(rank) / tie.size for tie in ties)
    if name == "P":
        return n_found / rank
    return n_found / n_relevant


def _discounted(gains: Sequence[float], rank: int) -> float:
    return sum(gain / math.log2(position + 1) for position, gain in enumerate(gains[:rank], start=1))


def _precision_sum(ties: Sequence[Tie], rank: int) -> float:
    """Compute the sum of the precisions at relevant documents."""
    total = 0.0
    n_before = 0
    for tie in ties:
        share = tie.n_relevant / tie.size
        # the share of relevant documents among the others of the tie, given a relevant one
        others = (tie.n_relevant - 1) / max(tie.size - 1, 1)
        for position in range(tie.n_within(rank)):
            total += share * (n_before + 1 + position * others) / (tie.before + position + 1)
        n_before += tie.n_relevant
    return total


def _first_relevant(ties: Sequence[Tie], rank: int) -> dict[int, float]:
    """Return the possible ranks of the first relevant document, up to a cutoff, with their probabilities."""
    tie = next((tie for tie in ties if tie.n_relevant), None)
    if tie is None:
        return {}
    chances = {}
    for position in range(1, tie.n_within(rank) + 1):
        # all other relevant documents come after it
        chance = math.comb(tie.size - position, tie.n_relevant - 1) / math.comb(tie.size, tie.n_relevant)
        chances[tie.before + position] = chance
    return chances
