"""One split of a task: its documents, queries and judgements, their identity, and the scores of a ranking."""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import pandas as pd
from datasets import Dataset
from ir_measures import Measure
from mteb.abstasks.retrieval import AbsTaskRetrieval

from mteb_longembed.errors import DataError
from mteb_longembed.evaluation.scoring import Ranking, main_metric, mean_over_ties, score_queries
from mteb_longembed.evaluation.ties import TOLERANCE

#: Query id -> document id -> start and end of each passage that answers, in characters.
Passages = Mapping[str, Mapping[str, Sequence[tuple[int, int]]]]


@dataclass(frozen=True, eq=False)
class Split:
    """One split of one subset of a task.

    Args:
        task: a copy of the task that has only this split, and the rule by which rankings are scored.
        subset: the subset's name in mteb.
        split: the split's name in mteb.
        metrics: the first one ranks.
        changes_rule: whether the rule is not the task's own, so that its scores are not those of a plain mteb run.
    """

    task: AbsTaskRetrieval
    subset: str
    split: str
    metrics: tuple[Measure, ...]
    changes_rule: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """The names of task and split in tables; if the task has several subsets, the subset is part of it."""
        name = self.split
        if len(self.task.metadata.hf_subsets) > 1:
            name = f"{self.split} {self.subset}"
        return self.task.metadata.name, name

    @property
    def data(self) -> Any:
        """What mteb loaded."""
        return self.task.dataset[self.subset][self.split]

    @property
    def options(self) -> Any:
        """What mteb hands to searches beside the texts."""
        names = {"hf_split": self.split, "hf_subset": self.subset}
        return {"task_metadata": self.task.metadata, **names, "encode_kwargs": {}, "num_proc": None}

    @property
    def corpus(self) -> Dataset:
        """The documents."""
        return self.data["corpus"]

    @cached_property
    def judged(self) -> dict[str, dict[str, int]]:
        """The judgements of each query that has any."""
        return {query: documents for query, documents in self.data["relevant_docs"].items() if documents}

    @property
    def judged_queries(self) -> dict[str, str]:
        """The text of each query that has judgements."""
        return {query: text for query, text in self.queries.items() if query in self.judged}

    @property
    def n_kept(self) -> int:
        """How many documents of each query a search keeps, the best ones."""
        return int(self.task._top_k)

    @cached_property
    def queries(self) -> dict[str, str]:
        """The text of each query."""
        rows = self.data["queries"]
        return dict(zip(rows["id"], rows["text"], strict=True))

    @cached_property
    def passages(self) -> Passages:
        """The passages that answer, where the task knows them."""
        if not hasattr(self.task, "passages"):
            return {}
        # a generated split is made again for them
        found: Passages = self.task.passages(self.split)
        return found

    @cached_property
    def digest(self) -> str:
        """A hash of all that was loaded."""
        return data_identity(self.task, self.split, [self.subset])

    def texts(self) -> Iterator[str]:
        """The documents as models read them: title first."""
        return chain.from_iterable(texts_of(self.corpus))

    def text(self, document: str) -> str:
        """The document with this id."""
        return self.text_at(self._numbers[document])

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.corpus["id"])}

    def text_at(self, number: int) -> str:
        """The document with this number in the corpus."""
        ((text,),) = texts_of(self.corpus.select([number]))
        return text

    def counted(self, ranked: Ranking) -> dict[str, dict[str, float]]:
        """The documents of each judged query that mteb scores."""
        return {query: self._counted(ranked, query) for query in self.judged}

    def _counted(self, ranked: Ranking, query: str) -> dict[str, float]:
        """The documents of one query that mteb scores."""
        documents = {name: float(score) for name, score in ranked.get(query, {}).items()}
        if getattr(self.task, "ignore_identical_ids", False):
            documents.pop(query, None)
        if getattr(self.task, "skip_first_result", False):
            documents = dict(sorted(documents.items(), key=lambda item: item[1], reverse=True)[1:])
        return documents

    def score(self, ranked: Ranking) -> pd.DataFrame:
        """One row for each judged query.

        `score` is that of the first metric, from 0 to 1; `is_tied` says that the order of documents with equal scores
        decided, so that the score is a mean over all orders. Other metrics follow under their own names.

        Raises:
            DataError: if no query has a relevant document.
        """
        judged = self.judged
        if not any(max(documents.values()) > 0 for documents in judged.values()):
            raise DataError(f"{', '.join(self.key)}: no query has a relevant document to be scored by.")
        counted = self.counted(ranked)
        task, split = self.key
        table = pd.DataFrame({"task": task, "split": split, "query": list(judged)})
        for number, metric in enumerate(self.metrics):
            tied = mean_over_ties(judged, counted, metric)
            scores = score_queries(judged, counted, metric) | tied
            if number == 0:
                table["score"] = table["query"].map(scores)
                table["is_tied"] = table["query"].isin(list(tied))
            else:
                table[str(metric)] = table["query"].map(scores)
        return table

    def is_complete(self, ranked: object) -> bool:
        """Whether a ranking from the disk has every judged query, known documents and finite scores."""
        if not isinstance(ranked, dict) or not self.judged_queries.keys() <= ranked.keys():
            return False
        known = set(self.corpus["id"])
        for documents in ranked.values():
            if not isinstance(documents, dict) or not documents.keys() <= known:
                return False
            if not all(type(x) in (int, float) and math.isfinite(x) for x in documents.values()):
                return False
        return True

    def is_cut_in_a_tie(self, ranked: Ranking) -> bool:
        """Whether a ranking ends among documents with equal scores that reach up to a rank that counts."""
        n_documents = len(self.corpus)
        if self.n_kept >= n_documents:
            return False
        deepest = max(metric["cutoff"] for metric in self.metrics)
        for documents in self.counted(ranked).values():
            scores = sorted(documents.values(), reverse=True)
            if not scores:
                continue
            least_that_counts = scores[min(deepest, len(scores)) - 1]
            if least_that_counts - scores[-1] <= TOLERANCE * max(map(abs, scores)):
                return True
        return False

    def with_all_documents(self) -> Split:
        """The same split, for a search that keeps every document."""
        task = copy.copy(self.task)
        task._top_k = len(self.corpus)
        return Split(task, self.subset, self.split, self.metrics, self.changes_rule)

    def left_out(self) -> list[str]:
        """Sentences about queries that are not scored and documents without text; none if there are none."""
        sentences = list(getattr(self.task, "unjudged", {}).get(self.split, ()))
        name = ", ".join(self.key)
        n_empty = sum(not text for text in self.texts())
        asked = len(self.queries)
        n_unjudged = asked - len(self.judged_queries)
        if n_unjudged:
            sentences.append(
                f"{name}: {n_unjudged:,} of {asked:,} queries have no judgement and are not scored."
            )
        if n_empty:
            sentences.append(f"{name}: {n_empty:,} of {len(self.corpus):,} documents have no text.")
        return sentences

    def identical_queries(self) -> list[str]:
        """That queries are documents too, with the same id and text, where the rule does not leave these out.

        In one public data set all 30 queries are such: nDCG@1 was 0.0 for every model.
        """
        if getattr(self.task, "ignore_identical_ids", False):
            return []
        asked = self.judged_queries.items()
        n = sum(self.text(query) == str(text).strip() for query, text in asked if query in self._numbers)
        if not n:
            return []
        return [
            f"{', '.join(self.key)}: {n:,} of {len(asked):,} queries are documents too, with the same id and text, so "
            "that each finds itself first: --ignore-identical-ids leaves that document out (BEIR's rule)."
        ]


