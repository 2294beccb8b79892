"""Where the sentences of a text end, by Unicode's rules: the one splitter of this package."""

from collections.abc import Iterator, Sequence
from typing import Literal

import regex  # type: ignore[import-untyped]

from mteb_longembed.word_borders import count_pieces

#: Marks and format characters belong to the character before them.
_MARKS = r"[\p{SB=EX}\p{SB=FO}]*+"
#: The rules SB3 to SB11 of Unicode's Standard Annex 29, by the property `Sentence_Break` (SB) of characters.
_SENTENCE = rf"""
    \r\n | [\r\n\p{{SB=SE}}]
    | (?: \p{{SB=ST}} {_MARKS}
        | (?<! [\p{{SB=UP}}\p{{SB=LO}}] [\p{{SB=EX}}\p{{SB=FO}}]* ) \p{{SB=AT}} {_MARKS} (?!\p{{SB=NU}}) (?<dot>)
        | \p{{SB=AT}} {_MARKS} (?![\p{{SB=NU}}\p{{SB=UP}}]) (?<dot>) )
      (?: \p{{SB=CL}} {_MARKS} )*+ (?: \p{{SB=SP}} {_MARKS} )*+
      (?! [\p{{SB=SC}}\p{{SB=ST}}\p{{SB=AT}}] )
      (?(dot) (?! [^\p{{SB=LE}}\p{{SB=UP}}\p{{SB=LO}}\p{{SB=SE}}\r\n\p{{SB=ST}}\p{{SB=AT}}]*+ \p{{SB=LO}} ) )
      (?: \r\n | [\r\n\p{{SB=SE}}] )?
"""
_ENDS = regex.compile(_SENTENCE, regex.VERBOSE | regex.VERSION1)
_MARK_AT_END = regex.compile(r"[\p{SB=ST}\p{SB=AT}][\p{SB=CL}\p{SB=EX}\p{SB=FO}]*$", regex.VERSION1)
#: Ends that are none: an initial (`J. Smith`) and a title (`Dr. Smith`), which has no vowel or is `Prof`.
_ABBREVIATION = regex.compile(r"\b(?:\p{Lu}[bcdfghjklmnpqrstvwxz]{0,3}|Prof)\. *\Z")
#: An end that is none of a short piece: the number of a list (`3. Then`).
_NUMBER = regex.compile(r"\b\p{Nd}+\. *\Z")
#: Characters of a short piece. Abbreviations are shorter.
_SHORT = 12


def sentence_ends(text: str) -> Iterator[int]:
    """Where the sentences of a text end, in characters; the end of the text is not among them.

    >>> list(sentence_ends("It cost 3.5 million. Why?"))
    [21]
    """
    start = 0
    for match in _ENDS.finditer(text):
        end = match.end()
        if end < len(text) and not _goes_on(text[start:end]):
            yield end
            start = end


def _goes_on(piece: str) -> bool:
    """Whether a piece ends in an abbreviation or a number, where Unicode's rules see the end of a sentence."""
    end = piece[-_SHORT:]
    if _ABBREVIATION.search(end):
        return True
    return len(piece.strip()) < _SHORT and _NUMBER.search(end) is not None


def is_complete(sentence: str) -> bool:
    """Whether a sentence ends in a mark such as a full stop, as headings and cells of tables do not.

    >>> is_complete("Is it?"), is_complete("A heading")
    (True, False)
    """
    return _MARK_AT_END.search(sentence) is not None


def sentences(text: str) -> list[str]:
    """The sentences of a text, without blanks at their ends. A text of blanks has one.

    >>> sentences("It cost 3.5 million. Why?")
    ['It cost 3.5 million.', 'Why?']
    """
    found = []
    start = 0
    for end in (*sentence_ends(text), len(text)):
        if piece := text[start:end].strip():
            found.append(piece)
        start = end
    return found or [text]


#: Words for each token of a text without a tokenizer, by the rule of LongEmbed's paper.
WORDS_PER_TOKEN = 0.75


def count_words(text: str) -> int:
    """About how many tokens a text has: 0.75 words are one, and so are 0.75 letters of a script without blanks.

    >>> count_words("one two  three")
    4
    """
    return round(count_pieces(text) / WORDS_PER_TOKEN)


def query_parts(queries: Sequence[str], rule: Literal["sentences"] | None) -> list[list[str]]:
    """What a search asks for each query: its sentences, or without a rule the query itself. Their scores are summed."""
    if rule is None:
        return [[query] for query in queries]
    return [sentences(query) for query in queries]
