"""LongEmbedPasskey: which of a hundred long documents has a person's pass key?"""

import json
from collections.abc import Sequence
from functools import cache
from itertools import cycle
from pathlib import Path

from mteb_longembed.files import Json
from mteb_longembed.tasks.generated.haystack import Draws, Haystack, Hidden
from mteb_longembed.tasks.generated.synthetic import SyntheticRetrieval, generated

# Names, digits and rare words become many tokens. So the hidden text counts as 25 words, about 33 tokens, with which
# the documents of the shortest split still fit. The published documents have exactly this much filler.
_HIDDEN_WORDS = 25
_WORDS_PER_TOKEN = 0.75


@cache
def texts() -> Json:
    """Return the names of invented people, filler sentences with their white space, and templates."""
    path = Path(__file__).parent / "data" / "passkey.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    return {**data, "first_names": data["first_names"].split(), "last_names": data["last_names"].split()}


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
    most_documents = 10_000  # there are more different people

    @classmethod
    def hidden(cls, draws: Draws, n: int) -> list[Hidden]:
        """Return one pass key for each document; all people and keys of a split are distinct."""
        known = texts()
        first_names, last_names = known["first_names"], known["last_names"]
        people = draws.distinct(n, len(first_names) * len(last_names))
        keys = draws.distinct(n, 90_000)
        hidden = []
        for person, key in zip(people, keys, strict=True):
            first, last = divmod(person, len(last_names))
            name = f"{first_names[first]} {last_names[last]}"
            text = known["text"].format(person=name, key=key + 10_000)
            hidden.append(Hidden(text, known["query"].format(person=name)))
        return hidden

    @classmethod
    def make_haystack(cls, draws: Draws, length: int, hidden: Sequence[Hidden]) -> Haystack:
        """Build a text of repeated filler sentences, at 0.75 words per token, as published."""
        return Haystack(cycle(texts()["filler"]), int(_WORDS_PER_TOKEN * length) - _HIDDEN_WORDS)
