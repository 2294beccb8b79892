"""A part of a corpus that is too big to embed often: judged documents, hard ones for BM25, and random ones."""

from __future__ import annotations

import random
from itertools import chain, zip_longest
from typing import Any, cast

import mteb
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.models import SearchProtocol

from mteb_longembed.comparing.candidates import BM25
from mteb_longembed.errors import InputError

#: So many of BM25's best documents of each query may become hard negatives.
_RANKS = 100


def take_sample(task: AbsTaskRetrieval, n_documents: int, seed: int = 0) -> list[str]:
    """Leave at most so many documents in each corpus of a task, which gets a name of its own.

    All judged documents stay. One half of the rest are BM25's best other documents, all queries' first ones before
    the second ones. The other half are drawn.

    Args:
        task: a loaded task; it is changed.
        n_documents: of each corpus.
        seed: of what is drawn.

    Returns:
        One sentence for each corpus that became smaller.

    Raises:
        InputError: if the judged documents alone are more.
    """
    sentences = []
    for split in task.eval_splits:
        for subset in task.hf_subsets:
            sentences += _sample_split(task, subset, split, n_documents, seed)
    if sentences:
        # mteb finds results by name: those of a sample must not be found as those of the whole task
        name = f"{task.metadata.name}-sample{n_documents}"
        task.metadata = task.metadata.model_copy(update={"name": name})
    return sentences


def _sample_split(task: AbsTaskRetrieval, subset: str, split: str, n_documents: int, seed: int) -> list[str]:
    """Make one corpus smaller; a sentence about it, none if it is small enough."""
    data = task.dataset[subset][split]
    ids = data["corpus"]["id"][:]
    judged: set[str] = set()
    for documents in data["relevant_docs"].values():
        judged.update(documents)
    least = max(len(judged), 1)
    if least > n_documents:
        raise InputError(
            f"--sample must be at least {least:,} documents, the judged ones of {task.metadata.name}, {split}, got "
            f"{n_documents:,}."
        )
    if len(ids) <= n_documents:
        return []
    kept = _sampled_ids(task, subset, split, judged, n_documents, seed)
    top_ranked = data["top_ranked"]
    if top_ranked:
        top_ranked = {query: [name for name in names if name in kept] for query, names in top_ranked.items()}
    task.dataset[subset][split] = {
        **data,
        "corpus": data["corpus"].select([index for index, name in enumerate(ids) if name in kept]),
        "top_ranked": top_ranked,
    }
    return [
        f"{task.metadata.name}, {split}: a sample of {len(kept):,} of {len(ids):,} documents: scores are higher than "
        "on all."
    ]


def _sampled_ids(
    task: AbsTaskRetrieval, subset: str, split: str, judged: set[str], n_documents: int, seed: int
) -> set[str]:
    """The ids of the documents that stay: judged ones, hard ones, and drawn ones."""
    data = task.dataset[subset][split]
    corpus = data["corpus"]
    kept = judged & set(corpus["id"])
    model = cast("SearchProtocol", mteb.get_model(BM25))
    options: dict[str, Any] = {"task_metadata": task.metadata, "hf_split": split, "hf_subset": subset}
    options |= {"encode_kwargs": {}, "num_proc": None}
    model.index(corpus, **options)
    results = model.search(data["queries"], top_k=min(_RANKS, len(corpus)), **options)
    by_query = [sorted(scores, key=lambda name: (-scores[name], name)) for scores in results.values()]
    n_hard = len(kept) + (n_documents - len(kept)) // 2
    for name in chain.from_iterable(zip_longest(*by_query)):
        if len(kept) >= n_hard:
            break
        if name is not None:
            kept.add(name)
    others = [name for name in corpus["id"] if name not in kept]
    return kept | set(random.Random(seed).sample(others, n_documents - len(kept)))
