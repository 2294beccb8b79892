"""Queries drawn from documents, where nobody has asked any yet: sentences that only one document has."""

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
#: Words, or characters where no spaces are, in each shingle by which documents are compared.
_SHINGLE = 8
#: Documents that share more of their shingles than this are near-duplicates.
_SHARED = 0.2


def draw_queries(
    corpus: Mapping[str, str], n_queries: int = 200, seed: int = 0, language: str = "eng"
) -> tuple[dict[str, str], dict[str, str]]:
    """Draw sentences that only one document has. Documents that are near-duplicates of others give no sentence.

    The answer is query id -> text, and query id -> id of the document that answers it.
    """
    by_character = language.partition("-")[0] in _NO_SPACES
    unit, (least, most) = ("characters", _CHARACTERS) if by_character else ("words", _WORDS)

    def words(text: str) -> list[str]:
        return re.findall(r"\w" if by_character else r"\w+", text.lower())

    def shingles(text: str) -> set[int]:
        tokens = words(text)
        return {hash(tuple(tokens[i : i + _SHINGLE])) for i in range(max(len(tokens) - _SHINGLE + 1, 0))}

    by_document = {name: shingles(text) for name, text in corpus.items()}
    counts = Counter(shingle for document in by_document.values() for shingle in document)
    distinct = sorted(
        name
        for name, document in by_document.items()
        if document and sum(counts[shingle] > 1 for shingle in document) <= _SHARED * len(document)
    )
    rng = random.Random(seed)
    queries: dict[str, str] = {}
    answers: dict[str, str] = {}
    for name in rng.sample(distinct, len(distinct)):
        if len(queries) == n_queries:
            break
        sentences = [match[0].strip() for match in _SENTENCE.finditer(corpus[name])]
        fitting = [
            sentence
            for sentence in dict.fromkeys(sentences)
            if least <= len(words(sentence) if by_character else sentence.split()) <= most
            and not any(counts[shingle] > 1 for shingle in shingles(sentence))
        ]
        if fitting:
            query = f"made-{len(queries)}"
            queries[query] = rng.choice(fitting)
            answers[query] = name
    if not queries:
        raise DataError(
            f"to draw queries, a document needs a sentence of {least} to {most} {unit} that no other "
            f"document has, but none of the {len(corpus)} documents has one: give --queries and --qrels."
        )
    return queries, answers
