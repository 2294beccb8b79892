"""Documents, and indexes of vectors and of anything, in tests."""

from pathlib import Path

import mteb_longembed
from mteb_longembed.encoders.method import Method
from mteb_longembed.names import Identity
from mteb_longembed.retrieval.encoding import Encoding
from mteb_longembed.retrieval.index import Index
from mteb_longembed.retrieval.searcher import Searcher
from mteb_longembed.retrieval.storage import Reader, Writer
from mteb_longembed.retrieval.vector_scorer import VectorScorer
from mteb_longembed.values import Vectors
from tests import tiny

#: Documents of up to 112 tokens that end in one and the same sentence.
DOCUMENTS = {f"d{i}": f"{tiny.text(5 + 9 * i, i)}. {tiny.text(9, 3)}." for i in range(12)}
MORE = {f"e{i}": f"{tiny.text(30, 50 + i)}." for i in range(4)}
QUERIES = [tiny.text(6, 3), tiny.text(4, 7), tiny.text(3, 52)]


def searcher(name: str, documents: dict[str, str] = DOCUMENTS) -> Searcher:
    """Return a search over documents, by a name, on the CPU."""
    made = mteb_longembed.search(name, device="cpu")
    made.add(list(documents), list(documents.values()))
    return made


def index_of(encoding: Encoding, vectors: Vectors | None, method: Method) -> Index:
    """Return the index of an encoding that is scored by vectors alone."""
    return Index(Identity("org/vectors", "1"), [VectorScorer(encoding, vectors, method)])


def vectors_of(index: Index) -> VectorScorer:
    """Return the vectors of an index."""
    (scorer,) = index.vectors
    return scorer


def saved(index: Index, folder: Path) -> Reader:
    """Save an index without its documents."""
    writer = Writer(folder, None)
    index.save(writer)
    about = {"name": "", "revision": "1", "versions": {}, "language": "eng-Latn"}
    return writer.commit(**about, documents=len(index.documents), empty=[])
