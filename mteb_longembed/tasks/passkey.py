"""LongEmbedPasskey: which of a hundred long documents tells a person's pass key?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

from mteb_longembed.tasks.draws import Draws
from mteb_longembed.tasks.metadata import CITATION, PAPER, LongEmbedMetadata
from mteb_longembed.tasks.people import FIRST_NAMES, LAST_NAMES
from mteb_longembed.tasks.synthetic import LENGTHS, Hidden, Recipe, SyntheticRetrieval

FILLER = (
    "The grass is green. ",
    "The sky is blue. ",
    "The sun is yellow. ",
    "Here we go. ",
    "There and back again. ",
)
_FILLER_WORDS = 19


class LongEmbedPasskey(SyntheticRetrieval):
    """Personalised passkey retrieval at eight lengths, made offline.

    Source: LongEmbed, section 3.1 (https://arxiv.org/abs/2404.12096).
    Differs: names and keys are our own; numbers and lengths meet the published data's statistics.
    """

    metadata = LongEmbedMetadata(
        name="LongEmbedPasskey",
        description=(
            "Find the document that tells a person's pass key, in 256 to 32,768 tokens of filler sentences; "
            "generated offline by mteb-longembed after the LongEmbed paper."
        ),
        dataset={"path": "mteb_longembed.tasks.passkey", "revision": "g1-b375e51c72dc"},
        reference=PAPER,
        type="Retrieval",
        category="t2t",
        modalities=["text"],
        eval_splits=[f"test_{length}" for length in LENGTHS],
        eval_langs=["eng-Latn"],
        main_score="ndcg_at_1",
        date=("2026-01-01", "2026-11-21"),
        domains=["Constructed", "Written"],
        task_subtypes=["Article retrieval"],
        license="apache-2.0",
        annotations_creators="algorithmic",
        dialect=[],
        sample_creation="created",
        bibtex_citation=CITATION,
    )
    max_documents = 10_000

    @classmethod
    def variant(
        cls, *, seed: int = 0, n_documents: int = 100, depth: float | None = None, n_queries: int = 50
    ) -> SyntheticRetrieval:
        """The task with another seed, more documents or a fixed depth, under a name and revision of its own.

        Args:
            seed: 0 is the benchmark's.
            n_documents: documents a split, 50 to 10,000.
            depth: 0 (the beginning) to 1 (the end); None is random.
            n_queries: queries a split, 50 to the number of documents.

        Raises:
            InputError: a value outside its range.

        >>> LongEmbedPasskey.variant(seed=7, depth=0.5).metadata.name
        'LongEmbedPasskey-seed7-depth0.5'
        """
        recipe = Recipe(seed, n_documents, depth, n_queries)
        return cls._variant(recipe, {}, recipe.suffix(), "")

    @classmethod
    def hidden(cls, draws: Draws, n: int) -> list[Hidden]:
        """One pass key a document: no two people and no two keys of a split are the same."""
        people = draws.distinct(n, len(FIRST_NAMES) * len(LAST_NAMES))
        keys = draws.distinct(n, 90_000)
        made = []
        for person, key in zip(people, keys, strict=True):
            first, last = divmod(person, len(LAST_NAMES))
            name, digits = f"{FIRST_NAMES[first]} {LAST_NAMES[last]}", key + 10_000
            text = f"{name}'s pass key is {digits}. Remember it. {digits} is the pass key for {name}."
            made.append(Hidden(text, f"what is the pass key for {name}?"))
        return made

    @classmethod
    def sentences(cls, draws: Draws, n_words: int) -> Sequence[str]:
        """The five filler sentences over and over."""
        rounds = n_words // _FILLER_WORDS + 1
        return [sentence for sentence, _ in zip(cycle(FILLER), range(rounds * len(FILLER)), strict=False)]
