"""Indexes of vectors, and of anything, in tests."""

from pathlib import Path

from mteb_longembed.encoders.method import Method
from mteb_longembed.names import Identity
from mteb_longembed.retrieval.encoding import Encoding
from mteb_longembed.retrieval.index import Index
from mteb_longembed.retrieval.storage import Reader, Writer
from mteb_longembed.retrieval.vector_scorer import VectorScorer
from mteb_longembed.values import Vectors


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
