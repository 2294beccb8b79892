"""The part of a passage that is shown: around the sentence that shares most with the question, in whole words."""

import unicodedata
from collections import Counter
from collections.abc import Iterable

from mteb_longembed.encoders.spans import spans_by_sentences

from .passages import Passage
from .words import Words

#: What stands for text that is left out.
CUT = "[...]"
#: Characters by which a cut moves to the next blank. A longer word is cut, and so is a text without blanks.
_WORD = 40
#: Joins characters to one sign, such as those of an emoji.
_JOINER = "\u200d"


def excerpt(passage: str, question: str, n: int, language: str, also: Iterable[str] = ()) -> str:
    """At most about `n` characters of a passage, with blanks for line breaks, and a mark where text is left out.

    Args:
        passage: the text.
        question: what was asked.
        n: characters that are shown, without the marks.
        language: of the words, as mteb writes it.
        also: further words of the passage that match.
    """
    start, end = 0, len(passage)
    if len(passage) > n:
        start, end = _around(*_best_sentence(passage, question, n, language, also), len(passage), n)
        start = _border(passage, start)
        end = _border(passage, end)
    shown = " ".join(passage[start:end].split())
    if passage[:start].strip():
        shown = f"{CUT} {shown}"
    if passage[end:].strip():
        shown = f"{shown} {CUT}"
    return shown


def _best_sentence(passage: str, question: str, n: int, language: str, also: Iterable[str]) -> Passage:
    """The sentence with most words of the question; a word counts by the share of sentences that lack others of it."""
    spans = []
    for first, last in spans_by_sentences(passage):
        step = last - first
        if step > n:  # such as a table
            step = n // 2
        for start in range(first, last, step):
            spans.append((start, min(start + step, last)))
    words = Words(language)
    cut = words.read(passage)
    wanted = set()
    for text in (question, *also):
        wanted |= {words.numbers.get(asked.word) for asked in words.of_query(text)}
    starts = cut.starts[cut.places]
    found: list[set[int]] = []
    for start, end in spans:
        read = cut.ids[(starts >= start) & (starts < end)]
        found.append(set(read.tolist()) & wanted)
    n_sentences = Counter(word for of_sentence in found for word in of_sentence)
    scores = [sum(1 / n_sentences[word] for word in of_sentence) for of_sentence in found]
    return spans[scores.index(max(scores))] if spans else (0, n)


def _around(start: int, end: int, length: int, n: int) -> Passage:
    """A span with as much before it as behind it, `n` characters in all."""
    first = start - (n - (end - start)) // 2
    first = max(min(first, length - n), 0)
    return first, min(first + n, length)


def _border(text: str, at: int) -> int:
    """The place of the next blank behind a cut inside a word; of the next whole sign in a text without blanks."""
    if at in (0, len(text)) or text[at - 1].isspace():
        return at
    for place in range(at, min(at + _WORD, len(text))):
        if text[place].isspace():
            return place
    while at < len(text) and _belongs_to_before(text, at):
        at += 1
    return at


def _belongs_to_before(text: str, at: int) -> bool:
    return _JOINER in (text[at - 1], text[at]) or unicodedata.category(text[at]) in ("Mn", "Mc", "Me", "Sk")
