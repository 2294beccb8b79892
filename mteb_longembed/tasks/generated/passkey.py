"""LongEmbedPasskey: which of a hundred long documents has a person's pass key?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle

from mteb_longembed.tasks.cutting import WORDS_PER_TOKEN
from mteb_longembed.tasks.generated.haystack import Draws, Haystack, Hidden
from mteb_longembed.tasks.generated.synthetic import SyntheticRetrieval, generated

# Names, digits and rare words become many tokens. So we count the hidden text as 25 words, about 33 tokens. Then the
# documents of the shortest split still fit. The published documents have exactly this much filler.
_HIDDEN_WORDS = 25


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
        return min(10_000, cls.language().n_people)

    @classmethod
    def hidden(cls, draws: Draws, n: int) -> list[Hidden]:
        """One pass key for each document; all people and all keys of a split are different."""
        language = cls.language()
        people = draws.distinct(n, language.n_people)
        keys = draws.distinct(n, 90_000)
        made = []
        for person, key in zip(people, keys, strict=True):
            first, last = divmod(person, len(language.last_names))
            name = language.name(language.first_names[first], language.last_names[last])
            text = language.passkey.text.format(person=name, key=key + 10_000)
            made.append(Hidden(text, language.passkey.query.format(person=name)))
        return made

    @classmethod
    def sentences(cls, draws: Draws) -> Iterator[str]:
        """The filler sentences, repeated without end."""
        return cycle(cls.language().passkey.filler)

    @classmethod
    def n_chars(cls, length: int) -> int:
        """The language's characters per token times the length; English has its own rule in `make_haystack`."""
        return round(length * (cls.language().passkey.chars_per_token or 0))

    @classmethod
    def make_haystack(cls, draws: Draws, length: int, hidden: Sequence[Hidden]) -> Haystack:
        """English: 0.75 words per token, as published. Other languages: their characters per token."""
        if cls.language().passkey.chars_per_token is not None:
            return super().make_haystack(draws, length, hidden)
        return Haystack(cls.sentences(draws), int(WORDS_PER_TOKEN * length) - _HIDDEN_WORDS)
