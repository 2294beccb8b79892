"""Search over one's own documents: add them, ask, and see the passage that answers."""

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, overload

from datasets import Dataset, concatenate_datasets

from mteb_longembed.data.check import read_texts
from mteb_longembed.data.table import Source
from mteb_longembed.data.task import check_language
from mteb_longembed.data.text_table import stored_table
from mteb_longembed.data.texts import ENGLISH
from mteb_longembed.encoders.tokens import read_given, without_surrogates
from mteb_longembed.errors import InputError
from mteb_longembed.files import counted
from mteb_longembed.hub import silence

from .chunks import Chunker, warn_of_cut_chunks
from .heads import Pass
from .make import make_scorer
from .mteb_search import MTEBSearch, best_documents
from .passage_bm25 import PassageBM25
from .scorer import Documents, Scorer, full_name
from .windows import Windows


@dataclass(frozen=True)
class Hit:
    """A document that a query found."""

    id: str  #: of the document
    score: float  #: of the document, by the rule of the model's name
    start: int  #: first character of the passage
    end: int  #: the character behind its last one
    passage: str  #: the text of the best window or span; with `passages=False` and one vector, the text that was read
    document: str = field(default="", repr=False)  #: all of its text
    #: BM25 alone: the words of the query that the passage matches, and the word of the passage that each matches best
    words: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        passage = f"{self.passage[:200]!r}"
        if len(self.passage) > 200:  # all that was read, with one vector and `passages=False`
            passage += "..."
        return f"Hit(id={self.id!r}, score={self.score:.6g}, start={self.start}, end={self.end}, passage={passage})"

    def around(self, n: int) -> str:
        """The passage with up to `n` characters of the document before it and behind it."""
        return self.document[max(self.start - n, 0) : self.end + n]


class Searcher:
    """Documents, and the scorer that finds them. `search` makes one. Their texts are in a temporary file.

    Threads may share it: one call runs at a time. So may processes that are forked from this one, each of which has its
    own from then on; it cannot be pickled. An `add` that fails changes nothing.

    Args:
        scorer: what scores documents. It gets the documents of this searcher, and no others.
        passages: whether a hit shows the best window of a document that has one vector.
        language: of BM25's stop words and stems, as mteb writes it, such as `deu-Latn`. None for English.
    """

    def __init__(self, scorer: Scorer, *, passages: bool = True, language: str | None = None) -> None:
        self.scorer = scorer
        #: The documents that have text, in the order in which the scorer knows them.
        self._tables: list[Dataset] = []
        self._documents = Documents([], [], language or ENGLISH)
        #: The ids of documents without text. They are kept and never found.
        self.empty: list[str] = []
        # several parts of a fusion have vectors, and the last one shows passages
        vectors = getattr(scorer, "vectors", [scorer])[-1]
        #: The pass that encodes the chunks of a user's chunker.
        self._chunked: Pass | None = None
        if isinstance(vectors, Windows):
            vectors.finds_windows = passages
            if vectors.encoded.cut is not None:
                self._chunked = vectors.encoded
        self._lock = threading.RLock()

    @property
    def protocol(self) -> MTEBSearch:
        """The same search as mteb's search protocol: `index`, `search`, `mteb_model_meta`."""
        return MTEBSearch(self.scorer)

    def __len__(self) -> int:
        return len(self._documents) + len(self.empty)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({full_name(self.scorer.meta)}, {counted(len(self), 'document', 'documents')})"

    def __reduce__(self) -> str:
        raise InputError(
            "a Searcher cannot be pickled or copied, because its texts and vectors are in temporary files of this "
            "process: make one in each process with mteb_longembed.search(NAME) and add the documents, or fork."
        )

    def add(self, ids: Iterable[str], texts: Iterable[str]) -> None:
        """Encode documents and add them.

        Both iterables are read once, side by side, and no more than a few texts of them are in memory. With `weights=`
        and `whiten=` the first call counts, and a new searcher counts anew.

        Args:
            ids: one for each text; new ones.
            texts: the documents. One without text is never found.

        Raises:
            InputError: if an id is known, given twice or no text; if a text is none; or if the numbers differ.
            StorageError: if the disk refuses a write.
        """
        self._add_all(_pairs(ids, texts))

    def read(self, source: Source) -> None:
        """Add the documents of a file, of a folder of texts or of Parquet files, of a table, or of a stream.

        Args:
            source: rows with `id` and `text`, and perhaps `title`, as `compare` takes them for its corpus.

        Raises:
            DataError: if the source cannot be read, or a row breaks a rule.
            InputError, StorageError: as for `add`.
        """
        self._add_all(read_texts(source))

    def _add_all(self, documents: Iterable[tuple[str, str]]) -> None:
        """Add documents, each with its id."""
        empty: list[str] = []
        with self._lock, silence():  # of bars for tables that are made in no time
            tables = list(self._tables)
            tables.append(stored_table(self._read_given(documents, empty)))
            # tables of like size become one, so that there are few open files
            while len(tables) > 1 and len(tables[-2]) < 2 * len(tables[-1]):
                merged = concatenate_datasets(tables[-2:])
                tables[-2:] = [stored_table((row["id"], row["text"]) for row in merged)]
            if len(tables[-1]):
                rows = concatenate_datasets(tables)
                read = Documents(list(rows["id"]), rows["text"], self._documents.language)
                fit = self.scorer.fit
                if len(self._documents):
                    fit = getattr(self.scorer, "add", fit)
                fit(read)
                if self._chunked is not None:
                    warn_of_cut_chunks(self._chunked, read.texts[len(self._documents) :])
                self._documents = read
                self._tables = tables
            self.empty += empty

    def _read_given(
        self, documents: Iterable[tuple[str, str]], empty: list[str]
    ) -> Iterator[tuple[str, str]]:
        """Documents that have text. The ids of the others are noted."""
        known = {*self._documents.ids, *self.empty}
        for key, text in documents:
            if not key or key != without_surrogates(key):
                raise InputError(
                    f"an id must have at least one character and no half ones, got {key!r}: give another id."
                )
            if key in known:
                raise InputError(
                    f"ids must be new, got {key!r} a second time: give the document another id, or start a new "
                    "search."
                )
            known.add(key)
            if not text or text.isspace():
                empty.append(key)
            else:
                yield key, text

    @overload
    def search(self, query: str, k: int = 10) -> list[Hit]: ...

    @overload
    def search(self, query: list[str], k: int = 10) -> list[list[Hit]]: ...

    def search(self, query: str | list[str], k: int = 10) -> list[Hit] | list[list[Hit]]:
        """The `k` best documents of a query, best first; all if there are fewer. A list of queries gives lists.

        Of those with equal scores, the one that was added first comes first. BM25 alone finds only documents that share
        a word with the query.

        Raises:
            InputError: if the query is no text, `k` is below 1, or no document has text.
        """
        if isinstance(query, str):
            return self.search([query], k)[0]
        queries = list(read_given("queries", query))
        for text in queries:
            if not text.strip():
                raise InputError(f"a query must be a text with words, got {text!r}.")
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise InputError(f"k must be a whole number of at least 1 document, got {k!r}.")
        if not len(self._documents):
            raise InputError("search needs documents with text: add some first.")
        if not queries:
            return []
        with self._lock, silence():
            return self._found(queries, k)

    def _found(self, queries: list[str], k: int) -> list[list[Hit]]:
        documents = self._documents
        rankings = []
        for pairs in best_documents(self.scorer, queries, k, len(documents)):
            if isinstance(self.scorer, PassageBM25):
                pairs = [(score, number) for score, number in pairs if score > 0]
            rankings.append(pairs)
        spans = self.scorer.passages(queries, [[number for _, number in ranking] for ranking in rankings])
        matches: Any = getattr(self.scorer, "matches", lambda query, passage: {})
        hits = []
        for query, ranking, of_query in zip(queries, rankings, spans, strict=True):
            found = []
            for (score, number), (start, end) in zip(ranking, of_query, strict=True):
                text = documents.texts[number]
                passage = text[start:end]
                words = matches(query, passage)
                found.append(Hit(documents.ids[number], float(score), start, end, passage, text, words))
            hits.append(found)
        return hits


