"""A part of a corpus that is too big to embed often: judged documents, hard ones for BM25, and random ones."""

import copy
import random
from dataclasses import replace
from itertools import chain, filterfalse, zip_longest
from typing import Any

from mteb_longembed.errors import InputError
from mteb_longembed.retrieval.mteb_search import best_documents
from mteb_longembed.retrieval.passage_bm25 import PassageBM25

from .split import Split

#: So many of BM25's best documents of each query may become hard negatives.
_RANKS = 100


def sampled(split: Split, n_documents: int, seed: int = 0) -> tuple[Split, str]:
    """The split with at most so many documents, and a sentence about it; the split itself if it is small enough.

    All judged documents stay. One half of the rest are BM25's best other documents, all queries' first ones before
    the second ones. The other half are drawn with the seed. The task of a sample has a name of its own.

    Raises:
        InputError: if the judged documents alone are more.
    """
    ids = split.corpus["id"][:]
    judged = set(chain.from_iterable(split.judged.values()))
    least = max(len(judged), 1)
    if least > n_documents:
        raise InputError(
            f"--sample must be at least {least:,} documents, the judged ones of {', '.join(split.label)}, got "
            f"{n_documents:,}."
        )
    if len(ids) <= n_documents:
        return split, ""
    kept = _sampled_ids(split, judged, n_documents, seed)
    top_ranked = split.data["top_ranked"]
    if top_ranked:
        top_ranked = {query: [name for name in names if name in kept] for query, names in top_ranked.items()}
    numbers = [index for index, name in enumerate(ids) if name in kept]
    task = copy.copy(split.task)
    data: Any = {**split.data, "corpus": split.corpus.select(numbers), "top_ranked": top_ranked}
    task.dataset = {split.subset: {split.split: data}}
    # mteb finds results by name: those of a sample must not be found as those of the whole task
    name = f"{task.metadata.name}-sample{n_documents}"
    task.metadata = task.metadata.model_copy(update={"name": name})
    name = ", ".join(split.label)
    sentence = f"{name}: a sample of {len(kept):,} of {len(ids):,} documents: scores are higher than on all."
    return replace(split, task=task), sentence


def _sampled_ids(split: Split, judged: set[str], n_documents: int, seed: int) -> set[str]:
    """The ids of the documents that stay: judged ones, hard ones, and drawn ones."""
    corpus = split.corpus
    kept = judged & set(corpus["id"])
    scorer = PassageBM25()
    scorer.fit(split.documents)
    queries = list(split.queries.values())
    by_query = []
    for scores, numbers in best_documents(scorer, queries, min(_RANKS, len(corpus)), len(corpus)):
        pairs = [(-score, split.documents.ids[number]) for score, number in zip(scores, numbers, strict=True)]
        by_query.append([name for _, name in sorted(pairs)])
    n_hard = len(kept) + (n_documents - len(kept)) // 2
    for name in chain.from_iterable(zip_longest(*by_query)):
        if len(kept) >= n_hard:
            break
        if name is not None:
            kept.add(name)
    others = list(filterfalse(kept.__contains__, corpus["id"]))
    return kept | set(random.Random(seed).sample(others, n_documents - len(kept)))
