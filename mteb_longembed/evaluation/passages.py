"""Does a ranking show the passage that answers, and how much text does a reader get with the first ones?"""

import math
from collections.abc import Mapping, Sequence

from .split import Passages

#: A passage answers if it covers this share of the characters of one judged passage.
COVERED = 0.5
#: The first k documents whose passages are looked at.
AT = (1, 5)

#: Query id -> its documents, the best first: id, start and end of the best passage in characters, and its tokens.
ShownPassages = Mapping[str, Sequence[tuple[str, int, int, int]]]


def score_passages(shown: ShownPassages, judged: Passages) -> dict[str, dict[str, float]]:
    """For each judged query, by the name of a column: passage@k and the tokens of the first k passages.

    passage@k is 1 if, among the best passage of each of the first k documents, one answers. `context@k` is what a
    reader, or a language model, then gets.
    """
    scores = {}
    for query, passages in shown.items():
        rank = _first_answer(passages, judged.get(query, {}))
        of_query = {}
        for k in AT:
            of_query[f"passage@{k}"] = float(rank <= k)
            of_query[f"context@{k}"] = float(sum(n_tokens for *_, n_tokens in passages[:k]))
        scores[query] = of_query
    return scores


def _first_answer(
    passages: Sequence[tuple[str, int, int, int]], answers: Mapping[str, Sequence[tuple[int, int]]]
) -> float:
    """The rank of the first passage that answers, from 1; infinite if none does."""
    for rank, (name, start, end, _) in enumerate(passages, start=1):
        if _covers_one(start, end, answers.get(name, ())):
            return rank
    return math.inf


def _covers_one(start: int, end: int, answers: Sequence[tuple[int, int]]) -> bool:
    """Whether a passage has at least `COVERED` of the characters of one that answers."""
    for answer_start, answer_end in answers:
        shared = min(end, answer_end) - max(start, answer_start)
        if shared >= COVERED * (answer_end - answer_start):
            return True
    return False
