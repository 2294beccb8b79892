"""What is behind the means: single queries on which two candidates differ."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import mteb
import pandas as pd
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData

from mteb_longembed.comparing.costs import Key
from mteb_longembed.comparing.evaluations import Evaluations
from mteb_longembed.comparing.ranking import Row
from mteb_longembed.data.check import Passages
from mteb_longembed.evaluation import scoring

#: So many queries are shown.
N_QUERIES = 10
#: So many characters of a query are shown, and so many of a passage.
_SHOWN = 120
_PASSAGE = 240
#: Query and document -> start and end of the passage that a candidate shows, then the answers in this document.
_Shown = Mapping[tuple[str, str | None], tuple[int, int, Sequence[tuple[int, int]]]]
#: Reads the rankings of a candidate and its passages, by its name, the task and the split.
_Read = Callable[[str, AbsTaskRetrieval, str], tuple[scoring.Rankings, _Shown]]


@dataclass(frozen=True)
class Side:
    """What one candidate found for a query."""

    score: float  # in percent
    #: the rank of its best relevant document from 1, None if none is in the ranking that is kept.
    rank: int | None
    relevant: str  # the id of that document; without a rank, of the most relevant one
    first: str | None  # the id of the document at rank 1, None if there is none
    passage: str = ""  # where passages are judged, the one of that document, shortened around the answer
    answer: tuple[int, int] | None = None  # the characters of it that answer


@dataclass(frozen=True)
class QueryDifference:
    """A query on which the best candidate and another one differ."""

    task: str  # the task's name
    split: str  # the split
    query: str  # the query's id
    text: str  # its text, shortened
    points: float  # the score of the best minus the other's, from -100 to 100
    best: Side  # what the best found
    other: Side  # what the other one found


def differences(
    evaluations: Evaluations,
    tasks: Sequence[AbsTaskRetrieval],
    rows: Sequence[Row],
    scores: pd.DataFrame,
    best_name: str,
    judged: Mapping[Key, Passages],
) -> dict[str, list[QueryDifference]]:
    """The queries on which the best differs most from its base, and from BM25; the largest differences first.

    They are by the name of the other one. If neither the base nor BM25 is another one, it is the next in the ranking.

    Args:
        evaluations: where rankings are.
        tasks: loaded tasks.
        rows: the candidates, the best first.
        scores: one row for each query of each candidate, see `evaluations.COLUMNS`.
        best_name: the name of the best.
        judged: passages are shown of the splits that it has.
    """
    best = next(row.candidate for row in rows if row.name == best_name)
    others = [row for row in rows if row.candidate is not best]
    references = [
        row for row in others if row.is_bm25 or (row.candidate.is_base and row.candidate.base == best.base)
    ]
    # many queries share one file
    read = functools.cache(functools.partial(_rankings_and_passages, evaluations, judged))
    by_name = {task.metadata.name: task for task in tasks}
    made = {}
    for row in references or others[:1]:
        made[row.name] = _between(read, by_name, scores, best_name, row.name)
    return made


def _between(
    read: _Read, tasks: Mapping[str, AbsTaskRetrieval], scores: pd.DataFrame, best: str, other: str
) -> list[QueryDifference]:
    """The queries on which two candidates differ most, the largest difference first."""
    keys = ["task", "split", "query"]
    both = scores[scores["candidate"] == best].merge(
        scores[scores["candidate"] == other], on=keys, suffixes=("", "_other")
    )
    both["points"] = both["score"] - both["score_other"]
    both = both[both["points"] != 0]
    both = both.reindex(both["points"].abs().sort_values(ascending=False, kind="stable").index)
    largest = []
    for row in both.head(N_QUERIES).itertuples():
        task = tasks[str(row.task)]
        split, query = str(row.split), str(row.query)
        subset, query_id = _subset(task, query)
        queries = task.dataset[subset][split]["queries"]
        text = " ".join(queries[queries["id"][:].index(query_id)]["text"].split())
        if len(text) > _SHOWN:
            text = f"{text[: _SHOWN - 1]}…"
        largest.append(
            QueryDifference(
                task=task.metadata.name,
                split=split,
                query=query,
                text=text,
                points=100 * float(row.points),
                best=_side(read, task, split, query, best, float(row.score)),
                other=_side(read, task, split, query, other, float(row.score_other)),
            )
        )
    return largest


def _side(read: _Read, task: AbsTaskRetrieval, split: str, query: str, name: str, score: float) -> Side:
    """What a candidate found for a query: the rank of the best relevant document, and the first document."""
    subset, query_id = _subset(task, query)
    rankings, shown = read(name, task, split)
    order = scoring.ranked(task, query_id, rankings[subset].get(query_id, {}))
    relevant = _relevant(task.dataset[subset][split], query_id)
    rank = next((rank for rank, document in enumerate(order, start=1) if document in relevant), None)
    first = next(iter(order), None)
    corpus = task.dataset[subset][split]["corpus"]
    passage = ""
    answer = None
    where = shown.get((query_id, first))
    if where is not None:
        ((text,),) = scoring.texts_of(corpus.select([corpus["id"][:].index(first)]))
        passage, answer = _shortened(text, *where)
    best_relevant = relevant[0] if rank is None else order[rank - 1]
    return Side(100 * score, rank, best_relevant, first, passage, answer)


def _shortened(
    text: str, start: int, end: int, answers: Sequence[tuple[int, int]]
) -> tuple[str, tuple[int, int] | None]:
    """A passage of a text, at most `_PASSAGE` characters around the answer in it, and the place of this answer."""
    inside = [(start, start), *((max(start, first), min(end, last)) for first, last in answers)]
    first, last = max(inside, key=lambda span: span[1] - span[0])
    low = max(start, min(first - max(_PASSAGE - (last - first), 0) // 2, end - _PASSAGE))
    high = min(end, low + _PASSAGE)
    last = min(last, high)
    head = _one_line(text[low:first])
    answer = _one_line(text[first:last])
    tail = _one_line(text[last:high])
    if low > start:
        head = f"…{head}"
    if high < end:
        tail = f"{tail}…"
    place = None
    if answer:
        place = (len(head), len(head) + len(answer))
    return f"{head}{answer}{tail}", place


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def _subset(task: AbsTaskRetrieval, query: str) -> tuple[str, str]:
    """A query's subset, and its id there: with several subsets, the keys of scores start with the subset."""
    if len(task.hf_subsets) == 1:
        return task.hf_subsets[0], query
    subset = next(subset for subset in task.hf_subsets if query.startswith(f"{subset}/"))
    return subset, query.removeprefix(f"{subset}/")


