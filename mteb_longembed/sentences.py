"""Split text into sentences by Unicode's rules."""

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

import regex  # type: ignore[import-untyped]

from mteb_longembed.word_borders import n_words, stands_alone

#: Start and end in characters, end exclusive.
Span = tuple[int, int]

#: Marks and format characters belong to the character before them.
_MARKS = r"[\p{SB=EX}\p{SB=FO}]*+"
#: The rules SB6 to SB11 of Unicode's Standard Annex 29, by the property `Sentence_Break` (SB) of characters. Remaining
#: line breaks are spaces.
_SENTENCE = rf"""
    (?: \p{{SB=ST}} {_MARKS}
        | (?<! [\p{{SB=UP}}\p{{SB=LO}}] [\p{{SB=EX}}\p{{SB=FO}}]* ) \p{{SB=AT}} {_MARKS} (?!\p{{SB=NU}}) (?<dot>)
        | \p{{SB=AT}} {_MARKS} (?![\p{{SB=NU}}\p{{SB=UP}}]) (?<dot>) )
      (?: \p{{SB=CL}} {_MARKS} )*+ (?: \p{{SB=SP}} {_MARKS} )*+
      (?! [\p{{SB=SC}}\p{{SB=ST}}\p{{SB=AT}}] )
      (?(dot) (?! [^\p{{SB=LE}}\p{{SB=UP}}\p{{SB=LO}}\p{{SB=ST}}\p{{SB=AT}}]*+ \p{{SB=LO}} ) )
"""
_ENDS = regex.compile(_SENTENCE, regex.VERBOSE | regex.VERSION1)
_BREAKS = dict.fromkeys(map(ord, "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"), " ")
#: The beginning of a line that never continues the line before: a list item, a heading, a quoted mail, a table row, a
#: Python prompt, a horizontal rule or the times of a subtitle.
_OWN_LINE = regex.compile(
    r"\s*(?:[-*+•‣◦·–—]\s|\(?(?:\p{Nd}{1,3}|\p{L}|[ivxIVX]+)[.)]\s|\#+\s|>|\||[-=~_*]{3}|\d+:\d\d|\p{Nd}+\s*$|[\"']{3})"
)
#: A line that never continues in the next one.
_ALONE = regex.compile(r"\s*(?:\#|\||>>>|[-=~_*]{3})|.*-->|.*\|\s*$")
#: The beginning of a line that continues the line before; the end of a line that continues in the next one.
_CONTINUES = regex.compile(r"\s*[\"'“‘(\[]*\p{Ll}")
_UNFINISHED = regex.compile(r"[,;–—-]\s*$")
_WORD = regex.compile(r"\s*(\S+)")
#: Minimum width of a paragraph, in characters, whose lines may be wrapped.
_NARROW = 40
_LINE_BREAK = regex.compile(r"\s*[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]\s*")
#: False sentence ends: an initial (`J. Smith`) and a title (`Dr. Smith`), which has no vowel or is `Prof`.
_ABBREVIATION = regex.compile(r"\b(?:\p{Lu}[bcdfghjklmnpqrstvwxz]{0,3}|Prof)\. *\Z")
#: A false end of a short sentence: the number of a list item (`3. Then`).
_NUMBER = regex.compile(r"\b\p{Nd}+\. *\Z")
#: Characters of a short sentence. Abbreviations are shorter.
_SHORT = 12


def sentence_ends(text: str) -> Iterator[int]:
    r"""Yield the sentence ends of a text, in characters, without the end of the text.

    Blank lines, list items and headings end sentences too. Other line breaks are spaces.

    >>> list(sentence_ends("It cost 3.5 million. Why?")), list(sentence_ends("It was\nfound. Why?"))
    ([21], [14])
    """
    for first, last in pairwise([0, *_block_ends(text), len(text)]):
        block = text[first:last].translate(_BREAKS)
        start = 0
        for match in _ENDS.finditer(block):
            end = match.end()
            if end < len(block) and not _goes_on(block[start:end]):
                yield first + end
                start = end
        if last < len(text):
            yield last


def _block_ends(text: str) -> Iterator[int]:
    """Yield the ends of lines that the next line does not continue, in characters."""
    lines = text.splitlines(keepends=True)
    longest = _longest_of_paragraphs(lines)
    end = 0
    for line, following, width in zip(lines, lines[1:], longest, strict=False):
        end += len(line)
        if following.strip() and not _is_one_paragraph(line, following, width):
            yield end


def _longest_of_paragraphs(lines: Sequence[str]) -> list[int]:
    """Return for each line the characters of the longest line in its paragraph, between blank lines."""
    longest: list[int] = []
    for is_text, paragraph in groupby(lines, lambda line: bool(line.strip())):
        widths = [len(line.strip()) for line in paragraph]
        longest += [max(widths) if is_text else 0] * len(widths)
    return longest


def _is_one_paragraph(line: str, following: str, longest: int) -> bool:
    """Return whether a line continues in the next one, so that the line break is a space.

    A line that begins with a capital continues the line before only if its first word had no room there.
    """
    if not line.strip() or _ALONE.match(line) or _OWN_LINE.match(following):
        return False
    if _CONTINUES.match(following) or _UNFINISHED.search(line):
        return True
    (word,) = _WORD.match(following).groups()
    if stands_alone(word[0]):
        return len(line.strip()) >= longest
    return len(line.strip()) + 1 + len(word) > max(longest, _NARROW)


def _goes_on(sentence: str) -> bool:
    """Return whether a sentence by Unicode's rules ends in an abbreviation or a number, and so continues."""
    end = sentence[-_SHORT:]
    if _ABBREVIATION.search(end):
        return True
    return len(sentence.strip()) < _SHORT and _NUMBER.search(end) is not None


def sentences(text: str) -> list[str]:
    r"""Split a text into stripped sentences, with spaces for line breaks. A blank text is one sentence.

    >>> sentences("It cost 3.5\nmillion. Why?")
    ['It cost 3.5 million.', 'Why?']
    """
    split = []
    for start, end in pairwise([0, *sentence_ends(text), len(text)]):
        sentence = text[start:end].strip()
        if sentence:
            split.append(_LINE_BREAK.sub(" ", sentence))
    return split or [text]


def spans_by_sentences(text: str, max_chars: int = 0) -> list[Span]:
    """Return the spans of sentences, by Unicode's rules; adjacent short sentences are joined.

    Blank lines, list items and headings end sentences too. Spans have no white space at their ends.

    Args:
        text: a document.
        max_chars: maximum length in characters of a span of joined sentences. 0 joins none.

    Example:
        >>> spans_by_sentences("One. Two!  Three")
        [(0, 4), (5, 9), (11, 16)]
        >>> spans_by_sentences("One. Two!  Three", max_chars=9)
        [(0, 9), (11, 16)]
    """
    spans: list[Span] = []
    for first, last in pairwise([0, *sentence_ends(text), len(text)]):
        sentence = text[first:last]
        if not sentence.strip():
            continue
        start = first + len(sentence) - len(sentence.lstrip())
        end = first + len(sentence.rstrip())
        if spans and end - spans[-1][0] <= max_chars:
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
    return spans


#: Characters per token without a tokenizer, roughly.
CHARS_PER_TOKEN = 4.5
#: Words per token without a tokenizer, by the rule of LongEmbed's paper.
WORDS_PER_TOKEN = 0.75


def count_words(text: str) -> int:
    """Estimate the tokens of a text, at 0.75 words, or letters of a script without spaces, per token.

    >>> count_words("one two  three")
    4
    """
    return round(n_words(text) / WORDS_PER_TOKEN)
