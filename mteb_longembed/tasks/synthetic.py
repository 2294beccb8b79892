"""Retrieval tasks whose documents are generated here: offline, the same on every machine, at ten lengths.

A split's name holds its document length in tokens; a document has 0.75 words a token, as in the paper. The
text to be found sits at a random sentence end, and its place is kept as `depth` (0 = the beginning).
"""

from __future__ import annotations

import hashlib
import types
from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from datasets import Dataset
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData

from mteb_longembed.errors import InputError, UnknownNameError
from mteb_longembed.tasks.draws import Draws
from mteb_longembed.tasks.metadata import K_VALUES, LongEmbedMetadata

GENERATOR = "g1"  # raise it when the same recipe gives other documents
LENGTHS = (256, 512, 1024, 2048, 4096, 8192, 16384, 32768)
LONGER = (65536, 131072)
N_QUERIES = 50

_WORDS_PER_TOKEN = 0.75
# Names, digits and rare words break into many tokens: the hidden text is counted as about 33 tokens, so that
# the documents of the shortest split still fit. The published documents have exactly this much filler.
_HIDDEN_WORDS = 25


@dataclass(frozen=True)
class Hidden:
    """One text to hide in a document, and the query that only it answers."""

    text: str
    query: str


@dataclass(frozen=True)
class Recipe:
    """What can be varied: the seed, the documents and queries of a split, and a fixed depth (None: random)."""

    seed: int = 0
    n_documents: int = 100
    depth: float | None = None
    n_queries: int = N_QUERIES

    def suffix(self) -> str:
        """The part of the task's name that tells this recipe from the default, which has none.

        >>> Recipe(seed=7, depth=0.25).suffix()
        '-seed7-depth0.25'
        """
        parts = [f"-seed{self.seed}" if self.seed else ""]
        parts.append(f"-docs{self.n_documents}" if self.n_documents != Recipe.n_documents else "")
        parts.append(f"-depth{self.depth:g}" if self.depth is not None else "")
        parts.append(f"-queries{self.n_queries}" if self.n_queries != N_QUERIES else "")
        return "".join(parts)


class Haystack:
    """A running text with its sentence ends, cut after a number of words.

    >>> hay = Haystack(["The grass is green. ", "The sky is blue. ", "Here we go. "], n_words=6)
    >>> hay.text, hay.ends
    ('The grass is green. The sky', [(0, 0), (20, 4)])
    """

    def __init__(self, sentences: Sequence[str], n_words: int) -> None:
        pieces: list[str] = []
        self.ends = [(0, 0)]  # characters and words before each place where a text can be put
        chars = words = 0
        for sentence in sentences:
            split = sentence.split()
            if words + len(split) > n_words:
                pieces.append(" ".join(split[: n_words - words]))
                break
            pieces.append(sentence)
            chars, words = chars + len(sentence), words + len(split)
            self.ends.append((chars, words))
            if words == n_words:
                break
        self.text = "".join(pieces).rstrip()
        self.n_words = n_words

    def hide(self, text: str, draws: Draws, depth: float | None) -> dict[str, Any]:
        """A document: this text with another at a random sentence end, or at the one nearest to `depth`."""
        place = draws.below(len(self.ends)) if depth is None else self._nearest(depth)
        chars, words = self.ends[place]
        before, after = self.text[:chars], self.text[chars:]
        gap = "" if not before or before[-1].isspace() else " "
        document = f"{before}{gap}{text} {after}" if after else f"{before}{gap}{text}"
        return {
            "text": document,
            "depth": round(words / self.n_words, 4),
            "n_words": self.n_words + len(text.split()),
        }

    def _nearest(self, depth: float) -> int:
        target = depth * self.n_words
        right = bisect_left(self.ends, target, key=lambda end: end[1])
        around = [i for i in (right - 1, right) if 0 <= i < len(self.ends)]
        return min(around, key=lambda i: abs(self.ends[i][1] - target))


