"""Does a ranking show the passage that answers, and how much text does a reader get with the first ones?"""

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
    scores: dict[str, dict[str, float]] = {}
    for query, passages in shown.items():
        answers = judged.get(query, {})
        covers = [_covers_one(start, end, answers.get(name, ())) for name, start, end, _ in passages]
        scores[query] = {}
        for k in AT:
            scores[query][f"passage@{k}"] = float(any(covers[:k]))
            scores[query][f"context@{k}"] = float(sum(n_tokens for *_, n_tokens in passages[:k]))
    return scores


def _covers_one(start: int, end: int, answers: Sequence[tuple[int, int]]) -> bool:
    """Whether a passage has at least `COVERED` of the characters of one that answers."""
    for answer_start, answer_end in answers:
        shared = min(end, answer_end) - max(start, answer_start)
        if shared >= COVERED * (answer_end - answer_start):
            return True
    return False
