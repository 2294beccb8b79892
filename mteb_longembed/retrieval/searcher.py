"""Search your own documents: add them, query them, see the passages that answer; save and reopen the index."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress
from pathlib import Path
from typing import TYPE_CHECKING, overload

import numpy as np
import pyarrow
import pyarrow.compute

from mteb_longembed.data.look import unread
from mteb_longembed.data.stored_texts import Texts, merged, pairs, stored_texts
from mteb_longembed.errors import IndexFolderError, InputError
from mteb_longembed.files import Json, counted
from mteb_longembed.given import read_given, read_pairs, with_text
from mteb_longembed.sentences import CHARS_PER_TOKEN
from mteb_longembed.values import ENGLISH

from .analyzer import Language
from .hit import Hit
from .index import Index
from .ranking import best_documents
from .scorer import Documents, Scorer
from .storage import Reader, Writer, new_folder, write_lock

if TYPE_CHECKING:
    from mteb_longembed.data.table import Source

    from .encoding import Encoding

_LOGGER = logging.getLogger(__name__)


class Searcher:
    """Documents, and the scorer that finds them. `search` makes one, and `open_index` opens a saved one.

    Until it is saved, its texts and vectors are in temporary files. Threads may share it: one call runs at a time.
    Forked processes may use it too, each with a copy of its own from then on, if torch and FAISS run in one thread
    (`OMP_NUM_THREADS=1`): their threads do not survive a fork. A saved index can be pickled: another process opens its
    folder. A failed `add` changes nothing.

    Args:
        scorer: the scorer. It gets only the documents of this searcher.
        passages: whether to encode short windows and show the best one, if vectors have no text of their own: one
            vector per document, late interaction, sparse vectors.
        language: language of BM25's stop words and stems, as in mteb, such as `deu-Latn`. None for English.
        name: the name from which `open_index` rebuilds the scorer; empty for a scorer without one.
        saved: the saved index that the searcher opens.
    """

    def __init__(
        self,
        scorer: Scorer,
        *,
        passages: bool = True,
        language: str | None = None,
        name: str = "",
        saved: Reader | None = None,
    ) -> None:
        self.scorer = scorer
        self.name = name
        self.shows_passages = passages
        #: The documents with text, in the order of the scorer.
        self._tables: list[pyarrow.Table] = []
        self._documents = Documents([], [], language or ENGLISH)
        #: The ids of documents without text, which are kept but never found.
        self.empty: list[str] = []
        #: The scorer as an index; None for a custom one, and for a search of mteb's own.
        self.index = scorer if isinstance(scorer, Index) else None
        if self.index is not None and self.index.shown is not None:
            self.index.shown.finds_windows = passages
        self._lock = threading.RLock()
        #: The version of the saved index whose files are mapped.
        self._saved = saved
        if saved is not None:
            self.restore(saved)

    @property
    def language(self) -> Language:
        """Stemmer and stop words of the documents' language."""
        if len(self._documents) and self.index is not None and self.index.lexical is not None:
            return self.index.lexical.language
        return Language.of(self._documents.language)

    @property
    def folder(self) -> Path | None:
        """The folder of the saved index; None for a searcher that is not saved."""
        return None if self._saved is None else self._saved.folder

    @property
    def max_tokens(self) -> float | None:
        """How many tokens of a document the model reads; None for all."""
        return None if self._encoding is None else self._encoding.encoder.max_tokens

    @property
    def n_vectors(self) -> int:
        """The number of vectors that are stored, in all poolings; 0 for BM25 alone and custom scorers."""
        if self._encoding is None:
            return 0
        return sum(one.rows.n_vectors for one in self._encoding.stored)

    @property
    def _encoding(self) -> Encoding | None:
        return None if self.index is None else self.index.encoding

    def __len__(self) -> int:
        return len(self._documents) + len(self.empty)

    def __repr__(self) -> str:
        name = self.name or self.scorer.name
        return f"{type(self).__name__}({name}, {counted(len(self), 'document', 'documents')})"

    # ---- documents ---------------------------------------------------------------------------------------

    def add(self, ids: Iterable[str], texts: Iterable[str]) -> None:
        """Encode documents and add them. A saved index gets all of them or none.

        Both iterables are read once, in parallel, and only a few of their texts are in memory. `weights=` and `whiten=`
        are fitted by the first call, and again only after all documents were removed.

        Args:
            ids: a new id for each text.
            texts: the documents. A document without text is never found.

        Raises:
            InputError: if an id is not new or not a text; if a document is not a text; or if the numbers differ.
            StorageError: if the disk refuses a write.
            IndexFolderError: if another process writes, or has written, to the saved index.
        """
        with self._writing():
            self._change([], read_pairs(ids, texts))

    def read(self, source: Source) -> None:
        """Add the documents of a file, of a folder of texts or of Parquet files, of a table, or of a stream.

        Args:
            source: rows with `id` and `text`, and perhaps `title`, as for the corpus of `compare`.

        Raises:
            DataError: if the source cannot be read, or a row breaks a rule.
            InputError, StorageError, IndexFolderError: as for `add`.
        """
        from mteb_longembed.data.check import read_texts

        with self._writing():
            self._change([], read_texts(source))

    def remove(self, ids: Iterable[str]) -> None:
        """Remove documents. Weights and whitening are not fitted again.

        Raises:
            InputError: if an id is not known.
            IndexFolderError: as for `add`.
        """
        with self._writing():
            self._change(list(read_given("ids", ids, keys=True)), [])

    def replace(self, ids: Iterable[str], texts: Iterable[str]) -> None:
        """Replace documents by new texts, which come after all others. Unknown ids are added.

        Both iterables are read, and the new texts encoded, before anything is removed.

        Raises:
            InputError, StorageError, IndexFolderError: as for `add`; an id may be known, but not be there twice.
        """
        with self._writing():
            self._change([], read_pairs(ids, texts), replaces=True)

    def change(self, removed: Iterable[str], added: Mapping[str, str]) -> None:
        """Remove and add documents in one change. An added id that exists already is replaced.

        All input is read, and the added texts encoded, before anything is removed.

        Args:
            removed: ids of documents to remove.
            added: texts by id.

        Raises:
            InputError, StorageError, IndexFolderError: as for `remove` and `replace`.
        """
        if not isinstance(added, Mapping):
            raise InputError(
                f"added documents must be texts by id, got a {type(added).__name__}: give a dict."
            )
        with self._writing():
            ids = list(read_given("ids", removed, keys=True))
            self._change(ids, read_pairs(list(added), list(added.values())), replaces=True)

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield the id and text of each document; documents without text have an empty one."""
        for table in self._tables:
            yield from pairs(table)
        for key in self.empty:
            yield key, ""

    def _change(
        self, removed: Sequence[str], added: Iterable[tuple[str, str]], *, replaces: bool = False
    ) -> None:
        """Add documents, then remove others. With `replaces`, added documents take the place of known ones."""
        known = {*self._documents.ids, *self.empty}
        for key in removed:
            if key not in known:
                raise InputError(f"an id must be known to be removed, got {key!r}.")
        empty: list[str] = []
        new = stored_texts(with_text(added, empty, () if replaces else known))
        gone = known.intersection(chain(removed, new["id"].to_pylist(), empty))
        stays = [key not in gone for key in self._documents.ids]
        if all(stays):
            self._append(new)
        else:
            self._exchange(new, np.array(stays + [True] * len(new), bool))
        self.empty = [key for key in self.empty if key not in gone] + empty

    def _append(self, new: pyarrow.Table) -> None:
        """Add a table of documents with text."""
        if not len(new):
            return
        if self._encoding is not None:
            characters = pyarrow.compute.utf8_length(new["text"]).to_numpy()
            sentence = unread(characters / CHARS_PER_TOKEN, self.max_tokens)
            if sentence:
                _LOGGER.warning("%s", sentence)
        tables = merged([*self._tables, new])
        read = self._documents_of(tables)
        self._index(read)
        self._documents = read
        self._tables = tables

    def _exchange(self, new: pyarrow.Table, kept: np.ndarray) -> None:
        """Add a table of documents with text, and keep some of the previous and new ones, bool `[documents]`."""
        if not kept.any():  # the next documents are fitted anew
            self._documents = Documents([], [], self._documents.language)
            self._tables = []
            if self.index is not None:
                self.index.fit(self._documents)
            return
        before = [*self._tables, new]
        tables = [stored_texts(compress(pairs(pyarrow.concat_tables(before)), kept))]
        read = self._documents_of(tables)
        if self.index is None:
            self._fit(read)
        else:
            if len(new):
                self._index(self._documents_of(before))
            self.index.keep(read, kept)
        self._documents = read
        self._tables = tables

    def _index(self, documents: Documents) -> None:
        """Give the scorer the previous documents followed by new ones."""
        if len(self._documents) and self.index is not None:
            self.index.add(documents)
        else:
            self._fit(documents)

    def _fit(self, documents: Documents) -> None:
        """Fit the scorer, and again to the previous documents if that fails."""
        try:
            self.scorer.fit(documents)
        except BaseException:
            if len(self._documents):
                self.scorer.fit(self._documents)
            raise

    def _documents_of(self, tables: Sequence[pyarrow.Table]) -> Documents:
        rows = pyarrow.concat_tables(tables)
        return Documents(rows["id"].to_pylist(), Texts(rows), self._documents.language)

    # ---- saving ------------------------------------------------------------------------------------------

    @property
    def is_savable(self) -> bool:
        """Whether `open_index` can make the scorer again."""
        return bool(self.name) and self.index is not None

    @property
    def identity(self) -> Json:
        """The name, revision, versions and language that determine an index of the same documents."""
        index = self._savable()
        language = self._documents.language
        return {
            "name": self.name,
            "revision": index.revision,
            "versions": index.versions,
            "language": language,
        }

    def save(self, folder: str | Path) -> None:
        """Save the index to a new or an empty folder. From then on, each change of the searcher is saved there at once.

        A saved searcher that is saved to its own folder again writes nothing if nothing has changed there.

        Raises:
            InputError: if the folder holds other files or another index, or the scorer cannot be saved.
            IndexFolderError: if another process writes, or has written, to the folder.
            StorageError: if the disk refuses a file.
        """
        path = Path(folder).absolute()
        self._savable()
        with self._lock:
            if self._saved is not None and self.folder == path:
                with write_lock(path):
                    self._check_current(self._saved)
                return
            with new_folder(path), write_lock(path):
                self._commit(path)

    def _savable(self) -> Index:
        if self.index is None or not self.is_savable:
            raise InputError(
                f"{self!r} cannot be saved: only a search by the name of an extended model or of BM25 can be made "
                "again."
            )
        return self.index

    def _check_current(self, saved: Reader) -> None:
        """Raise IndexFolderError if the folder no longer holds the version that this searcher has."""
        if Reader(saved.folder).manifest.build != saved.manifest.build:
            raise IndexFolderError(
                f"the index in {saved.folder} was changed after it was opened: open it again."
            )

    def _commit(self, path: Path) -> None:
        """Write a version, and read everything from it."""
        before = self._saved if self.folder == path else None
        self._saved = self.write(path, before)
        self.restore(self._saved)

    def write(self, folder: Path, before: Reader | None = None) -> Reader:
        """Write the index into a folder, which `save` has checked and locked, or a temporary one.

        Args:
            folder: the folder.
            before: the version that is replaced; None for the first one.

        Raises:
            InputError: if no document has text.
            StorageError: if the disk refuses a file.
        """
        if not len(self._documents):
            raise InputError("an index needs documents with text: add some, or delete its folder.")
        writer = Writer(folder, before)
        with writer.refusals():
            writer.documents(*self._tables)
            self._savable().save(writer)
            return writer.commit(**self.identity, documents=len(self._documents), empty=self.empty)

    def restore(self, reader: Reader) -> None:
        """Read everything from a version of a saved index. Later changes stay in temporary files."""
        self._tables = reader.documents
        self.empty = list(reader.manifest.empty)
        self._documents = Documents([], [], reader.manifest.language)
        self._documents = self._documents_of(self._tables)
        self._savable().restore(reader, self._documents)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold all locks; afterwards save the change of a saved index, or roll it back if it failed."""
        with self._lock, _silenced():
            if self._saved is None:
                yield
                return
            with write_lock(self._saved.folder):
                self._check_current(self._saved)
                try:
                    yield
                    self._commit(self._saved.folder)
                except BaseException:
                    self.restore(self._saved)
                    raise

    def check(self) -> int:
        """Compare the checksums of all files of the saved index, and return their number of bytes.

        Opening an index checks only its small files. All others are read here.

        Raises:
            InputError: if the searcher is not saved.
            IndexFolderError: if a file is damaged.
        """
        if self._saved is None:
            raise InputError("only a saved index can be checked: save it first.")
        return self._saved.check()

    # ---- search ------------------------------------------------------------------------------------------

    @overload
    def search(self, query: str, k: int = 10) -> list[Hit]: ...

    @overload
    def search(self, query: list[str], k: int = 10) -> list[list[Hit]]: ...

    def search(self, query: str | list[str], k: int = 10) -> list[Hit] | list[list[Hit]]:
        """Return the best documents of a query, at most `k`, best first; for a list of queries, a list of such lists.

        Among documents with equal scores, the one added first comes first. BM25 alone finds only documents that match
        a term of the query.

        Raises:
            InputError: if the query is not a text, `k` is below 1, or no document has text.
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
        with self._lock, _silenced():
            return self._found(queries, k)

    def _found(self, queries: list[str], k: int) -> list[list[Hit]]:
        documents = self._documents
        lexical = None
        if self.index is not None and self.index.encoding is None:
            lexical = self.index.lexical
        rankings = []
        for ranking in best_documents(self.scorer, queries, k, len(documents), documents.texts):
            if lexical is not None:
                ranking = [(score, index) for score, index in ranking if score > 0]
            rankings.append(ranking)
        spans = self.scorer.passages(queries, [[index for _, index in ranking] for ranking in rankings])
        hits = []
        for query, ranking, of_query in zip(queries, rankings, spans, strict=True):
            of_ranking = []
            for (score, index), (start, end) in zip(ranking, of_query, strict=True):
                text = documents.texts[index]
                passage = text[start:end]
                matched = {}
                if lexical is not None:
                    matched = lexical.matches(query, passage)
                of_ranking.append(
                    Hit(documents.ids[index], float(score), int(start), int(end), passage, text, matched)
                )
            hits.append(of_ranking)
        return hits


def _silenced() -> contextlib.AbstractContextManager[None]:
    """Hide the progress bars of libraries, if these are loaded: such tables are built in no time."""
    if "datasets" not in sys.modules:
        return contextlib.nullcontext()
    from mteb_longembed.hub import silence

    return silence()
