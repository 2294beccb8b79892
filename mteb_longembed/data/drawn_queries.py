"""Queries drawn from documents, where nobody has asked any yet: sentences that only one document has."""

import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from mteb_longembed.errors import DataError
from mteb_longembed.sentences import is_complete, sentences

#: Languages that are written without spaces between words.
_NO_SPACES = ("zho", "cmn", "yue", "jpn", "mya", "bod")
#: And without marks: a space ends a sentence.
_NO_MARKS = ("tha", "khm", "lao")
#: Words, or characters where no spaces are, in each shingle by which documents are compared.
_SHINGLE = 8
#: Documents that share more of their shingles than this are near-duplicates.
_SHARED = 0.2
#: Characters of the documents that may give a sentence: their shingles are in memory.
_MOST = 20_000_000


@dataclass(frozen=True)
class _Script:
    """How a language is cut into units. A sentence that becomes a query has from `least` to `most` of them."""

    units: str  #: what they are, in words
    least: int
    most: int
    pattern: str  #: finds a unit for shingles
    has_spaces: bool  #: whether units stand between spaces
    has_marks: bool = True  #: whether a mark ends a sentence

    def sentences(self, text: str) -> list[str]:
        """The sentences of a text. A heading without a mark at its end is none."""
        if not self.has_marks:
            return text.split()
        return [sentence for sentence in sentences(text) if is_complete(sentence)]

    def parts(self, text: str) -> list[str]:
        """The units of a text, in small letters."""
        return re.findall(self.pattern, text.lower())

    def shingles(self, text: str) -> set[int]:
        """Hashes of each run of `_SHINGLE` units."""
        parts = self.parts(text)
        starts = range(max(len(parts) - _SHINGLE + 1, 0))
        return {hash(tuple(parts[start : start + _SHINGLE])) for start in starts}

    def is_long_enough(self, sentence: str) -> bool:
        """Whether a sentence may become a query."""
        units = self.parts(sentence)
        if self.has_spaces:
            units = sentence.split()
        return self.least <= len(units) <= self.most


_WITH_SPACES = _Script("words", 6, 40, r"\w+", has_spaces=True)
_WITHOUT_SPACES = _Script("characters", 10, 80, r"\w", has_spaces=False)
_WITHOUT_MARKS = _Script("characters", 10, 80, r"\w", has_spaces=False, has_marks=False)


def draw_queries(
    ids: Sequence[str], texts: Sequence[str], n_queries: int = 200, seed: int = 0, language: str = "eng"
) -> tuple[dict[str, str], dict[str, str]]:
    """Draw sentences that only one document has. Documents that are near-duplicates of others give no sentence.

    Args:
        ids: of the documents.
        texts: the documents, in memory or on disk; all are read. Of many, drawn ones give sentences.
        n_queries: how many at most, each from another document.
        seed: of the drawing.
        language: such as `deu` or `zho-Hans`.

    Returns:
        Query id -> text, and query id -> id of the document that answers it.

    Raises:
        DataError: if no document has such a sentence.
    """
    script = _WITH_SPACES
    code = language.partition("-")[0]
    if code in _NO_SPACES:
        script = _WITHOUT_SPACES
    elif code in _NO_MARKS:
        script = _WITHOUT_MARKS
    by_document = {number: script.shingles(texts[number]) for number in _candidates(texts, seed)}
    asked = set().union(*by_document.values())
    counts: Counter[int] = Counter()
    for text in texts:
        counts.update(script.shingles(text) & asked)
    rng = random.Random(seed)
    queries: dict[str, str] = {}
    answers: dict[str, str] = {}
    distinct = [number for number, shingles in by_document.items() if _is_distinct(shingles, counts)]
    distinct.sort(key=ids.__getitem__)
    for number in rng.sample(distinct, len(distinct)):
        if len(queries) == n_queries:
            break
        sentences = _own_sentences(texts[number], script, counts)
        if sentences:
            query = f"synthetic-{len(queries)}"
            queries[query] = rng.choice(sentences)
            answers[query] = ids[number]
    if not queries:
        raise DataError(
            f"to draw queries, a document needs a sentence of {script.least} to {script.most} {script.units} that no "
            f"other document has, but none of the {len(ids)} documents has one: give --queries and --qrels."
        )
    return queries, answers


def _candidates(texts: Sequence[str], seed: int) -> list[int]:
    """The numbers of the documents that may give a sentence: all, or drawn ones with `_MOST` characters."""
    kept = []
    left = _MOST
    for number in random.Random(seed).sample(range(len(texts)), len(texts)):
        if left <= 0:
            break
        kept.append(number)
        left -= len(texts[number])
    return kept


def _is_distinct(shingles: set[int], counts: Counter[int]) -> bool:
    """Whether a document has text, and shares little of it with others."""
    n_shared = sum(counts[shingle] > 1 for shingle in shingles)
    return bool(shingles) and n_shared <= _SHARED * len(shingles)


def _own_sentences(text: str, script: _Script, counts: Counter[int]) -> list[str]:
    """The sentences of a document that have the right length and that no other document has."""
    own = []
    for sentence in dict.fromkeys(script.sentences(text)):
        is_own = not any(counts[shingle] > 1 for shingle in script.shingles(sentence))
        if is_own and script.is_long_enough(sentence):
            own.append(sentence)
    return own
