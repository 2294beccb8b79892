"""Queries for documents that have none: sentences drawn from the documents, as a proxy for real queries."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Mapping

from mteb_longembed.errors import DataError

#: The smallest and largest number of words of a sentence that becomes a query.
_WORDS = (6, 40)
_SENTENCE = re.compile(r"[^.!?\u3002\uff01\uff1f\n]+[.!?\u3002\uff01\uff1f]")
#: Words in each piece of text by which documents are compared.
_SHINGLE = 8
#: Documents that share more of their pieces than this are near-duplicates.
_SHARED = 0.2


def make_queries(
    corpus: Mapping[str, str], n_queries: int = 200, seed: int = 0
) -> tuple[dict[str, str], dict[str, dict[str, int]]]:
    """Draw sentences that only one document has. Documents that are near-duplicates of others give no sentence.

    Args:
        corpus: document id -> text.
        n_queries: number of queries wanted; each document gives at most one.
        seed: seed of the draw.

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
            f"to draw queries, a document needs a sentence of {_WORDS[0]} to {_WORDS[1]} words that no other "
            f"document has, but none of the {len(corpus)} documents has one: give --queries and --qrels."
        )
    return queries, relevant


def _shingles(text: str) -> set[int]:
    words = re.findall(r"\w+", text.lower())
    return {hash(tuple(words[i : i + _SHINGLE])) for i in range(max(len(words) - _SHINGLE + 1, 0))}
