"""The four tasks with real documents, from the hub's `dwzhu/LongEmbed` or a folder of the same layout.

The layout is `NAME/corpus.jsonl` {doc_id, text}, `NAME/queries.jsonl` {qid, text} and `NAME/qrels.jsonl`
{qid, doc_id}; each file may also be `.jsonl.gz`. The files have different columns, which `datasets.load_dataset`
does not accept in one configuration. So each file is downloaded and read on its own.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData

from mteb_longembed.data.check import read_documents, read_judgements, read_queries
from mteb_longembed.data.text_table import text_table
from mteb_longembed.data.texts import K_VALUES
from mteb_longembed.errors import DataError, HubError, UnknownNameError
from mteb_longembed.hub import find
from mteb_longembed.tasks.task_metadata import CITATION, LongEmbedMetadata

REPOSITORY = "dwzhu/LongEmbed"
REVISION = "6e346642246bfb4928c560ee08640dc84d074e8c"
#: The data set of a task, without its folder name.
DATASET = {"path": REPOSITORY, "revision": REVISION}
DATA_VARIABLE = "MTEB_LONGEMBED_DATA"  # a folder with the same layout, used instead of the hub


def metadata_of(theirs: type[AbsTaskRetrieval], **ours: object) -> LongEmbedMetadata:
    """Return mteb's metadata of the same documents, updated by ours; fields that affect scores are always ours."""
    fields = {
        "eval_splits": ["test"],
        "eval_langs": ["eng-Latn"],
        "main_score": "ndcg_at_10",
        "adapted_from": [theirs.metadata.name],
        "bibtex_citation": f"{theirs.metadata.bibtex_citation}{CITATION}",
    }
    return LongEmbedMetadata.model_validate({**theirs.metadata.model_dump(), **fields, **ours})


@dataclass(frozen=True)
class Size:
    """The size of the published data, to check that a task never runs on other data under the same name."""

    n_documents: int
    document_chars: float
    n_queries: int
    query_chars: float

    def check(self, name: str, documents: Mapping[str, str], queries: Mapping[str, str]) -> None:
        """Raise DataError if a count differs, or an average length by more than one percent."""
        for what, texts, n, chars in (
            ("documents", documents, self.n_documents, self.document_chars),
            ("queries", queries, self.n_queries, self.query_chars),
        ):
            mean_chars = sum(map(len, texts.values())) / len(texts)
            if len(texts) != n or abs(mean_chars - chars) > 0.01 * chars:
                raise DataError(
                    f"{name}: expected the published {n} {what} of {chars:.0f} characters on average, found "
                    f"{len(texts)} of {mean_chars:.0f}: these are other data."
                )


class HubRetrieval(AbsTaskRetrieval):
    """A task of `dwzhu/LongEmbed`. A subclass defines its data set (in its metadata) and its published size."""

    metadata: LongEmbedMetadata
    size: ClassVar[Size | None]
    k_values = K_VALUES

    def load_data(self, num_proc: int | None = None, **kwargs: object) -> None:
        """Load the data.

        Raises:
            UnknownNameError: `eval_splits` has a split that is not the task's only split.
            HubError, DataError: a file cannot be downloaded; the data are damaged or not the published ones.
        """
        if self.data_loaded:
            return
        (split,) = self.metadata.eval_splits
        if others := set(self.eval_splits) - {split}:
            raise UnknownNameError(f"split of {self.metadata.name}", min(others), [split])
        corpus, queries, judged = self.read(split)
        if self.size is not None:
            dataset = self.metadata.dataset
            self.size.check(f"{dataset['path']} at {dataset['revision'][:7]}, {split}", corpus, queries)
        data = RetrievalSplitData(
            corpus=text_table(corpus), queries=text_table(queries), relevant_docs=judged, top_ranked=None
        )
        self.dataset = {"default": {split: data}}
        self.data_loaded = True

    def read(self, split: str) -> tuple[dict[str, str], dict[str, str], dict[str, dict[str, int]]]:
        """Read documents and queries by id, and the judgements."""
        folder = self.metadata.dataset["name"]
        corpus = read_documents(*locate(folder, "corpus"))
        queries = read_queries(*locate(folder, "queries"))
        path, shown = locate(folder, "qrels")
        judged = read_judgements(path, queries, corpus, shown)
        unanswered = [query for query in queries if not any(judged.get(query, {}).values())]
        if unanswered:
            raise DataError(
                f"{shown}: expected a relevant document for every query, but {len(unanswered)} queries have none, "
                f"the first one is {unanswered[0]!r}."
            )
        return corpus, queries, judged


def locate(folder: str, kind: str) -> tuple[Path, str]:
    """Return a file's path and its name in messages: in MTEB_LONGEMBED_DATA if that is set, else from the hub.

    Raises:
        DataError, HubError: the folder, or else the hub, has no such file or cannot be read.
    """
    names = [f"{folder}/{kind}.jsonl", f"{folder}/{kind}.jsonl.gz"]
    if local := os.environ.get(DATA_VARIABLE):
        for name in names:
            path = Path(local).expanduser() / name
            if path.is_file():
                return path, str(path)
        raise DataError(
            f"{DATA_VARIABLE}={local}: expected {names[0]} or .jsonl.gz in that folder, found neither of them."
        )
    try:
        for name in names:
            file = find(REPOSITORY, name, REVISION, repo_type="dataset")
            if file is not None:
                return file, f"{REPOSITORY}/{name}"
    except HubError as error:
        raise HubError(f"{error} {DATA_VARIABLE} can name a folder with {folder}/*.jsonl.") from error
    raise HubError(f"{names[0]} of the data set {REPOSITORY} does not exist at {REVISION[:7]}.")