def _pairs(ids: Iterable[str], texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each id with its text."""
    missing: Any = None  # neither an id nor a text may be None
    given = read_given("ids", ids, keys=True), read_given("documents", texts)
    for key, text in zip_longest(*given, fillvalue=missing):
        if key is missing or text is missing:
            raise InputError("every document needs an id, got more of one than of the other: give as many.")
        yield key, text


def search(
    name: str,
    *,
    chunker: Chunker | None = None,
    device: str | None = None,
    passages: bool = True,
    language: str | None = None,
) -> Searcher:
    """A search over your own documents by the name of a model. docs/search.md has recipes for databases.

    `add(ids, texts)` and `read(source)` add documents, `search(query, k=10)` finds them. `protocol` is the same search
    as mteb's search protocol.

    Args:
        name: `BASE+STRATEGY[@TARGET][:key=value,...]`, with or without parameters of search; a folder; or any
            name that mteb knows. A folder alone means `+none`.
        chunker: cuts documents; each chunk is encoded on its own, and a document scores by its chunks. A function from
            a text to chunks, each `(start, end)` in characters, perhaps with its own text, or an object of Chonkie,
            LangChain (`add_start_index=True`) or LlamaIndex.
        device: where the model runs; default the best device of this machine.
        passages: whether hits of a name with one vector, and of BM25 alone, show the best window of what was read of
            the document. The model encodes the windows of a document when it is shown for the first time.
        language: of BM25's stop words and stems, as mteb writes it, such as `zho-Hans`. Default: English.

    Raises:
        InputError: if the language is not known.
        LongEmbedError: for the same reasons as `load`.
        ModelError: if mteb cannot load the model.

    Example:
        >>> searcher = mteb_longembed.search("mini-rope+pcw@32k:vectors=window")  # doctest: +SKIP
        >>> searcher.add(["a", "b"], ["The key is under the mat.", "The cat is on it."])  # doctest: +SKIP
        >>> searcher.search("Where is the key?", k=1)[0].id  # doctest: +SKIP
        'a'
    """
    if language is not None:
        check_language(language)
    return Searcher(make_scorer(name, device, chunker), passages=passages, language=language)
