"""LongEmbedNeedle: which of a hundred long documents has the fact that answers a question?"""

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

from mteb_longembed.sentences import sentence_ends
from mteb_longembed.tasks.generated.haystack import Draws, Haystack, Hidden
from mteb_longembed.tasks.generated.synthetic import LENGTHS, SyntheticRetrieval, generated

DATA = Path(__file__).parent / "data"
#: The kind of needles whose question shares no word with the fact.
PARAPHRASE = "paraphrase"
#: A hash of the first version of the paraphrases' texts, kept as a part of the revision.
_PARAPHRASES = (
    "75e69bf9205dde052e47cb7943ae2121546f6ae14f95f36d912736da124fac78"
    "v1a1e8ba66b79b2fe21859dee6ddd58fe55f759db9d6c88712c64ae51cef722d67"
)

# Mean characters of the published documents (mteb's descriptive statistics of LEMBNeedleRetrieval). Characters and not
# words, because our words are shorter: with as many words, documents of 16,384 tokens would be 11 percent shorter.
_MEANS = (1013.1, 2009.93, 4069.87, 8453.82, 17394.8, 35202.82, 72054.8, 141769.8)
PUBLISHED_CHARS = dict(zip(LENGTHS, _MEANS, strict=True))


class LongEmbedNeedle(SyntheticRetrieval):
    """A fact at a random sentence end in essays, at eight lengths, generated offline.

    Source: LongEmbed, section 3.1 (https://arxiv.org/abs/2404.12096).
    Differs: facts, queries and essays are our own, because we may not distribute the published ones. As in the
    published data, the hundred documents of a split share one text, and only the fact is different.
    """

    metadata = generated(
        __name__,
        "g2-81f4a65fbaa5",
        name="LongEmbedNeedle",
        description=(
            "Find the document that holds the one fact answering a question, in 256 to 32,768 tokens of "
            "essays; generated offline by mteb-longembed after the LongEmbed paper."
        ),
        domains=["Constructed", "Encyclopaedic", "Written"],
        task_subtypes=["Article retrieval", "Question answering"],
    )
    generator = "g2"
    most_documents = 100  # the number of facts
    kinds = {"": "", PARAPHRASE: _PARAPHRASES}

    @classmethod
    def hidden(cls, draws: Draws, n: int) -> list[Hidden]:
        """Return n of the hundred facts in random order."""
        every = facts(cls.recipe.kind)
        return [every[i] for i in draws.distinct(n, len(every))]

    @classmethod
    def sentences(cls, draws: Draws) -> Iterator[str]:
        """Yield the essays' sentences, with paragraphs in random order; after the last, in a new random order."""
        while True:
            for paragraph in draws.shuffled(paragraphs()):
                yield from split_sentences(paragraph)

    @classmethod
    def make_haystack(cls, draws: Draws, length: int, hidden: Sequence[Hidden]) -> Haystack:
        """Build a text that is shorter than a document by the mean hidden sentence and a space.

        Documents have the mean length of the published ones; longer splits have the characters per token of the longest
        published one.
        """
        n_chars = PUBLISHED_CHARS.get(length, PUBLISHED_CHARS[LENGTHS[-1]] / LENGTHS[-1] * length)
        taken = sum(len(item.text) + 1 for item in hidden)
        return Haystack(cls.sentences(draws), round(n_chars) - round(taken / len(hidden)), "characters")


@cache
def facts(kind: str = "") -> Sequence[Hidden]:
    """Return the hundred facts with their answers, or the hundred paraphrases, whose queries need an inference.

    Source of the idea of paraphrases: NoLiMa (https://arxiv.org/abs/2502.05167), section 3. The texts are our own.
    """
    if kind == PARAPHRASE:
        text = (DATA / "paraphrases.tsv").read_text(encoding="utf-8")
        return tuple(Hidden(*line.split("\t")) for line in text.splitlines())
    lines = (DATA / "needle_facts.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return tuple(Hidden(row["fact"], row["query"], row["answer"]) for row in rows)


@cache
def paragraphs() -> list[str]:
    """Return the paragraphs of the essays."""
    texts = (path.read_text(encoding="utf-8") for path in sorted((DATA / "essays").glob("*.txt")))
    # white space inside a paragraph becomes one space: line ends must not change the content hash
    parts = re.split(r"\n\s*\n", "\n\n".join(texts))
    return [" ".join(part.split()) for part in parts if part.strip()]


def split_sentences(paragraph: str) -> list[str]:
    r"""Return the sentences of a paragraph, each with the white space after it; a blank line follows the last one.

    >>> split_sentences("We met Dr. Voss. Why? She had 12 answers.")
    ['We met Dr. Voss. ', 'Why? ', 'She had 12 answers.\n\n']
    """
    ends = [0, *sentence_ends(paragraph), len(paragraph)]
    sentences = [paragraph[start:end] for start, end in pairwise(ends)]
    return [*sentences[:-1], sentences[-1] + "\n\n"]
