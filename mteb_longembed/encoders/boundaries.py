"""Where sentences and paragraphs of a text end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import regex  # type: ignore[import-untyped]

from .features import Ids

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
#: A blank line, or Unicode's own sign.
_PARAGRAPH = r"\r?\n [^\S\n]* \n \s* | \u2029"
_FLAGS = regex.VERBOSE | regex.VERSION1
_ENDS = {"sentence": regex.compile(_SENTENCE, _FLAGS), "paragraph": regex.compile(_PARAGRAPH, _FLAGS)}


def sentence_ends(text: str) -> Iterator[int]:
    """Where the sentences of a text end, in characters; the end of the text is not among them.

    >>> list(sentence_ends("It cost 3.5 million. Why?"))
    [21]
    """
    return (match.end() for match in _ENDS["sentence"].finditer(text) if match.end() < len(text))


def with_starts(ids: Ids, offsets: Sequence[tuple[int, int]], text: str, split: str) -> Ids:
    """Token ids in which `~id` stands for a token that starts a new sentence or paragraph of the text.

    So all that finds or makes embeddings by ids knows the boundaries too. `ids` and `offsets` (in characters) are of
    the first tokens of the `text`. A token belongs to the sentence of its last character.
    """
    last = np.array([end for _, end in offsets], int) - 1
    limit = last.max(initial=0)
    ends = [0]
    for match in _ENDS[split].finditer(text):
        ends.append(match.end())
        if ends[-1] > limit:
            break
    number = np.searchsorted(ends, last, side="right")
    return np.where(np.diff(number, prepend=number[:1]) > 0, ~ids, ids)
