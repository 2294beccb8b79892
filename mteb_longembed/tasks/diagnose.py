"""Does a task need long documents? Its score for each number of tokens that may be read, and where answers stand.

If BM25 gets nearly the same score from the first 512 tokens as from whole documents, the task says nothing about
long context. The paper (section 3) uses this argument against BEIR and LoCo.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mteb
from datasets import Dataset
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData
from mteb.models import MTEBModels

from mteb_longembed.statistics.bootstrap import mean_of_means_interval
from mteb_longembed.statistics.intervals import Interval
from mteb_longembed.tasks.cutting import Counter
from mteb_longembed.tasks.data_files import Passages
from mteb_longembed.tasks.mteb_parts import keep
from mteb_longembed.tasks.scoring import answer_depths, mean_over_ties, score_queries, texts_of

#: How many tokens of each document are read; then whole documents.
LENGTHS = (128, 512, 2048, 8192)
#: Enough is what gives this share of the score on whole documents.
ENOUGH = 0.95


@dataclass(frozen=True)
class Diagnosis:
    """The diagnosis of one task. Scores are in percent, tokens are words / 0.75.

    Args:
        task: the task's name.
        curve: the score by the number of tokens read of each document.
        whole: the score on whole documents.
        longer: the percentage of documents with more tokens than that, by the same numbers.
        n_documents: how many documents there are.
        longest: tokens of the longest one.
        thirds: the percentage of answers in the first, middle and last third of their document; empty if the data do
            not say where answers stand.
    """

    task: str
    curve: Mapping[int, Interval]
    whole: Interval
    longer: Mapping[int, float]
    n_documents: int
    longest: int
    thirds: Sequence[float] = field(default_factory=list)

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Diagnosis:
        """A diagnosis from JSON, in which the keys of mappings are texts."""
        curve = {int(length): Interval(**score) for length, score in saved["curve"].items()}
        longer = {int(length): share for length, share in saved["longer"].items()}
        whole = Interval(**saved["whole"])
        return cls(**{**saved, "curve": curve, "longer": longer, "whole": whole})

    @property
    def enough(self) -> int | None:
        """The smallest number of tokens that gives `ENOUGH` of the score on whole documents, None if none does."""
        wanted = ENOUGH * self.whole.mean
        return min((n for n, score in self.curve.items() if score.mean >= wanted), default=None)


def diagnose(
    task: AbsTaskRetrieval,
    model: MTEBModels,
    lengths: Sequence[int] = LENGTHS,
    passages: Mapping[str, Passages] | None = None,
) -> Diagnosis:
    """Score a task with its documents cut after each of these lengths, and whole. The task stays as it is.

    Args:
        task: a loaded task.
        model: any model that ranks documents; BM25 reads any length at once.
        lengths: tokens of a document. Those that cut no document are not scored anew.
        passages: by split, where the answers of each query are.
    """
    own = copy(task)
    own.dataset = {subset: dict(splits) for subset, splits in task.dataset.items()}
    # only the main score is needed; mteb's default of a thousand hits for each query is slower than the search
    depth = task.metadata.main_score.rpartition("_at_")[2]
    if depth.isdigit():
        own.k_values = tuple(sorted({1, int(depth)}))  # mteb itself needs the first rank
        keep(own, int(depth))
    parts = _parts(own)
    counter = Counter()
    measured = {}
    document_lens = []
    for key, data in parts.items():
        measured[key] = [counter.ends(text, lengths) for text in data["corpus"]["text"]]
        document_lens += [n_tokens for n_tokens, _ in measured[key]]
    longest = max(document_lens)
    whole = _score(own, model, parts)
    curve = {}
    longer = {}
    for index, length in enumerate(lengths):
        longer[length] = 100 * sum(n > length for n in document_lens) / len(document_lens)
        curve[length] = whole
        if length < longest:
            curve[length] = _score(own, model, _cut(parts, measured, index))
    return Diagnosis(
        task=task.metadata.name,
        curve=curve,
        whole=whole,
        longer=longer,
        n_documents=len(document_lens),
        longest=longest,
        thirds=_thirds(answer_places(task, passages or {})),
    )


def answer_places(task: AbsTaskRetrieval, passages: Mapping[str, Passages]) -> list[float]:
    """Where the answer of each query starts in its document, from 0 to 1; empty if the data do not say it."""
    places: list[float] = []
    for split in task.eval_splits:
        for subset in task.hf_subsets:
            places += answer_depths(task, split, subset).values()
    if places:
        return places
    for split, by_query in passages.items():
        (subset,) = task.hf_subsets  # tasks with passages have one
        lengths = {}
        corpus = task.dataset[subset][split]["corpus"]
        for name, text in zip(corpus["id"], corpus["text"], strict=True):
            lengths[name] = max(len(text), 1)
        for documents in by_query.values():
            for name, spans in documents.items():
                places += [start / lengths[name] for start, _ in spans[:1] if name in lengths]
    return places


def _thirds(places: Sequence[float]) -> list[float]:
    if not places:
        return []
    counts = [0, 0, 0]
    for place in places:
        counts[min(int(3 * place), 2)] += 1
    return [100 * count / len(places) for count in counts]


#: Subset and split -> documents, queries and judgements, as mteb keeps them.
_Parts = dict[tuple[str, str], RetrievalSplitData]
#: For each subset and split, and each of its documents: the number of tokens, and the characters at which to cut it.
_Measured = dict[tuple[str, str], list[tuple[int, list[int]]]]


def _parts(task: AbsTaskRetrieval) -> _Parts:
    """The data of each subset and split, its documents with one text as models read them."""
    parts = {}
    for subset in task.hf_subsets:
        for split in task.eval_splits:
            data = task.dataset[subset][split]
            texts: list[str] = []
            for batch in texts_of(data["corpus"]):
                texts += batch
            parts[subset, split] = _with_texts(data, texts)
    return parts


def _with_texts(data: RetrievalSplitData, texts: list[str]) -> RetrievalSplitData:
    return {**data, "corpus": Dataset.from_dict({"id": data["corpus"]["id"][:], "text": texts})}


def _cut(parts: _Parts, measured: _Measured, index: int) -> _Parts:
    """The data with each document cut at its end of this index."""
    cut = {}
    for key, data in parts.items():
        texts = []
        for text, (_, ends) in zip(data["corpus"]["text"], measured[key], strict=True):
            texts.append(text[: ends[index]])
        cut[key] = _with_texts(data, texts)
    return cut


def _score(task: AbsTaskRetrieval, model: MTEBModels, parts: _Parts) -> Interval:
    for (subset, split), data in parts.items():
        task.dataset[subset][split] = data.copy()  # mteb replaces entries while it evaluates
    with tempfile.TemporaryDirectory() as folder:
        # without the cache: these scores are not results of the task
        mteb.evaluate(
            model, task, cache=None, prediction_folder=folder, co2_tracker=False, show_progress_bar=False
        )
        (path,) = Path(folder).glob("*_predictions.json")
        rankings = json.loads(path.read_bytes())
    groups = []
    for split in task.eval_splits:
        by_subset = {subset: rankings[subset][split] for subset in task.hf_subsets}
        for (subset, name), data in parts.items():
            if name == split:
                task.dataset[subset][split] = data.copy()
        scores = score_queries(task, split, by_subset) | mean_over_ties(task, split, by_subset)
        groups.append(list(scores.values()))
    return mean_of_means_interval(groups).scaled(100)
