"""What is behind the means: single queries on which two candidates differ, and the scores by depth of the answers."""

from __future__ import annotations

import functools
import heapq
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import mteb
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData

from mteb_longembed.comparing.candidates import Candidate
from mteb_longembed.comparing.costs import Key
from mteb_longembed.comparing.evaluations import Evaluations
from mteb_longembed.comparing.ranking import Row, Scores
from mteb_longembed.statistics.sensitivity import Sensitivity, position_sensitivity
from mteb_longembed.tasks import scoring
from mteb_longembed.tasks.data_files import Passages

#: So many queries are shown, with so many characters, and so many of a passage.
N_QUERIES = 10
_SHOWN, _PASSAGE = 120, 240
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
    scores: Mapping[Candidate, Scores],
    best_name: str,
    judged: Mapping[Key, Passages],
) -> dict[str, list[QueryDifference]]:
    """The queries on which the best differs most from its base, and from BM25; the largest differences first.

    They are by the name of the other one. If neither the base nor BM25 is another one, it is the next in the ranking.
    Passages are shown of the splits that `judged` has.
    """
    best = next(row.candidate for row in rows if row.name == best_name)
    others = [row for row in rows if row.candidate is not best]
    references = [
        row for row in others if row.is_bm25 or (row.candidate.is_base and row.candidate.base == best.base)
    ]
    # many queries share one file
    read = functools.cache(functools.partial(_rankings_and_passages, evaluations, judged))
    return {
        row.name: _between(read, tasks, (best_name, scores[best]), (row.name, scores[row.candidate]))
        for row in references or others[:1]
    }


def sensitivities(
    evaluations: Evaluations, tasks: Sequence[AbsTaskRetrieval], rows: Sequence[Row]
) -> list[tuple[str, str, int, Sensitivity]]:
    """Candidate, task, number of queries and position sensitivity, where documents say the depth of their answers.

    It is that of nDCG@1, for which an answer is right or wrong.
    """
    table = []
    for task in tasks:
        depths = {
            (split, subset): scoring.answer_depths(task, split, subset)
            for split in task.eval_splits
            for subset in task.hf_subsets
        }
        for row in rows if all(depths.values()) else ():
            pairs = []
            for (split, subset), by_query in depths.items():
                rankings = {subset: _rankings(evaluations, row.name, task, split)[subset]}
                scores = scoring.score_queries(task, split, rankings, scoring.read_metric("nDCG@1"))
                pairs += [(score, by_query[query]) for query, score in scores.items()]
            points, at_depths = zip(*pairs, strict=True)
            if (sensitivity := position_sensitivity(points, at_depths)) is not None:
                table.append((row.name, task.metadata.name, len(pairs), sensitivity))
    return table


def _between(
    read: _Read, tasks: Sequence[AbsTaskRetrieval], best: tuple[str, Scores], other: tuple[str, Scores]
) -> list[QueryDifference]:
    differing = (
        (score - other[1][task.metadata.name, split][query], query, split, task)
        for task in tasks
        for split in task.eval_splits
        for query, score in best[1][task.metadata.name, split].items()
    )
    largest = []
    for points, query, split, task in heapq.nlargest(N_QUERIES, differing, key=lambda item: abs(item[0])):
        if points:
            subset, query_id = _subset(task, query)
            queries = task.dataset[subset][split]["queries"]
            text = " ".join(queries[queries["id"][:].index(query_id)]["text"].split())
            short = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
            sides = (_side(read, task, split, query, *one) for one in (best, other))
            largest.append(QueryDifference(task.metadata.name, split, query, short, 100 * points, *sides))
    return largest


def _side(read: _Read, task: AbsTaskRetrieval, split: str, query: str, name: str, scores: Scores) -> Side:
    subset, query_id = _subset(task, query)
    rankings, shown = read(name, task, split)
    order = scoring.ranked(task, query_id, rankings[subset].get(query_id, {}))
    relevant = _relevant(task.dataset[subset][split], query_id)
    rank = next((rank for rank, document in enumerate(order, start=1) if document in relevant), None)
    score = 100 * scores[task.metadata.name, split][query]
    first, corpus = next(iter(order), None), task.dataset[subset][split]["corpus"]
    passage: tuple[str, tuple[int, int] | None] = "", None
    if where := shown.get((query_id, first)):
        ((text,),) = scoring.texts_of(corpus.select([corpus["id"][:].index(first)]))
        passage = _shortened(text, *where)
    return Side(score, rank, order[rank - 1] if rank else relevant[0], first, *passage)


def _shortened(
    text: str, start: int, end: int, answers: Sequence[tuple[int, int]]
) -> tuple[str, tuple[int, int] | None]:
    """A passage of a text, at most `_PASSAGE` characters around the answer in it, and the place of this answer."""
    inside = [(start, start), *((max(start, first), min(end, last)) for first, last in answers)]
    first, last = max(inside, key=lambda span: span[1] - span[0])
    low = max(start, min(first - max(_PASSAGE - (last - first), 0) // 2, end - _PASSAGE))
    high = min(end, low + _PASSAGE)
    pieces = (text[low:first], text[first : min(last, high)], text[min(last, high) : high])
    head, answer, tail = (re.sub(r"\s+", " ", piece) for piece in pieces)
    head = f"{'…' * (low > start)}{head}"
    answer_ends = (len(head), len(head) + len(answer)) if answer else None
    return f"{head}{answer}{tail}{'…' * (high < end)}", answer_ends


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
    meta, answers = mteb.get_model_meta(name), judged.get((task.metadata.name, split), {})
    shown = evaluations.find_passages(meta, task, split, answers, True) if answers else None
    return _rankings(evaluations, name, task, split), {
        (query, document): (start, end, answers.get(query, {}).get(document, ()))
        for query, documents in (shown or {}).items()
        for document, start, end, _ in documents
    }


def _rankings(evaluations: Evaluations, name: str, task: AbsTaskRetrieval, split: str) -> scoring.Rankings:
    rankings = evaluations.rankings(mteb.get_model_meta(name), task, split)
    assert rankings is not None  # the candidate has its scores from them
    return rankings
