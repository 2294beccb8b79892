"""Queries for documents that have none: sentences drawn from the documents, as a proxy for real queries."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Mapping

from mteb_longembed.errors import DataError

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

    Args:
        corpus: document id -> text.
        n_queries: number of queries wanted; each document gives at most one.
        seed: seed of the draw.
        language: as in mteb; without spaces between words (Chinese, Japanese), characters count instead of words.

    Returns:
        Query id -> text, and query id -> the document that answers it.

    Raises:
        DataError: if no document has such a sentence.
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
