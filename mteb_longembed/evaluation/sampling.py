"""Sample a corpus that is too large to embed often: judged documents, hard negatives by BM25, and random ones."""

import copy
import random
from dataclasses import replace
from itertools import chain, zip_longest

from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData

from mteb_longembed.errors import InputError
from mteb_longembed.retrieval.index import Index
from mteb_longembed.retrieval.ranking import best_documents

from .split import Split

#: Maximum rank by BM25 of a query's hard negatives.
_RANKS = 100


def sampled(split: Split, n_documents: int, seed: int = 0) -> tuple[Split, list[str]]:
    """Return the split with at most `n_documents` documents, and a note; the split itself and no note if it is small.

    All judged documents are kept. One half of the others are BM25's best unjudged documents, rank by rank over all
    queries. The other half are sampled with the seed. The task of a sample has a name of its own.

    Raises:
        InputError: if the judged documents alone are more than `n_documents`.
    """
    ids = split.corpus["id"][:]
    judged = set(chain.from_iterable(split.judged.values()))
    name = ", ".join(split.label)
    if max(len(judged), 1) > n_documents:
        raise InputError(
            f"--sample must be at least {max(len(judged), 1):,} documents, the judged ones of {name}, got "
            f"{n_documents:,}."
        )
    if len(ids) <= n_documents:
        return split, []
    kept = _sampled_ids(split, judged & set(ids), n_documents, seed)
    indices = [index for index, key in enumerate(ids) if key in kept]
    task = copy.copy(split.task)
    data: RetrievalSplitData = {**split.data, "corpus": split.corpus.select(indices)}
    task.dataset = {split.subset: {split.split: data}}
    # mteb finds results by name: results of a sample must not pass for results of the whole task
    update = {"name": f"{task.metadata.name}-sample{n_documents}"}
    task.metadata = task.metadata.model_copy(update=update)
    sentence = f"{name}: a sample of {len(kept):,} of {len(ids):,} documents: scores are higher than on all."
    return replace(split, task=task), [sentence]


def _sampled_ids(split: Split, kept: set[str], n_documents: int, seed: int) -> set[str]:
    """Return the ids of the sampled documents: required ones, hard negatives and random ones."""
    ids = split.documents.ids
    scorer = Index.of_bm25()
    scorer.fit(split.documents)
    by_query = []
    for best in best_documents(scorer, list(split.queries.values()), _RANKS, len(ids)):
        pairs = [(-score, ids[index]) for score, index in best]
        by_query.append([key for _, key in sorted(pairs)])
    n_hard = len(kept) + (n_documents - len(kept)) // 2
    for key in chain.from_iterable(zip_longest(*by_query)):
        if len(kept) < n_hard and key is not None:
            kept.add(key)
    others = [key for key in ids if key not in kept]
    return kept | set(random.Random(seed).sample(others, n_documents - len(kept)))
