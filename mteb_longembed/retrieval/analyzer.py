"""Analyze texts into index terms: tokenize, lowercase, drop stop words, stem."""

from __future__ import annotations

import unicodedata
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np

from mteb_longembed.word_borders import stands_alone, visible, word_borders

#: Minimum number of letters of a term in a language that separates words by spaces.
_SHORTEST = 2
#: The id of a word that is not a term: a stop word, or too short.
NO_TERM = -1
#: Number of words of queries whose terms an analyzer remembers.
_N_QUERY_WORDS = 50_000
#: Turkish and Azerbaijani have two letters i, with and without a dot.
_TURKIC = str.maketrans("Iİ", "ıi")

#: ISO 639-3 code -> PyStemmer's algorithm, and bm25s' key of stop words, as in mteb's BM25 (a test compares them).
_STEMMERS = {
    "ara": "arabic", "arb": "arabic", "cat": "catalan", "dan": "danish", "deu": "german", "ell": "greek",
    "eng": "english", "epo": "esperanto", "est": "estonian", "eus": "basque", "fin": "finnish", "fra": "french",
    "gle": "irish", "hin": "hindi", "hun": "hungarian", "hye": "armenian", "ind": "indonesian", "ita": "italian",
    "lit": "lithuanian", "nep": "nepali", "nld": "dutch", "nno": "norwegian", "nob": "norwegian", "nor": "norwegian",
    "por": "portuguese", "ron": "romanian", "rus": "russian", "spa": "spanish", "srp": "serbian", "swe": "swedish",
    "tam": "tamil", "tur": "turkish", "yid": "yiddish",
}  # fmt: skip
_STOP_WORDS = {
    "cmn": "zh", "deu": "de", "eng": "en", "fra": "fr", "ita": "it", "nld": "nl", "nno": "no", "nob": "no", "nor": "no",
    "por": "pt", "rus": "ru", "spa": "es", "swe": "sv", "zho": "zh",
}  # fmt: skip


@dataclass(frozen=True)
class Language:
    """Stemmer and stop words of a language, the same as in mteb's BM25.

    Args:
        code: language code as in mteb, such as `deu-Latn`.
        stemmer: Snowball algorithm such as `german`; None without a stemmer.
        stop_words: stop words in lower case.
    """

    code: str
    stemmer: str | None
    stop_words: frozenset[str]

    @classmethod
    def of(cls, code: str) -> Language:
        """Look up a language by its code. Others have neither a stemmer nor stop words."""
        from bm25s.tokenization import Tokenizer

        language = code.partition("-")[0]
        stop_words = Tokenizer(stopwords=_STOP_WORDS.get(language) or []).stopwords
        return cls(code, _STEMMERS.get(language), frozenset(stop_words))


@dataclass(frozen=True)
class Terms:
    """The terms of a text."""

    ids: np.ndarray  #: the id of each term, int32 `[terms]`
    positions: np.ndarray  #: the position of each term among all words of the text, `[terms]`
    starts: np.ndarray  #: the first character of each word, `[words]`


