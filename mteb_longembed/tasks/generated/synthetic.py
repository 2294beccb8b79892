"""Retrieval tasks whose documents are generated here: offline, the same on every machine, at 13 lengths.

A split's name holds its document length in tokens. The text to be found sits at a random sentence end, and its
place is kept as `depth` (0 = the beginning).
"""

from __future__ import annotations

import hashlib
import types
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from datasets import Dataset
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData

from mteb_longembed.errors import InputError, UnknownNameError
from mteb_longembed.tasks.arrow import Written, write_rows
from mteb_longembed.tasks.generated.draws import Draws
from mteb_longembed.tasks.generated.haystack import Corpus, Haystack, Hidden
from mteb_longembed.tasks.generated.languages import ENGLISH, Language, find_language
from mteb_longembed.tasks.metadata import K_VALUES, LongEmbedMetadata

LENGTHS = (256, 512, 1024, 2048, 4096, 8192, 16384, 32768)
LONGER = (65536, 131072, 262144, 524288, 1048576)
N_QUERIES = 50

# The revision covers these: longer splits came later, and must not change what older results are stored under.
_HASHED = LENGTHS + (65536, 131072)
_HARDER_AND_LANGUAGES = "v1"  # raise it when the same recipe gives other documents in those variants
_IN_MEMORY = 64 * 2**20  # characters of a corpus; a larger one is written to disk document by document


@dataclass(frozen=True)
class Recipe:
    """What can be varied.

    Args:
        seed: of all draws.
        n_documents: documents a split.
        depth: 0 (the beginning) to 1 (the end); None is random.
        language: three letters, with a data file (`languages.py`).
        kind: of a harder needle (`harder.py`); "" is a plain one.
        n_queries: queries a split.
    """

    seed: int = 0
    n_documents: int = 100
    depth: float | None = None
    language: str = ENGLISH
    kind: str = ""
    n_queries: int = N_QUERIES

    def suffix(self) -> str:
        """The part of the task's name that tells this recipe from the default, which has none.

        >>> Recipe(seed=7, depth=0.25, language="deu").suffix()
        '-deu-seed7-depth0.25'
        """
        parts = [
            f"-{self.language}" if self.language != ENGLISH else "",
            f"-{self.kind}" if self.kind else "",
        ]
        parts.append(f"-seed{self.seed}" if self.seed else "")
        parts.append(f"-docs{self.n_documents}" if self.n_documents != Recipe.n_documents else "")
        parts.append(f"-depth{self.depth:g}" if self.depth is not None else "")
        parts.append(f"-queries{self.n_queries}" if self.n_queries != N_QUERIES else "")
        return "".join(parts)


