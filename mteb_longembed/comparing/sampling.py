"""A part of a corpus that is too big to embed: the judged documents, hard ones, and random ones."""

from __future__ import annotations

import random
from itertools import zip_longest
from typing import Any

import mteb
from mteb.abstasks.retrieval import AbsTaskRetrieval

from mteb_longembed.comparing.candidates import BM25
from mteb_longembed.errors import InputError

#: So many of BM25's best documents of each query may become hard negatives.
_RANKS = 100


def take_sample(task: AbsTaskRetrieval, n_documents: int, seed: int = 0) -> list[str]:
    """Leave at most so many documents in each corpus of a task, which gets a name of its own.

    All judged documents stay. One half of the rest are BM25's best other documents, all queries' first ones before
    the second ones. The other half are drawn.

    Args:
        task: the task, with its data loaded; it is changed.
        n_documents: how many documents stay in each corpus; one with fewer documents is not changed.
        seed: seed of the draw.

    Returns:
        One sentence for each corpus that became smaller.

    Raises:
        InputError: if judged documents alone are more than `n_documents`, or it is below 1.
        ModelError: if the packages of BM25 are not installed.
    """
    said = []
    for split in task.eval_splits:
        for subset in task.hf_subsets:
            data = task.dataset[subset][split]
            n_all = len(data["corpus"])
            judged = {name for documents in data["relevant_docs"].values() for name in documents}
            if max(len(judged), 1) > n_documents:
                raise InputError(
                    f"--sample must be at least {max(len(judged), 1):,} documents, the judged ones of "
                    f"{task.metadata.name}, {split}, got {n_documents:,}."
                )
            if n_all <= n_documents:
                continue
            kept = _chosen(task, subset, split, judged, n_documents, seed)
            places = [place for place, name in enumerate(data["corpus"]["id"]) if name in kept]
            ranked = data["top_ranked"]
            task.dataset[subset][split] = {
                **data,
                "corpus": data["corpus"].select(places),
                "top_ranked": ranked
                and {q: [name for name in names if name in kept] for q, names in ranked.items()},
            }
            said.append(
                f"{task.metadata.name}, {split}: a sample of {len(places):,} of {n_all:,} documents: scores are higher "
                "than on all."
            )
    if said:
        # mteb finds results by name: those of a sample must not be found as those of the whole task
        name = f"{task.metadata.name}-sample{n_documents}"
        task.metadata = task.metadata.model_copy(update={"name": name})
    return said


def _chosen(
    task: AbsTaskRetrieval, subset: str, split: str, judged: set[str], n_documents: int, seed: int
) -> set[str]:
    from mteb_longembed.retrieval.fusion import check_bm25

    check_bm25()
    data = task.dataset[subset][split]
    corpus, queries = data["corpus"], data["queries"]
    kept = judged & set(corpus["id"])
    rng = random.Random(seed)
    model: Any = mteb.get_model(BM25)
    where = {"task_metadata": task.metadata, "hf_split": split, "hf_subset": subset, "encode_kwargs": {}}
    model.index(corpus, **where)
    found = model.search(queries, top_k=min(_RANKS, len(corpus)), **where)
    by_query = [sorted(scores, key=lambda name: (-scores[name], name)) for scores in found.values()]
    half = len(kept) + (n_documents - len(kept)) // 2
    for name in (name for rank in zip_longest(*by_query) for name in rank if name is not None):
        if len(kept) >= half:
            break
        kept.add(name)
    rest = [name for name in corpus["id"] if name not in kept]
    return kept | set(rng.sample(rest, n_documents - len(kept)))
