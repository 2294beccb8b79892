"""The texts of the generated tasks in each language, one data file for each: `data/languages/CODE.json`."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mteb_longembed.errors import UnknownNameError

FOLDER = Path(__file__).parent / "data" / "languages"
ENGLISH = "eng"


@dataclass(frozen=True)
class Passkey:
    """The sentences of Passkey.

    Args:
        filler: sentences that are repeated, each with the white space after it.
        text: the hidden text, with `{person}` and `{key}`.
        query: the question, with `{person}`.
        chars_per_token: characters per token of a document; None in English, where words are counted.
    """

    filler: tuple[str, ...]
    text: str
    query: str
    chars_per_token: float | None


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
    """Sentences made of parts: take any text from each part, and the sentence makes sense.

    Args:
        pattern: how the parts are joined, with `{0}`, `{1}` and so on.
        parts: for each part, the texts to choose from.
        chars_per_token: characters per token of such a text.
    """

    pattern: str
    parts: tuple[tuple[str, ...], ...]
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
            number, which = divmod(number, len(part))
            chosen.append(part[which])
        return capital(self.pattern.format(*reversed(chosen)))


@dataclass(frozen=True)
class Harder:
    """The sentences of the harder needles; see `harder.py`.

    Args:
        places: towns; their number is a multiple of four.
        things: things that people can own, with an article if the language has one; a multiple of four.
        distractors: `fact` with `{person}` and `{place}`, `query` with `{person}`.
        twohop: `fact` with `{thing}` and `{person}`, `second` with `{person}` and `{place}`, `query` with
            `{thing}` and `{place}`.
        negation: `fact` and its opposite `denied` with `{person}` and `{place}`, `query` with both.
    """

    places: tuple[str, ...]
    things: tuple[str, ...]
    distractors: dict[str, str]
    twohop: dict[str, str]
    negation: dict[str, str]


@dataclass(frozen=True)
class Language:
    """One language's data file.

    Args:
        code: language and script as in mteb, such as `deu-Latn`.
        space: the text between sentences: a space, or nothing.
        person: the pattern of a name, with `{first}` and `{last}`.
        first_names: first names of invented people.
        last_names: last names of invented people.
        passkey: the sentences of Passkey.
        harder: the sentences of the harder needles.
        facts: the facts that Needle hides; those of English are in another file.
        prose: the sentences around the facts of Needle; None in English, which has essays.
        digest: hash of the file, without what was mended later.
    """

    code: str
    space: str
    person: str
    first_names: tuple[str, ...]
    last_names: tuple[str, ...]
    passkey: Passkey
    harder: Harder
    facts: tuple[Fact, ...]
    prose: Prose | None
    digest: str

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
    hard: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in data.pop("harder").items()
    }
    passkey = data.pop("passkey")
    prose = data.pop("prose", None)
    hard["things"] = tuple(mended.get(thing, thing) for thing in hard["things"])
    return Language(
        first_names=tuple(data.pop("first_names").split()),
        last_names=tuple(data.pop("last_names").split()),
        passkey=Passkey(**{**passkey, "filler": tuple(passkey["filler"])}),
        harder=Harder(**hard),
        facts=tuple(Fact(*row) for row in data.pop("facts", ())),
        prose=Prose(**{**prose, "parts": tuple(map(tuple, prose["parts"]))}) if prose else None,
        digest=digest,
        **data,
    )


def capital(text: str) -> str:
    """The text with a capital first letter, if its script has capitals."""
    return text[:1].upper() + text[1:]
