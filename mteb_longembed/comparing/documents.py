"""The documents of a comparison: queries drawn from them, and a part of a corpus that is too big to embed."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

import mteb
from mteb.abstasks.retrieval import AbsTaskRetrieval

from mteb_longembed.comparing.candidates import BM25
from mteb_longembed.errors import DataError, InputError
from mteb_longembed.retrieval.fusion import check_bm25

#: The smallest and largest number of words of a sentence that becomes a query; of characters, where no spaces are.
_WORDS = (6, 40)
_CHARACTERS = (10, 80)
#: Languages that are written without spaces between words.
_NO_SPACES = ("zho", "cmn", "yue", "jpn", "tha", "khm", "mya", "bod", "lao")
_SENTENCE = re.compile(r"[^.!?\u3002\uff01\uff1f\n]+[.!?\u3002\uff01\uff1f]")
#: Words, or characters where no spaces are, in each piece of text by which documents are compared.
_SHINGLE = 8
#: Documents that share more of their pieces than this are near-duplicates.
_SHARED = 0.2


def make_queries(
    corpus: Mapping[str, str], n_queries: int = 200, seed: int = 0, language: str = "eng"
) -> tuple[dict[str, str], dict[str, dict[str, int]]]:
    """Draw sentences that only one document has. Documents that are near-duplicates of others give no sentence.

    The answer is query id -> text, and query id -> the document that answers it.
    """
    by_character = language.partition("-")[0] in _NO_SPACES
    unit, (least, most) = ("characters", _CHARACTERS) if by_character else ("words", _WORDS)

    def words(text: str) -> list[str]:
        return re.findall(r"\w" if by_character else r"\w+", text.lower())

    def pieces_of(text: str) -> set[int]:
        found = words(text)
        return {hash(tuple(found[i : i + _SHINGLE])) for i in range(max(len(found) - _SHINGLE + 1, 0))}

    pieces = {name: pieces_of(text) for name, text in corpus.items()}
    seen = Counter(piece for found in pieces.values() for piece in found)
    own = {
        name: found
        for name, found in pieces.items()
        if found and sum(seen[piece] > 1 for piece in found) <= _SHARED * len(found)
    }
    rng = random.Random(seed)
    queries: dict[str, str] = {}
    relevant: dict[str, dict[str, int]] = {}
    for name in rng.sample(sorted(own), len(own)):
        if len(queries) == n_queries:
            break
        sentences = [found[0].strip() for found in _SENTENCE.finditer(corpus[name])]
        fitting = [
            sentence
            for sentence in dict.fromkeys(sentences)
            if least <= len(words(sentence) if by_character else sentence.split()) <= most
            and not any(seen[p] > 1 for p in pieces_of(sentence))
        ]
        if fitting:
            query = f"made-{len(queries)}"
            queries[query] = rng.choice(fitting)
            relevant[query] = {name: 1}
    if not queries:
        raise DataError(
            f"to draw queries, a document needs a sentence of {least} to {most} {unit} that no other "
            f"document has, but none of the {len(corpus)} documents has one: give --queries and --qrels."
        )
    return queries, relevant


#: So many of BM25's best documents of each query may become hard negatives.
_RANKS = 100


def take_sample(task: AbsTaskRetrieval, n_documents: int, seed: int = 0) -> list[str]:
    """Leave at most so many documents in each corpus of a task, which gets a name of its own.

    All judged documents stay. One half of the rest are BM25's best other documents, all queries' first ones before
    the second ones. The other half are drawn.
    The answer is one sentence for each corpus that became smaller.
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
