"""Queries for documents without any: sentences drawn from the documents themselves, a proxy."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Mapping

from mteb_longembed.errors import DataError

#: Words of a sentence that serves as a query.
_WORDS = (6, 40)
_SENTENCE = re.compile(r"[^.!?\u3002\uff01\uff1f\n]+[.!?\u3002\uff01\uff1f]")
#: Words of the pieces by which documents are compared.
_SHINGLE = 8
#: Documents that share more of their pieces than this are near-duplicates.
_SHARED = 0.2


def make_queries(
    corpus: Mapping[str, str], n_queries: int = 200, seed: int = 0
) -> tuple[dict[str, str], dict[str, dict[str, int]]]:
    """Draw sentences that stand in one document only, from documents that are no near-duplicates of others.

    Args:
        corpus: document id -> text.
        n_queries: how many are wanted; one a document at most.
        seed: of the draw.

    Returns:
        Query id -> text, and query id -> the document that answers it.

    Raises:
        DataError: if no document has such a sentence.
    """
    pieces = {name: _shingles(text) for name, text in corpus.items()}
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
            if _WORDS[0] <= len(sentence.split()) <= _WORDS[1]
            and not any(seen[p] > 1 for p in _shingles(sentence))
        ]
        if fitting:
            query = f"made-{len(queries)}"
            queries[query] = rng.choice(fitting)
            relevant[query] = {name: 1}
    if not queries:
        raise DataError(
            f"queries are drawn from documents with sentences of {_WORDS[0]} to {_WORDS[1]} words that stand in no "
            f"other document, and none of the {len(corpus)} documents has one."
        )
    return queries, relevant


def _shingles(text: str) -> set[int]:
    words = re.findall(r"\w+", text.lower())
    return {hash(tuple(words[i : i + _SHINGLE])) for i in range(max(len(words) - _SHINGLE + 1, 0))}