class Analyzer:
    """Turn texts of one language into terms. Term ids follow the order of first appearance.

    English terms of plain letters and digits are the terms of mteb's BM25. No term is dropped for being frequent.

    Differs: combining marks belong to the letter before them; Unicode forms of a letter are normalized (NFKC), so a
        ligature is its letters and a subscript a digit; zero-width characters are ignored; scripts without spaces are
        split in every language, and other words between them stay whole.

    Args:
        language: stemmer and stop words.
        stems: whether to stem words, if the language has a stemmer.
    """

    def __init__(self, language: Language, *, stems: bool = True) -> None:
        self._is_turkic = language.code.partition("-")[0] in ("tur", "aze", "azj")
        self._stem: Callable[[str], str] | None = None
        if stems and language.stemmer is not None:
            import Stemmer

            self._stem = Stemmer.Stemmer(language.stemmer).stemWord
        self._stop_words = language.stop_words
        #: Term -> its id.
        self.vocabulary: dict[str, int] = {}
        #: A word as written in a text -> the id of its form: in lower case, not yet stemmed.
        self._form_of = cache(self._new_form)
        self._form_ids: dict[str, int] = {}
        #: A word of a query as typed -> its term and its form; only the latest ones, because queries have no end.
        self._query_term_of = lru_cache(_N_QUERY_WORDS)(self._new_query_term)
        #: For each form the id of its term, and its number of occurrences.
        self._term_of_form = array("i")
        self._counts = array("q")

    def __len__(self) -> int:
        return len(self.vocabulary)

    def analyze(self, text: str) -> Terms:
        """Return the terms of a document. New terms get the next ids."""
        starts, ends = word_borders(text)
        forms = np.fromiter(map(self._form_of, _slices(text, starts, ends)), np.int32, count=len(starts))
        np.add.at(np.frombuffer(self._counts, np.int64), forms, 1)
        ids = np.frombuffer(self._term_of_form, np.int32)[forms]
        positions = np.flatnonzero(ids != NO_TERM)
        return Terms(ids[positions], positions, starts)

    def query_terms(self, text: str) -> list[tuple[str, str]]:
        """Return each term of a query with its form (as typed, in lower case), in the vocabulary or not.

        >>> Analyzer(Language("eng-Latn", "english", frozenset(["the"]))).query_terms("The lamps were lit.")
        [('lamp', 'lamps'), ('were', 'were'), ('lit', 'lit')]
        """
        return [(term, form) for _, term, form in self.query_terms_at(text)]

    def query_terms_at(self, text: str) -> Iterator[tuple[int, str, str]]:
        """Yield the first character, the term and the form of each term of a query."""
        starts, ends = word_borders(text)
        for start, word in zip(starts.tolist(), _slices(text, starts, ends), strict=True):
            term, form = self._query_term_of(word)
            if term is not None:
                yield start, term, form

    def forms(self) -> list[str]:
        """Return the most frequent form of each term: unlike the stem, people write it and models know it."""
        forms = list(self._form_ids)
        names = [""] * len(self)
        # assigned in ascending order of frequency, so that the most frequent form (the first of equals) stays
        for form in np.argsort(-np.array(self._counts), kind="stable")[::-1].tolist():
            if self._term_of_form[form] != NO_TERM:
                names[self._term_of_form[form]] = forms[form]
        return names

    def forget(self, text: str) -> None:
        """Subtract the words of a document from the counts of forms."""
        starts, ends = word_borders(text)
        forms = np.fromiter(map(self._form_of, _slices(text, starts, ends)), np.int32, count=len(starts))
        np.subtract.at(np.frombuffer(self._counts, np.int64), forms, 1)

    def drop_unused(self) -> np.ndarray:
        """Drop forms that no longer occur, and terms without forms. Terms get new ids in the same order.

        Returns:
            Whether each old term is kept, bool `[terms]`.
        """
        counts = np.array(self._counts)
        terms = np.array(self._term_of_form)
        used = np.zeros(len(self), bool)
        used[terms[(counts > 0) & (terms != NO_TERM)]] = True
        new_ids = np.append(np.cumsum(used) - 1, NO_TERM).astype(np.int32)
        kept = counts > 0
        forms = [form for form, is_kept in zip(self._form_ids, kept, strict=True) if is_kept]
        vocabulary = [term for term, is_used in zip(self.vocabulary, used, strict=True) if is_used]
        new_terms = new_ids[terms[kept]]
        self.restore(vocabulary, forms, new_terms, counts[kept])
        return used

    # ---- saving ------------------------------------------------------------------------------------------

    @property
    def known_forms(self) -> list[str]:
        """The forms read so far, in lower case and not stemmed, in the order of first appearance."""
        return list(self._form_ids)

    def state(self) -> dict[str, np.ndarray]:
        """Return the arrays that `restore` needs beside `vocabulary` and `known_forms`, with a value for each form."""
        return {
            "terms": np.array(self._term_of_form, np.int32),
            "counts": np.array(self._counts, np.int64),
        }

    def restore(
        self, vocabulary: Iterable[str], forms: Iterable[str], terms: np.ndarray, counts: np.ndarray
    ) -> None:
        """Restore the terms of a saved analyzer of the same language."""
        self.vocabulary = {term: index for index, term in enumerate(vocabulary)}
        self._form_ids = {form: index for index, form in enumerate(forms)}
        self._term_of_form = array("i", np.asarray(terms, np.int32).tobytes())
        self._counts = array("q", np.asarray(counts, np.int64).tobytes())
        self._form_of = cache(self._new_form)

    def _new_form(self, word: str) -> int:
        form = self._normalized(word)
        if form not in self._form_ids:
            self._form_ids[form] = len(self._form_ids)
            term = self._term(form)
            term_id = NO_TERM
            if term is not None:
                term_id = self.vocabulary.setdefault(term, len(self.vocabulary))
            self._term_of_form.append(term_id)
            self._counts.append(0)
        return self._form_ids[form]

    def _new_query_term(self, word: str) -> tuple[str | None, str]:
        form = self._normalized(word)
        return self._term(form), form

    def _normalized(self, word: str) -> str:
        """Normalize a word, so that it is the same however it is typed, such as `É` as one character or two."""
        if self._is_turkic:
            word = word.translate(_TURKIC)
        form = word.lower()
        if form.isascii():
            return form
        form = unicodedata.normalize("NFKC", visible(form)).lower()
        # the lower case of a capital I with a dot has a combining dot
        return unicodedata.normalize("NFKC", form).replace("i\u0307", "i")

    def _term(self, form: str) -> str | None:
        """Return the term of a form; None for a stop word, and for a single letter of a script with spaces."""
        if form in self._stop_words:
            return None
        if len(form) < _SHORTEST and not stands_alone(form):
            return None
        if self._stem is None:
            return form
        return self._stem(form)


def _slices(text: str, starts: np.ndarray, ends: np.ndarray) -> list[str]:
    return [text[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
