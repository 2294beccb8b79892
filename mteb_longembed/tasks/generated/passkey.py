"""LongEmbedPasskey: which of a hundred long documents has a person's pass key?"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import cycle
from pathlib import Path

from mteb_longembed.tasks.generated.haystack import Draws, Haystack, Hidden
from mteb_longembed.tasks.generated.synthetic import SyntheticRetrieval, generated

# Names, digits and rare words become many tokens. So we count the hidden text as 25 words, about 33 tokens. Then the
# documents of the shortest split still fit. The published documents have exactly this much filler.
_HIDDEN_WORDS = 25
_WORDS_PER_TOKEN = 0.75


@dataclass(frozen=True)
class Texts:
    """The names and sentences of Passkey."""

    first_names: Sequence[str]  # of invented people
    last_names: Sequence[str]
    filler: Sequence[str]  # sentences that are repeated, each with the white space after it
    text: str  # the hidden text, with `{person}` and `{key}`
    query: str  # the question, with `{person}`


@cache
def texts() -> Texts:
    """What `data/passkey.json` has."""
    path = Path(__file__).parent / "data" / "passkey.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    names = {key: data.pop(key).split() for key in ("first_names", "last_names")}
    return Texts(**names, **data)


class LongEmbedPasskey(SyntheticRetrieval):
    """Personalised passkey retrieval at eight lengths, generated offline.

    Source: LongEmbed, section 3.1 (https://arxiv.org/abs/2404.12096).
    Differs: names and keys are our own. Counts and lengths follow the statistics of the published data.
    """

    metadata = generated(
        __name__,
        "g1-b375e51c72dc",
        name="LongEmbedPasskey",
        description=(
            "Find the document that tells a person's pass key, in 256 to 32,768 tokens of filler sentences; "
            "generated offline by mteb-longembed after the LongEmbed paper."
        ),
        domains=["Constructed", "Written"],
        task_subtypes=["Article retrieval"],
    )
    generator = "g1"

    @classmethod
    def most_documents(cls) -> int:
        """The number of different people, at most 10,000."""
        return min(10_000, len(texts().first_names) * len(texts().last_names))

    @classmethod
    def hidden(cls, draws: Draws, n: int) -> list[Hidden]:
        """One pass key for each document; all people and all keys of a split are different."""
        known = texts()
        people = draws.distinct(n, len(known.first_names) * len(known.last_names))
        keys = draws.distinct(n, 90_000)
        made = []
        for person, key in zip(people, keys, strict=True):
            first, last = divmod(person, len(known.last_names))
            name = f"{known.first_names[first]} {known.last_names[last]}"
            text = known.text.format(person=name, key=key + 10_000)
            made.append(Hidden(text, known.query.format(person=name)))
        return made

    @classmethod
    def sentences(cls, draws: Draws) -> Iterator[str]:
        """The filler sentences, repeated without end."""
        return cycle(texts().filler)

    @classmethod
    def make_haystack(cls, draws: Draws, length: int, hidden: Sequence[Hidden]) -> Haystack:
        """0.75 words per token, as published."""
        return Haystack(cls.sentences(draws), int(_WORDS_PER_TOKEN * length) - _HIDDEN_WORDS)
