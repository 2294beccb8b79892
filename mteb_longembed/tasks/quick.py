"""All our tasks, and `LongEmbed-quick`: a tenth of the queries of each, in minutes instead of hours on a CPU."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData

from mteb_longembed.tasks.generated.needle import LongEmbedNeedle
from mteb_longembed.tasks.generated.passkey import LongEmbedPasskey
from mteb_longembed.tasks.real.paper_tasks import REAL_TASKS

#: In the order of the paper's tables.
TASKS = (LongEmbedPasskey, LongEmbedNeedle, *REAL_TASKS)

_VERSION = "q1"  # raise it when the same data give another choice
_SHARE = 0.1
_FEWEST_DOCUMENTS = 20


def choose(
    relevant: Mapping[str, Mapping[str, int]], documents: list[str], key: str
) -> tuple[set[str], set[str]]:
    """The queries and documents of the quick form of one split.

    Documents come in the order of a hash. All queries of a document are taken, until a tenth of all queries is
    reached: queries of few documents cost less than as many queries of many documents. As many documents as are
    needed, and at least 20 together, stay beside them. The hash depends on the ids and on `key`.
    """
    order = sorted(documents, key=lambda name: hashlib.sha256(f"{_VERSION}/{key}/{name}".encode()).digest())
    asking: dict[str, list[str]] = {}
    for query, scores in relevant.items():
        first = min((name for name, score in scores.items() if score > 0), default=None)
        if first is not None:
            asking.setdefault(first, []).append(query)
    queries: set[str] = set()
    for name in order:
        if len(queries) >= _SHARE * len(relevant):
            break
        queries.update(asking.get(name, ()))
    needed = {name for query in queries for name, score in relevant[query].items() if score > 0}
    others = [name for name in order if name not in needed]
    return queries, needed | set(others[: max(len(needed), _FEWEST_DOCUMENTS - len(needed))])


class _Quick(AbsTaskRetrieval):
    """A mix-in that leaves a tenth of what its task has loaded."""

    def load_data(self, num_proc: int | None = None, **kwargs: Any) -> None:
        """Load the whole task, then keep what `choose` chooses."""
        if self.data_loaded:
            return
        super().load_data(num_proc, **kwargs)
        for split, data in self.dataset["default"].items():
            relevant = data["relevant_docs"]
            corpus = data["corpus"]
            asked = data["queries"]
            queries, documents = choose(relevant, corpus["id"][:], f"{self.metadata.name}/{split}")
            self.dataset["default"][split] = RetrievalSplitData(
                corpus=corpus.select([i for i, name in enumerate(corpus["id"]) if name in documents]),
                queries=asked.select([i for i, name in enumerate(asked["id"]) if name in queries]),
                relevant_docs={query: relevant[query] for query in relevant if query in queries},
                top_ranked=None,
            )


def _quick(task: type[AbsTaskRetrieval]) -> type[AbsTaskRetrieval]:
    full = task.metadata
    what = f"A tenth of the queries of {full.name}, the documents they need, and as many others."
    fields = {
        "name": f"{full.name}-quick",
        "description": f"{what} {full.description}",
        "dataset": {**full.dataset, "revision": f"{full.revision}-{_VERSION}"},
        "adapted_from": [full.name],
    }
    metadata = full.model_copy(update=fields)
    body = {"metadata": metadata, "__module__": __name__, "__doc__": metadata.description}
    # the class keeps its name, because the draws of generated documents depend on it
    return type(task.__name__, (_Quick, task), body)


QUICK_TASKS: tuple[type[AbsTaskRetrieval], ...] = tuple(map(_quick, TASKS))
