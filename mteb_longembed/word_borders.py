"""Word borders in texts of any language, for search and for estimates of tokens."""

from collections.abc import Iterable
from functools import cache

import numpy as np
import regex  # type: ignore[import-untyped]

#: Number of code points in Unicode, and in one of its planes.
_CHARACTERS = 0x110000
_PLANE = 0x10000
_OTHER = 0
_LETTER = 1
_MARK = 2
_ALONE = 3
#: Added to the kind of a letter for the marks after it.
_CONTINUES = 8
#: Scripts whose letters, with their marks, are words, as in mteb's BM25; most have no spaces between words. The sign
#: for long vowels in Japanese (U+30FC) belongs to two of them.
_SCRIPTS = (
    r"\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Thai}\p{Script=Khmer}"
    r"\p{Script=Myanmar}\p{Script=Tibetan}\p{Script=Lao}\u30fc"
)
#: The kinds of characters; later ones override. Ignorable characters have no width: soft hyphens, joiners, U+FEFF.
_KINDS = {
    _LETTER: r"[\p{L}\p{N}_]+",
    _ALONE: rf"[[{_SCRIPTS}]&&[\p{{L}}\p{{N}}]]+",
    _MARK: r"[\p{M}\p{Grapheme_Extend}\p{Default_Ignorable_Code_Point}]+",
}
_SOFT_HYPHEN = "\u00ad"
_AT_LINE_END = regex.compile(r"(?<=\u00ad) *(?:\r\n|[\r\n]) *(?=\p{L})")
_NO_WIDTH = regex.compile(r"\u00ad *(?:\r\n|[\r\n]) *|\p{Default_Ignorable_Code_Point}+")


def first_words(text: str, n: int) -> str:
    """Return the first `n` words of a text, at least one.

    >>> first_words("one two  three", 2), first_words("東京タワー", 2)
    ('one two', '東京')
    """
    starts, ends = word_borders(text)
    if not len(ends):
        return ""
    return text[starts[0] : ends[: max(n, 1)][-1]]


def n_words(text: str) -> int:
    """Count the words of a text; each letter of a script without spaces is one.

    >>> n_words("one two,  three"), n_words("東京タワー")
    (3, 5)
    """
    return len(word_borders(text)[0])


def distinct_words(texts: Iterable[str]) -> set[str]:
    """Return the distinct words of texts, in small letters.

    >>> sorted(distinct_words(["One two", "two, ONE"]))
    ['one', 'two']
    """
    words: set[str] = set()
    for text in map(str.lower, texts):
        words.update(text[start:end] for start, end in zip(*word_borders(text), strict=True))
    return words


_TABLE = np.zeros(_CHARACTERS, np.uint8)


@cache
def _fill(plane: int) -> None:
    """Write the kind of each character of a plane of Unicode into the table."""
    first = plane * _PLANE
    characters = "".join(map(chr, range(first, first + _PLANE)))
    for kind, pattern in _KINDS.items():
        for match in regex.finditer(pattern, characters, regex.VERSION1):
            _TABLE[first + match.start() : first + match.end()] = kind


def _kinds(codes: np.ndarray) -> np.ndarray:
    """Return the kind of each character, by code points. Most texts need only the first plane."""
    _fill(0)
    if len(codes) and codes.max() >= _PLANE:
        for plane in np.unique(codes // _PLANE).tolist():
            _fill(plane)
    return _TABLE[codes]


def stands_alone(letter: str) -> bool:
    """Return whether a letter, with its marks, is a word of its own.

    >>> stands_alone("東"), stands_alone("e")
    (True, False)
    """
    return bool(_kinds(np.array([ord(letter)]))[0] == _ALONE)


def word_borders(text: str) -> tuple[np.ndarray, np.ndarray]:
    """Return start and end of all words, in characters: runs of letters, and single letters of scripts without spaces.

    Zero-width characters belong to the letter before them, and a soft hyphen at the end of a line joins both lines.
    """
    kinds = _kinds_of(text)
    owner = kinds & ~np.uint8(_CONTINUES)
    before = np.concatenate([np.zeros(1, np.uint8), owner[:-1]])[: len(owner)]
    is_letter = owner == _LETTER
    is_alone = owner == _ALONE
    starts = (is_letter & (before != _LETTER)) | (kinds == _ALONE)
    in_word = is_letter | is_alone
    goes_on = np.append((in_word & ~starts)[1:], False)[: len(owner)]
    ends = in_word & ~goes_on
    return np.flatnonzero(starts), np.flatnonzero(ends) + 1


def visible(text: str) -> str:
    """Return a text without zero-width characters, such as soft hyphens, and line breaks after soft hyphens.

    >>> visible("fire\u00adplace"), visible("\ufeffof\u200bfice")
    ('fireplace', 'office')
    """
    return str(_NO_WIDTH.sub("", text))


def _kinds_of(text: str) -> np.ndarray:
    """Return the kind of each character; a mark has the kind of its letter plus `_CONTINUES`."""
    kinds = _kinds(np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32))
    if _SOFT_HYPHEN in text:
        for match in _AT_LINE_END.finditer(text):
            kinds[match.start() : match.end()] = _MARK
    marks = kinds == _MARK
    if not marks.any():
        return kinds
    positions = np.arange(len(kinds))
    owner = kinds[np.maximum.accumulate(np.where(marks, 0, positions))]
    owner[owner == _MARK] = _OTHER  # a mark at the start of a text
    return np.where(marks, owner | _CONTINUES, owner)