def _relevant(data: RetrievalSplitData, query: str) -> list[str]:
    """The ids of a query's relevant documents, the most relevant first; of all judged ones if none is relevant."""
    judged = data["relevant_docs"][query]
    order = sorted(judged, key=lambda document: -judged[document])
    return [document for document in order if judged[document] > 0] or order


def _rankings_and_passages(
    evaluations: Evaluations, judged: Mapping[Key, Passages], name: str, task: AbsTaskRetrieval, split: str
) -> tuple[scoring.Rankings, _Shown]:
    answers = judged.get((task.metadata.name, split), {})
    shown = None
    if answers:
        shown = evaluations.find_passages(mteb.get_model_meta(name), task, split, answers, True)
    places: dict[tuple[str, str | None], tuple[int, int, Sequence[tuple[int, int]]]] = {}
    for query, documents in (shown or {}).items():
        for document, start, end, _ in documents:
            places[query, document] = (start, end, answers.get(query, {}).get(document, ()))
    return _rankings(evaluations, name, task, split), places


def _rankings(evaluations: Evaluations, name: str, task: AbsTaskRetrieval, split: str) -> scoring.Rankings:
    rankings = evaluations.rankings(mteb.get_model_meta(name), task, split)
    assert rankings is not None  # the candidate has its scores from them
    return rankings
