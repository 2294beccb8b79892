"""The texts of the generated tasks in each language, one data file for each: `data/languages/CODE.json`."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from mteb_longembed.errors import UnknownNameError

FOLDER = Path(__file__).parent / "data" / "languages"
ENGLISH = "eng"


@dataclass(frozen=True)
class Passkey:
    """The sentences of Passkey."""

    filler: Sequence[str]  # sentences that are repeated, each with the white space after it
    text: str  # the hidden text, with `{person}` and `{key}`
    query: str  # the question, with `{person}`
    chars_per_token: float | None  # of a document; None in English, where words are counted


@dataclass(frozen=True)
class Fact:
    """One fact that Needle hides, a question about it, and the answer, which only the fact contains.

    A paraphrase has no answer: the question asks for what follows from the fact.
    """

    fact: str
    query: str
    answer: str = ""


@dataclass(frozen=True)
class Prose:
    """Sentences made of parts: take any text from each part, and the sentence makes sense."""

    pattern: str  # how the parts are joined, with `{0}`, `{1}` and so on
    parts: Sequence[Sequence[str]]  # for each part, the texts to choose from
    chars_per_token: float

    @property
    def n_sentences(self) -> int:
        """How many different sentences there are."""
        return math.prod(map(len, self.parts))

    def sentence(self, number: int) -> str:
        """The sentence with this number, from 0; its first letter is a capital.

        >>> prose = Prose("{0} {1}.", (("today", "at night"), ("it rains", "it snows", "it hails")), 4.5)
        >>> prose.n_sentences, prose.sentence(5)
        (6, 'At night it hails.')
        """
        chosen = []
        for part in reversed(self.parts):
            number, index = divmod(number, len(part))
            chosen.append(part[index])
        return capital(self.pattern.format(*reversed(chosen)))


@dataclass(frozen=True)
class Harder:
    """The sentences of the harder needles; see `harder.py`."""

    places: Sequence[str]  # towns; their number is a multiple of four
    things: Sequence[str]  # things that people can own, with an article if there is one; a multiple of four
    distractors: dict[str, str]  # `fact` with `{person}` and `{place}`, `query` with `{person}`
    #: `fact` with `{thing}` and `{person}`, `second` with `{person}` and `{place}`, `query` with `{thing}`, `{place}`
    twohop: dict[str, str]
    negation: dict[str, str]  # `fact`, its opposite `denied` and `query`, each with `{person}` and `{place}`


@dataclass(frozen=True)
class Language:
    """One language's data file."""

    code: str  # language and script as in mteb, such as `deu-Latn`
    space: str  # the text between sentences: a space, or nothing
    person: str  # the pattern of a name, with `{first}` and `{last}`
    first_names: Sequence[str]  # of invented people
    last_names: Sequence[str]
    passkey: Passkey
    harder: Harder
    facts: Sequence[Fact]  # what Needle hides; those of English are in another file
    prose: Prose | None  # the sentences around the facts of Needle; None in English, which has essays
    digest: str  # hash of the file, without what was mended later

    def name(self, first: str, last: str) -> str:
        """A person's name."""
        return self.person.format(first=first, last=last)

    @property
    def n_people(self) -> int:
        """How many different people there are."""
        return len(self.first_names) * len(self.last_names)


def known_languages() -> tuple[str, ...]:
    """The languages that have a data file, by their code of three letters (ISO 639-3).

    >>> "eng" in known_languages()
    True
    """
    return tuple(sorted(path.stem for path in FOLDER.glob("*.json")))


@cache
def find_language(code: str) -> Language:
    """The data of a language.

    Raises:
        UnknownNameError: no data file has that code.

    >>> find_language("eng").code
    'eng-Latn'
    """
    if code not in known_languages():
        raise UnknownNameError("language", code, known_languages())
    raw = (FOLDER / f"{code}.json").read_text(encoding="utf-8")
    data: dict[str, Any] = json.loads(raw)
    # words that were mended later: they must not change the revisions of variants that do not contain them
    mended = data.pop("mended", {})
    # hash the parsed data, so that line ends do not change the hash
    digest = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
    harder = Harder(**data.pop("harder"))
    prose = data.pop("prose", None)
    return Language(
        first_names=data.pop("first_names").split(),
        last_names=data.pop("last_names").split(),
        passkey=Passkey(**data.pop("passkey")),
        harder=replace(harder, things=[mended.get(thing, thing) for thing in harder.things]),
        facts=[Fact(*row) for row in data.pop("facts", ())],
        prose=prose and Prose(**prose),
        digest=digest,
        **data,
    )


def capital(text: str) -> str:
    """The text with a capital first letter, if its script has capitals."""
    return text[:1].upper() + text[1:]
