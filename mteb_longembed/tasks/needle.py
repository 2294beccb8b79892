"""LongEmbedNeedle: which of a hundred long documents holds the fact that answers a question?"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from mteb_longembed.errors import DataError
from mteb_longembed.tasks.draws import Draws
from mteb_longembed.tasks.metadata import CITATION, PAPER, LongEmbedMetadata
from mteb_longembed.tasks.synthetic import LENGTHS, Hidden, Recipe, SyntheticRetrieval

DATA = Path(__file__).parent / "data"
ESSAYS = DATA / "essays"

# A sentence ends at . ! or ? (and a closing quote) before white space and a capital, digit or quote.
_SENTENCE_END = re.compile(r"(?<=[.!?])(?:[\"'”’)]*)\s+(?=[\"'“‘(]*[A-Z0-9])")
_SHORT_FORMS = ("Mr.", "Mrs.", "Ms.", "Dr.", "St.", "No.", "vs.", "e.g.", "i.e.")


class LongEmbedNeedle(SyntheticRetrieval):
    """A fact put at a random sentence end of essays, at eight lengths, made offline.

    Source: LongEmbed, section 3.1 (https://arxiv.org/abs/2404.12096).
    Differs: facts, queries and essays are our own, since the published ones may not be passed on. As in the
    published data, the hundred documents of a split share one text and differ by the fact alone.
    """

    metadata = LongEmbedMetadata(
        name="LongEmbedNeedle",
        description=(
            "Find the document that holds the one fact answering a question, in 256 to 32,768 tokens of "
            "essays; generated offline by mteb-longembed after the LongEmbed paper."
        ),
        dataset={"path": "mteb_longembed.tasks.needle", "revision": "g1-133302b7f8f1"},
        reference=PAPER,
        type="Retrieval",
        category="t2t",
        modalities=["text"],
        eval_splits=[f"test_{length}" for length in LENGTHS],
        eval_langs=["eng-Latn"],
        main_score="ndcg_at_1",
        date=("2026-01-01", "2026-11-21"),
        domains=["Constructed", "Encyclopaedic", "Written"],
        task_subtypes=["Article retrieval", "Question answering"],
        license="apache-2.0",
        annotations_creators="algorithmic",
        dialect=[],
        sample_creation="created",
        bibtex_citation=CITATION,
    )
    max_documents = 100
    haystack: ClassVar[Path] = ESSAYS

    @classmethod
    def variant(
        cls,
        *,
        seed: int = 0,
        n_documents: int = 100,
        depth: float | None = None,
        n_queries: int = 50,
        haystack: str | Path | None = None,
    ) -> SyntheticRetrieval:
        """The task with another seed, a fixed depth or other essays, under a name and revision of its own.

        Args:
            seed: 0 is the benchmark's.
            n_documents: documents a split, 50 to 100 (there are a hundred facts).
            depth: 0 (the beginning) to 1 (the end); None is random.
            n_queries: queries a split, 50 to the number of documents.
            haystack: a folder of your own essays, `*.txt` in UTF-8, paragraphs divided by blank lines.

        Raises:
            InputError: a value outside its range.
            DataError: a haystack without text, or text that is not UTF-8.
        """
        recipe = Recipe(seed, n_documents, depth, n_queries)
        if haystack is None:
            return cls._variant(recipe, {}, recipe.suffix(), "")
        folder = Path(haystack)
        text = "\n\n".join(paragraphs(folder))
        told = hashlib.sha256(text.encode()).hexdigest()
        return cls._variant(recipe, {"haystack": folder}, f"{recipe.suffix()}-haystack{told[:8]}", told)

    @classmethod
    def hidden(cls, draws: Draws, n: int) -> list[Hidden]:
        """n of the hundred facts in random order."""
        known = facts()
        return [Hidden(known[i]["fact"], known[i]["query"]) for i in draws.distinct(n, len(known))]

    @classmethod
    def sentences(cls, draws: Draws, n_words: int) -> Sequence[str]:
        """The essays' sentences, whole paragraphs in random order; shuffled anew when all are used up."""
        known = paragraphs(cls.haystack)
        made: list[str] = []
        words = 0
        while words < n_words:
            for paragraph in draws.shuffled(known):
                made.extend(split_sentences(paragraph))
                words += len(paragraph.split())
        return made


@cache
def facts() -> tuple[dict[str, Any], ...]:
    """The hundred facts: `id`, `topic`, `fact`, `query`, `answer`."""
    lines = (DATA / "needle_facts.jsonl").read_text(encoding="utf-8").splitlines()
    return tuple(json.loads(line) for line in lines)


@cache
def paragraphs(folder: Path) -> tuple[str, ...]:
    """The paragraphs of a folder's `*.txt` files, file by file in the order of their names.

    Raises:
        DataError: no such folder, no text in it, or a file that is not UTF-8.
    """
    found: list[str] = []
    for path in sorted(folder.glob("*.txt")):
        try:
            text = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            where = f"{path}, byte {error.start}"
            raise DataError(f"{where}: expected UTF-8 text, got other bytes; save it as UTF-8.") from None
        # one space for any white space inside a paragraph: line ends must not change the content hash
        found += [" ".join(part.split()) for part in re.split(r"\n\s*\n", text.replace("\r\n", "\n"))]
    found = [part for part in found if part]
    if not found:
        raise DataError(f"haystack {folder}: expected *.txt files with text in that folder, found none.")
    return tuple(found)


def split_sentences(paragraph: str) -> list[str]:
    """A paragraph's sentences, each with the white space that follows it; the last with a blank line.

    >>> split_sentences('We met Dr. Voss. "Why?" she asked. 12 answers.')
    ['We met Dr. Voss. ', '"Why?" she asked. ', '12 answers.\\n\\n']
    """
    made: list[str] = []
    start = 0
    for found in _SENTENCE_END.finditer(paragraph):
        if paragraph[start : found.start()].endswith(_SHORT_FORMS):
            continue
        made.append(paragraph[start : found.end()].rstrip() + " ")
        start = found.end()
    return [*made, paragraph[start:] + "\n\n"]