class SyntheticRetrieval(AbsTaskRetrieval):
    """A generated task: a subclass says what is hidden in what."""

    metadata: LongEmbedMetadata
    generator: ClassVar[str]  # raise it when the same recipe gives other documents
    recipe: ClassVar[Recipe] = Recipe()
    k_values = K_VALUES
    _written: Written | None = None

    @classmethod
    @abstractmethod
    def most_documents(cls) -> int:
        """How many documents a split can have at most."""

    @classmethod
    @abstractmethod
    def hidden(cls, draws: Draws, n: int) -> list[Hidden]:
        """What the n documents hide."""

    @classmethod
    @abstractmethod
    def sentences(cls, draws: Draws) -> Iterator[str]:
        """The sentences to hide them in, each with the white space after it, without an end."""

    @classmethod
    def make_haystack(cls, draws: Draws, length: int, hidden: Sequence[Hidden]) -> Haystack:
        """The text that the documents of a split share, so long that they have `length` tokens."""
        language = cls.language()
        wanted = cls.n_chars(length)
        taken = sum(len(text) + len(language.space) for item in hidden for text in (item.text, *item.others))
        size = wanted - round(taken / len(hidden))
        return Haystack(cls.sentences(draws), size, "characters", language.space)

    @classmethod
    @abstractmethod
    def n_chars(cls, length: int) -> int:
        """Characters that a document of `length` tokens has on average."""

    @classmethod
    def language(cls) -> Language:
        """The language of the documents and queries."""
        return find_language(cls.recipe.language)

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
        draws = Draws(f"{cls.generator}/{cls.__name__}/{recipe.seed}/{length}")
        hidden = cls.hidden(draws, recipe.n_documents)
        haystack = cls.make_haystack(draws, length, hidden)
        places = [haystack.places(1 + len(item.others), draws, recipe.depth) for item in hidden]
        asked = draws.distinct(recipe.n_queries, len(hidden))
        queries = [{"id": f"q{i}", "text": hidden[document].query} for i, document in enumerate(asked)]
        judgements = {f"q{i}": {f"d{document}": 1} for i, document in enumerate(asked)}
        return {"corpus": Corpus(haystack, hidden, places), "queries": queries, "relevant_docs": judgements}

    def load_data(self, num_proc: int | None = None, **kwargs: Any) -> None:
        """Generate the splits asked for, and no others; a corpus of more than 64 Mi characters on disk.

        Raises:
            UnknownNameError: `eval_splits` names a split that is none of `known_splits()`.
            DataError: no room for a large corpus in the cache of `datasets`.
        """
        if self.data_loaded:
            return
        self.dataset = {"default": {}}
        for split in self.eval_splits:
            data = self.generate(split)
            corpus: Corpus = data["corpus"]
            if corpus.n_chars > _IN_MEMORY:
                self._written = self._written or Written()
                table = write_rows(self._written.folder / f"{split}.arrow", corpus)
            else:
                table = Dataset.from_list(list(corpus))
            self.dataset["default"][split] = RetrievalSplitData(
                corpus=table,
                queries=Dataset.from_list(data["queries"]),
                relevant_docs=data["relevant_docs"],
                top_ranked=None,
            )
        self.data_loaded = True

    def unload_data(self) -> None:
        """Forget the data, also those on disk."""
        super().unload_data()
        if self._written is not None:
            self._written.remove()
            self._written = None

    @classmethod
    def content_hash(cls, lengths: Sequence[int] = _HASHED) -> str:
        """Twelve hex digits over these splits' documents, queries and judgements."""
        digest = hashlib.sha256()
        for length in lengths:
            data = cls.generate(f"test_{length}")
            for row in data["corpus"]:
                digest.update(f"{row['id']}\t{row['text']}\t{row['depth']}\t{row['n_words']}\n".encode())
            for row in data["queries"]:
                digest.update(f"{row['id']}\t{row['text']}\t{[*data['relevant_docs'][row['id']]]}\n".encode())
        return digest.hexdigest()[:12]

    @classmethod
    def _variant(cls, recipe: Recipe, extra: dict[str, Any], suffix: str, told: str) -> SyntheticRetrieval:
        """An instance of a class of its own, whose name and revision tell it from the default task's."""
        if recipe.depth is not None and not 0 <= recipe.depth <= 1:
            raise InputError(f"depth must be from 0 (the beginning) to 1 (the end), got {recipe.depth}.")
        language = find_language(recipe.language)
        if recipe.language != ENGLISH or recipe.kind:
            told += f"{_HARDER_AND_LANGUAGES}{language.digest}"
        made = hashlib.sha256(f"{cls.metadata.revision}{suffix}{told}".encode()).hexdigest()[:12]
        metadata = cls.metadata.model_copy(
            update={
                "name": cls.metadata.name + suffix,
                "eval_langs": [language.code],
                "description": f"{cls.metadata.description} Variant: {suffix.strip('-').replace('-', ', ')}.",
                "dataset": {**cls.metadata.dataset, "revision": f"{cls.generator}-{made}"},
            }
        )
        body = {"recipe": recipe, "metadata": metadata, "__module__": cls.__module__, **extra}
        made_class: Any = types.new_class(cls.__name__, (cls,), exec_body=lambda names: names.update(body))
        if not N_QUERIES <= recipe.n_documents <= made_class.most_documents():
            raise InputError(
                f"n_documents of {cls.metadata.name} must be {N_QUERIES} to {made_class.most_documents()} "
                f"documents, got {recipe.n_documents}."
            )
        if not N_QUERIES <= recipe.n_queries <= recipe.n_documents:
            raise InputError(
                f"n_queries of {cls.metadata.name} must be {N_QUERIES} to the number of documents, which is "
                f"{recipe.n_documents}, got {recipe.n_queries}."
            )
        variant: SyntheticRetrieval = made_class() if suffix else cls()
        return variant