def splits_of(
    task: AbsTaskRetrieval, metrics: Sequence[Measure] = (), *, ignore_identical_ids: bool = False
) -> list[Split]:
    """The splits of a task, which is loaded and stays as it is otherwise.

    Args:
        task: any retrieval task.
        metrics: the first one ranks. Default: the task's main score.
        ignore_identical_ids: whether a document with the id of the query does not count (BEIR's rule).

    Raises:
        DataError: if a split has no document.
    """
    if not task.data_loaded:
        task.load_data()
        task.convert_v1_dataset_format_to_v2(None)
    chosen = tuple(metrics) or (main_metric(task),)
    rule = ignore_identical_ids or getattr(task, "ignore_identical_ids", False)
    # one more, because the document with the id of the query may not count
    ranks = {metric["cutoff"] + int(rule) for metric in chosen}
    splits = []
    for split in task.eval_splits:
        for subset in task.hf_subsets:
            own = copy.copy(task)
            own.filter_eval_splits([split])
            own.hf_subsets = [subset]
            own.k_values = tuple(sorted({*task.k_values, *ranks}))
            changes_rule = rule != getattr(task, "ignore_identical_ids", False)
            own.ignore_identical_ids = rule
            own._top_k = max(task._top_k, *ranks)
            made = Split(own, subset, split, chosen, changes_rule)
            if not len(made.corpus):
                raise DataError(f"{', '.join(made.key)}: a corpus needs at least one document, got none.")
            splits.append(made)
    return splits


def data_identity(task: AbsTaskRetrieval, split: str, subsets: Sequence[str] | None = None) -> str:
    """A hash of all that was loaded of a split: documents, queries, judgements and candidates.

    What a score was made from decides, not a name or a revision. So data in another format have the same identity.
    """
    digest = hashlib.sha256(split.encode())

    def add(*fields: Any) -> None:
        for field in fields:
            text = field
            if not isinstance(field, str):
                text = json.dumps(field, sort_keys=True)
            raw = text.encode("utf-8", "surrogatepass")
            digest.update(b"%d:" % len(raw))
            digest.update(raw)

    for subset in subsets or task.hf_subsets:
        data = task.dataset[subset][split]
        add(subset, task.metadata.eval_langs)
        corpus = data["corpus"]
        queries = data["queries"]
        for rows, columns in ((corpus, ("title", "text")), (queries, ("text", "instruction"))):
            is_corpus = rows is corpus
            add(is_corpus)
            present = [name for name in ("id", *columns) if name in rows.column_names]
            for batch in rows.select_columns(present).iter(batch_size=256):
                for values in zip(*(batch[name] for name in present), strict=True):
                    if is_corpus or data["relevant_docs"].get(values[0]):  # mteb drops the other queries
                        add(*values)
        for query, documents in sorted(data["relevant_docs"].items()):
            if documents:
                add(query, documents)
        for query, names in sorted((data["top_ranked"] or {}).items()):
            add(query, sorted(names))
    return digest.hexdigest()


def texts_of(rows: Dataset) -> Iterator[list[str]]:
    """The documents of a corpus in batches, as models read them: title first."""
    columns = [name for name in ("title", "text") if name in rows.column_names]
    for batch in rows.select_columns(columns).iter(batch_size=64):
        rows_of_batch = zip(*(batch[name] for name in columns), strict=True)
        yield [_joined(values) for values in rows_of_batch]


def _joined(values: tuple[str | None, ...]) -> str:
    return " ".join(value or "" for value in values).strip()
