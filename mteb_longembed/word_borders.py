"""Where words begin and end in texts of any language: the one rule of this package for what a word is."""

from functools import lru_cache

import numpy as np
import regex  # type: ignore[import-untyped]

#: Characters of Unicode, and of one of its planes.
_CHARACTERS = 0x110000
_PLANE = 0x10000
_OTHER = 0
_LETTER = 1
_MARK = 2
_ALONE = 3
_BLANK = 4
#: Added to the kind of a letter for the marks after it.
_CONTINUES = 8
#: Scripts whose letters, with their marks, are words, as in mteb's BM25; most have no blanks between words. The sign
#: for long vowels in Japanese (U+30FC) belongs to two of them.
_SCRIPTS = (
    r"\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Thai}\p{Script=Khmer}"
    r"\p{Script=Myanmar}\p{Script=Tibetan}\p{Script=Lao}\u30fc"
)
#: The kinds of characters. A later one wins. U+200C and U+200D join letters in Persian and in Indic scripts.
_KINDS = {
    _LETTER: r"[\p{L}\p{N}_]+",
    _ALONE: rf"[[{_SCRIPTS}]&&[\p{{L}}\p{{N}}]]+",
    _MARK: r"[\p{M}\p{Grapheme_Extend}\u200c\u200d]+",
    _BLANK: r"[\s\x1c-\x1f]+",
}


def first_pieces(text: str, n: int) -> str:
    """The beginning of a text with `n` words, or letters of a script without blanks.

    >>> first_pieces("one two  three", 2), first_pieces("東京タワー", 2)
    ('one two', '東京')
    """
    pieces = piece_borders(kinds_of(text))
    if not len(pieces):
        return ""
    return text[pieces[0, 0] : pieces[: max(n, 1)][-1, 1]]


def count_pieces(text: str) -> int:
    """How many words a text has; each letter of a script without blanks is one.

    >>> count_pieces("one two  three"), count_pieces("東京タワー")
    (3, 5)
    """
    return len(piece_borders(kinds_of(text)))


@lru_cache(maxsize=1)
def _table() -> np.ndarray:
    """The kind of each character of Unicode, uint8 `[1114112]`."""
    table = np.zeros(_CHARACTERS, np.uint8)
    for first in range(0, _CHARACTERS, _PLANE):
        plane = "".join(map(chr, range(first, first + _PLANE)))
        for kind, pattern in _KINDS.items():
            for match in regex.finditer(pattern, plane, regex.VERSION1):
                table[first + match.start() : first + match.end()] = kind
    return table


def stands_alone(letter: str) -> bool:
    """Whether a letter, with its marks, is a word of its own.

    >>> stands_alone("東"), stands_alone("e")
    (True, False)
    """
    return bool(_table()[ord(letter)] == _ALONE)


def kinds_of(text: str) -> np.ndarray:
    """The kind of each character; a mark has that of its letter plus `_CONTINUES`."""
    kinds = _table()[np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)]
    marks = kinds == _MARK
    if not marks.any():
        return kinds
    places = np.arange(len(kinds))
    owner = kinds[np.maximum.accumulate(np.where(marks, 0, places))]
    owner[owner == _MARK] = _OTHER  # a mark at the start of a text
    return np.where(marks, owner | _CONTINUES, owner)


def word_borders(kinds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Start and end of all words, in characters: runs of letters, and single letters of scripts without blanks."""
    owner = kinds & ~np.uint8(_CONTINUES)
    before = np.concatenate([np.zeros(1, np.uint8), owner[:-1]])[: len(owner)]
    is_letter = owner == _LETTER
    is_alone = owner == _ALONE
    starts = (is_letter & (before != _LETTER)) | (kinds == _ALONE)
    in_word = is_letter | is_alone
    goes_on = np.append((in_word & ~starts)[1:], False)[: len(owner)]
    ends = in_word & ~goes_on
    return np.flatnonzero(starts), np.flatnonzero(ends) + 1


def piece_borders(kinds: np.ndarray) -> np.ndarray:
    """Start and end of what windows count, `[pieces, 2]`. Punctuation belongs to what is before it."""
    owner = kinds & ~np.uint8(_CONTINUES)
    before = np.concatenate([np.full(1, _BLANK, np.uint8), owner[:-1]])[: len(owner)]
    filled = owner != _BLANK
    starts = filled & ((before == _BLANK) | ((owner == _LETTER) & (before == _ALONE))) | (kinds == _ALONE)
    goes_on = np.append((filled & ~starts)[1:], False)[: len(owner)]
    ends = filled & ~goes_on
    return np.stack([np.flatnonzero(starts), np.flatnonzero(ends) + 1], axis=1).astype(np.int32)
