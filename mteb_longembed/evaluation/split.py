"""One split of a task: its documents, queries and judgements, and their identity."""

import copy
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from datasets import Dataset
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData
from mteb.abstasks.task_metadata import TaskMetadata

from mteb_longembed.data.stored_texts import Texts, stored_texts
from mteb_longembed.data.task import OwnData
from mteb_longembed.data.texts import data_identity, language_of, query_texts, texts_of, with_length
from mteb_longembed.errors import DataError
from mteb_longembed.evaluation.metrics import Metric, read_metric
from mteb_longembed.names import Settings
from mteb_longembed.retrieval.scorer import Documents


@dataclass(frozen=True, eq=False)
class Split:
    """One split of one subset of a task.

    Args:
        task: a copy of the task with only this split, and with the rule on identical ids.
        subset: the subset's name in mteb.
        split: the split's name in mteb.
        metrics: the first one ranks.
    """

    task: AbsTaskRetrieval
    subset: str
    split: str
    metrics: tuple[Metric, ...]

    @property
    def label(self) -> tuple[str, str]:
        """The names of task and split in tables; if the task has several subsets, the subset is part of it."""
        name = self.split
        if len(self.task.metadata.hf_subsets) > 1:
            name = f"{self.split} {self.subset}"
        return self.task.metadata.name, name

    @property
    def data(self) -> RetrievalSplitData:
        """The data that mteb loaded."""
        return self.task.dataset[self.subset][self.split]

    @property
    def corpus(self) -> Dataset:
        """The documents."""
        return self.data["corpus"]

    @cached_property
    def is_judged(self) -> bool:
        """Whether there is a judgement."""
        return any(self.data["relevant_docs"].values())

    @cached_property
    def judged(self) -> dict[str, Mapping[str, int]]:
        """The judgements of each judged query; of each query, if nothing is judged yet."""
        relevant = self.data["relevant_docs"]
        return {query: documents for query, documents in relevant.items() if documents or not self.is_judged}

    @property
    def judged_queries(self) -> dict[str, str]:
        """The text of each judged query."""
        return {query: text for query, text in self.queries.items() if query in self.judged}

    @cached_property
    def queries(self) -> dict[str, str]:
        """The text of each query, as models read it."""
        rows = self.data["queries"]
        return dict(zip(rows["id"], query_texts(rows, self.task.metadata), strict=True))

    @cached_property
    def documents(self) -> Documents:
        """The documents as models read them, title first."""
        return documents_of(self.corpus, self.task.metadata, self.subset)

    @property
    def kinds(self) -> Mapping[str, str]:
        """The kind of each query that has one, from the file of your own queries."""
        return self.task.kinds if isinstance(self.task, OwnData) else {}

    @cached_property
    def clusters(self) -> dict[str, list[str]]:
        """Cluster labels of judged queries: from their file, or else their relevant documents."""
        named = self.task.clusters if isinstance(self.task, OwnData) else {}
        clusters = {}
        for query, documents in self.judged.items():
            clusters[query] = sorted(document for document, grade in documents.items() if grade > 0)
            if query in named:
                clusters[query] = [f"cluster {named[query]}"]
        return clusters

    @cached_property
    def digest(self) -> str:
        """A hash of the data."""
        return data_identity(self.task, self.split, [self.subset])

    @cached_property
    def corpus_digest(self) -> str:
        """A hash of the documents and their language, whatever the queries."""
        digest = hashlib.sha256(self.documents.language.encode())
        for key, text in zip(self.documents.ids, self.documents.texts, strict=False):
            digest.update(with_length(key))
            digest.update(with_length(text))
        return digest.hexdigest()

    def left_out(self) -> list[str]:
        """Return notes on queries that are not scored and documents without text; none if there are none."""
        sentences = []
        if isinstance(self.task, OwnData):
            sentences += self.task.unjudged.get(self.split, [])
        name = ", ".join(self.label)
        n_empty = sum(not text.strip() for text in self.documents.texts)
        n_queries = len(self.queries)
        n_judged = len(self.judged_queries)
        if n_judged < n_queries:
            sentences.append(f"{name}: {n_queries - n_judged:,} of {n_queries:,} queries have no judgement.")
        if n_empty:
            sentences.append(f"{name}: {n_empty:,} of {len(self.corpus):,} documents have no text.")
        return sentences

    def identical_queries(self) -> list[str]:
        """Return a note if queries are documents too, with the same id and text, unless these are excluded.

        In one public data set all 30 queries are documents: nDCG@1 was 0.0 for every model.
        """
        if self.task.ignore_identical_ids:
            return []
        queries = self.judged_queries.items()
        texts = self.documents.texts
        index_of = self.documents.indices
        n = sum(texts[index_of[key]].strip() == text.strip() for key, text in queries if key in index_of)
        if not n:
            return []
        return [
            f"{', '.join(self.label)}: {n:,} of {len(queries):,} queries are documents too, with the same id and text, "
            "so that each finds itself first: --ignore-identical-ids leaves that document out (BEIR's rule)."
        ]


def splits_of(
    task: AbsTaskRetrieval, metrics: Sequence[Metric] = (), *, ignore_identical_ids: bool = False
) -> list[Split]:
    """Return the splits of a task, which is loaded and otherwise not changed.

    Args:
        task: any retrieval task.
        metrics: the first one ranks. Default: the task's main score.
        ignore_identical_ids: whether to ignore a document with the id of the query (BEIR's rule).

    Raises:
        DataError: if a split has no document.
    """
    if not task.data_loaded:
        task.load_data()
        task.convert_v1_dataset_format_to_v2(None)
    chosen = tuple(metrics) or (read_metric(task.metadata.main_score),)
    rule = ignore_identical_ids or task.ignore_identical_ids
    splits = []
    for split in task.eval_splits:
        for subset in task.hf_subsets:
            own = copy.copy(task)
            own.filter_eval_splits([split])
            own.hf_subsets = [subset]
            own.ignore_identical_ids = rule
            one = Split(own, subset, split, chosen)
            if not len(one.corpus):
                raise DataError(f"{', '.join(one.label)}: a corpus needs at least one document, got none.")
            splits.append(one)
    return splits


def documents_of(
    corpus: Dataset, metadata: TaskMetadata, subset: str, options: Settings | None = None
) -> Documents:
    """Return the documents of a task's corpus, as models read them, title first.

    Texts with titles are written to a temporary file; others are read in place, in most tasks from disk.
    """
    if "title" in corpus.column_names:
        table = stored_texts(zip(corpus["id"], chain.from_iterable(texts_of(corpus)), strict=True))
    else:
        table = corpus.select_columns(["id", "text"]).with_format("arrow")[:]
    language = language_of(metadata, subset)
    return Documents(table["id"].to_pylist(), Texts(table), language, metadata, options or {})