class SyntheticRetrieval(AbsTaskRetrieval):
    """A generated task: a subclass says what is hidden in what."""

    metadata: LongEmbedMetadata
    recipe: ClassVar[Recipe] = Recipe()
    k_values = K_VALUES
    max_documents: ClassVar[int]

    @classmethod
    @abstractmethod
    def hidden(cls, draws: Draws, n: int) -> list[Hidden]:
        """The n texts to hide, one a document."""

    @classmethod
    @abstractmethod
    def sentences(cls, draws: Draws, n_words: int) -> Sequence[str]:
        """The sentences to hide them in, each with the white space after it; at least `n_words` words."""

    @classmethod
    def known_splits(cls) -> tuple[str, ...]:
        """The eight splits of the benchmark, then the longer ones that must be asked for."""
        return tuple(f"test_{length}" for length in LENGTHS + LONGER)

    @classmethod
    def generate(cls, split: str) -> dict[str, Any]:
        """The corpus rows, query rows and relevance judgements of a split.

        Raises:
            UnknownNameError: a split that is none of `known_splits()`.
        """
        if split not in cls.known_splits():
            raise UnknownNameError(f"split of {cls.metadata.name}", split, cls.known_splits())
        recipe, length = cls.recipe, int(split.removeprefix("test_"))
        draws = Draws(f"{GENERATOR}/{cls.__name__}/{recipe.seed}/{length}")
        n_words = int(_WORDS_PER_TOKEN * length) - _HIDDEN_WORDS
        hidden = cls.hidden(draws, recipe.n_documents)
        haystack = Haystack(cls.sentences(draws, n_words), n_words)
        corpus = [
            {"id": f"d{i}", **haystack.hide(item.text, draws, recipe.depth)} for i, item in enumerate(hidden)
        ]
        asked = draws.distinct(recipe.n_queries, len(hidden))
        queries = [{"id": f"q{i}", "text": hidden[document].query} for i, document in enumerate(asked)]
        judgements = {f"q{i}": {f"d{document}": 1} for i, document in enumerate(asked)}
        return {"corpus": corpus, "queries": queries, "relevant_docs": judgements}

    def load_data(self, num_proc: int | None = None, **kwargs: Any) -> None:
        """Generate the splits asked for, and no others.

        Raises:
            UnknownNameError: `eval_splits` names a split that is none of `known_splits()`.
        """
        if self.data_loaded:
            return
        self.dataset = {"default": {}}
        for split in self.eval_splits:
            data = self.generate(split)
            self.dataset["default"][split] = RetrievalSplitData(
                corpus=Dataset.from_list(data["corpus"]),
                queries=Dataset.from_list(data["queries"]),
                relevant_docs=data["relevant_docs"],
                top_ranked=None,
            )
        self.data_loaded = True

    @classmethod
    def content_hash(cls) -> str:
        """Twelve hex digits over every split's documents, queries and judgements (also the longer ones)."""
        digest = hashlib.sha256()
        for split in cls.known_splits():
            data = cls.generate(split)
            for row in data["corpus"]:
                digest.update(f"{row['id']}\t{row['text']}\t{row['depth']}\t{row['n_words']}\n".encode())
            for row in data["queries"]:
                digest.update(f"{row['id']}\t{row['text']}\t{[*data['relevant_docs'][row['id']]]}\n".encode())
        return digest.hexdigest()[:12]

    @classmethod
    def _variant(cls, recipe: Recipe, extra: dict[str, Any], suffix: str, told: str) -> SyntheticRetrieval:
        """An instance of a class of its own, whose name and revision tell it from the default task's."""
        if not N_QUERIES <= recipe.n_documents <= cls.max_documents:
            raise InputError(
                f"n_documents of {cls.metadata.name} must be {N_QUERIES} to {cls.max_documents} documents, "
                f"got {recipe.n_documents}."
            )
        if not N_QUERIES <= recipe.n_queries <= recipe.n_documents:
            raise InputError(
                f"n_queries of {cls.metadata.name} must be {N_QUERIES} to the number of documents, which is "
                f"{recipe.n_documents}, got {recipe.n_queries}."
            )
        if recipe.depth is not None and not 0 <= recipe.depth <= 1:
            raise InputError(f"depth must be from 0 (the beginning) to 1 (the end), got {recipe.depth}.")
        if not suffix:
            return cls()
        made = hashlib.sha256(f"{cls.metadata.revision}{suffix}{told}".encode()).hexdigest()[:12]
        metadata = cls.metadata.model_copy(
            update={
                "name": cls.metadata.name + suffix,
                "description": f"{cls.metadata.description} Variant: {suffix.strip('-').replace('-', ', ')}.",
                "dataset": {**cls.metadata.dataset, "revision": f"{GENERATOR}-{made}"},
            }
        )
        body = {"recipe": recipe, "metadata": metadata, "__module__": cls.__module__, **extra}
        made_class = types.new_class(cls.__name__, (cls,), exec_body=lambda names: names.update(body))
        return made_class()
