"""From texts to the words of their language, as numbers: read once, for documents, their windows and queries."""

import unicodedata
from array import array
from dataclasses import dataclass
from functools import cache

import numpy as np
from bm25s.tokenization import Tokenizer
from mteb.models.model_implementations.bm25 import BM25Tokenizer

from mteb_longembed.word_borders import stands_alone, visible, word_borders

#: Letters of a word, at least, in a language with blanks.
_SHORTEST = 2
#: The number of what is no word: a stop word, or too short.
NO_WORD = -1
#: Turkish and Azerbaijani have two letters i, with and without a dot.
_TURKIC = str.maketrans("Iİ", "ıi")


@dataclass(frozen=True)
class Cut:
    """A text as words."""

    ids: np.ndarray  #: the number of each word that is kept, int32 `[kept]`. Stop words are not
    places: np.ndarray  #: the place of each of these among all words, `[kept]`
    starts: np.ndarray  #: the first character of all words, `[words]`


class Words:
    """The words of texts in one language. A word's number is its place in `numbers`.

    Stems and stop words are those of mteb's BM25, and English words are exactly its words. No word vanishes because
    many documents have it.

    Differs: marks belong to the letter before them; a letter is the same in each of its Unicode forms (NFKC), so a
        ligature is its letters and a subscript a digit; what has no width counts for nothing; scripts without blanks
        are cut in every language, and other words between them are kept whole.

    Args:
        language: as mteb writes it, such as `deu-Latn`.
        stems: whether forms with one stem are one word, where there is a stemmer for the language.
    """

    def __init__(self, language: str, *, stems: bool = True) -> None:
        of_mteb = BM25Tokenizer(language.partition("-")[0])
        self._is_turkic = language.partition("-")[0] in ("tur", "aze", "azj")
        self._stemmer = of_mteb.stemmer if stems else None
        self._stop_words = frozenset(Tokenizer(stopwords=of_mteb.stopwords_key or []).stopwords)
        #: Word -> its number.
        self.numbers: dict[str, int] = {}
        #: What stands in a text -> the number of its form: in lower case, not yet stemmed.
        self._number_of = cache(self._new_form)
        self._form_numbers: dict[str, int] = {}
        #: For each form the number of its word, and how often it was read.
        self._word_of_form = array("i")
        self._times_read = array("q")

    def __len__(self) -> int:
        return len(self.numbers)

    def read(self, text: str) -> Cut:
        """Cut a document. Words that are new get the next numbers."""
        starts, ends = word_borders(text)
        forms = np.fromiter(map(self._number_of, _slices(text, starts, ends)), np.int32, count=len(starts))
        np.add.at(np.frombuffer(self._times_read, np.int64), forms, 1)
        ids = np.frombuffer(self._word_of_form, np.int32)[forms]
        places = np.flatnonzero(ids != NO_WORD)
        return Cut(ids[places], places, starts)

    def of_query(self, text: str) -> list[tuple[str, str]]:
        """The words of a query, also those that no document has, each with its form: as typed, in lower case.

        >>> Words("eng-Latn").of_query("The lamps were lit.")
        [('lamp', 'lamps'), ('were', 'were'), ('lit', 'lit')]
        """
        starts, ends = word_borders(text)
        found = []
        for form in map(self._lower, _slices(text, starts, ends)):
            word = self._word(form)
            if word is not None:
                found.append((word, form))
        return found

    def forms(self) -> list[str]:
        """The form of each word that was read most often: people write it, and models know it, unlike the stem."""
        forms = list(self._form_numbers)
        names = [""] * len(self)
        # the form that is read most often, and of those the first one, is written last
        for number in np.argsort(-np.array(self._times_read), kind="stable")[::-1].tolist():
            if self._word_of_form[number] != NO_WORD:
                names[self._word_of_form[number]] = forms[number]
        return names

    def _new_form(self, text: str) -> int:
        form = self._lower(text)
        if form not in self._form_numbers:
            self._form_numbers[form] = len(self._form_numbers)
            word = self._word(form)
            number = NO_WORD
            if word is not None:
                number = self.numbers.setdefault(word, len(self.numbers))
            self._word_of_form.append(number)
            self._times_read.append(0)
        return self._form_numbers[form]

    def _lower(self, text: str) -> str:
        """A form in which a word is the same however it is typed: `É` as one character or two, full-width letters."""
        if self._is_turkic:
            text = text.translate(_TURKIC)
        form = text.lower()
        if form.isascii():
            return form
        form = unicodedata.normalize("NFKC", visible(form)).lower()
        # the small letter of a capital with a dot has a dot of its own
        return unicodedata.normalize("NFKC", form).replace("i\u0307", "i")

    def _word(self, form: str) -> str | None:
        """The word of a form; None for a stop word, and for one letter of a script with blanks."""
        if form in self._stop_words:
            return None
        if len(form) < _SHORTEST and not stands_alone(form):
            return None
        if self._stemmer is None:
            return form
        return self._stemmer.stemWord(form)


def _slices(text: str, starts: np.ndarray, ends: np.ndarray) -> list[str]:
    return [text[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
