"""Search with one vector for each chunk of a document, cut by a function of one's own."""

import re
import uuid
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache, partial
from numbers import Integral
from typing import Any, Protocol

from mteb_longembed.errors import InputError

from .passages import CutText, Passage


class TextSplitter(Protocol):
    """LangChain's splitters, which need `add_start_index=True`."""

    def create_documents(self, texts: list[str]) -> Iterable[object]: ...


#: A splitter, or a function to `(start, end)` in characters or objects with `start_index` and `end_index` (Chonkie's).
Cutter = Callable[[str], Iterable[object]] | TextSplitter
#: It may have a version.
Chunker = Cutter | tuple[Cutter, str]


def apply_chunker(chunker: Cutter, text: str) -> list[Passage]:
    """Start and end of each chunk that has text, in characters. A text without a chunk is one chunk."""
    first = len(text) - len(text.lstrip())
    text = text.strip()  # as mteb hands it to encoders
    if hasattr(chunker, "create_documents"):
        documents: Iterable[Any] = chunker.create_documents([text])
        starts = [document.metadata.get("start_index") for document in documents]
        if None in starts:
            raise InputError(
                "LangChain's splitter must say where chunks start: give it add_start_index=True."
            )
        if -1 in starts:
            raise InputError(
                "LangChain's splitter has lost the place of a chunk (start_index is -1), because it counts its overlap "
                "in tokens and subtracts it from characters: give it chunk_overlap=0, or lengths in characters."
            )
        chunks = [(start, start + len(d.page_content)) for start, d in zip(starts, documents, strict=True)]
    else:
        pieces: Any = chunker(text)
        if isinstance(pieces, str) or not isinstance(pieces, Iterable):
            pieces = [pieces]
        chunks = [_span(piece) for piece in pieces]
    for chunk in chunks:
        is_pair = (
            isinstance(chunk, tuple | list)
            and len(chunk) == 2
            and all(isinstance(i, Integral) for i in chunk)
        )
        if not is_pair or not 0 <= chunk[0] < chunk[1] <= len(text):
            raise InputError(
                f"a chunk must be (start, end) with 0 <= start < end <= {len(text)} characters, got {chunk!r:.80}."
            )
    chunks = [(start, end) for start, end in chunks if text[start:end].strip()]
    return [(start + first, end + first) for start, end in chunks or [(0, len(text))]]


def _span(piece: Any) -> Any:
    """Start and end of a piece, if it is an object of Chonkie's; anything else as it is."""
    if hasattr(piece, "start_index"):
        return piece.start_index, piece.end_index
    return piece


@dataclass(frozen=True)
class NamedChunker:
    """A chunker with what stands in names and revisions. Without a version it is never found again."""

    name: str
    version: str
    cut: CutText


def read_chunker(chunker: Chunker, name: str = "") -> NamedChunker:
    """A user's chunker. Without a version it gets a random one.

    Args:
        chunker: what cuts documents, perhaps with a version.
        name: what it is called; by default its own name.

    Raises:
        InputError: if it is none, or its name or version has other signs than names may have.
    """
    cutter, version = chunker if isinstance(chunker, tuple) else (chunker, "")
    if not callable(cutter) and not hasattr(cutter, "create_documents"):
        raise InputError(f"a chunker must be a function or a splitter, got {cutter!r:.80}.")
    name = name or getattr(cutter, "__name__", type(cutter).__name__).strip("<>")
    if not re.fullmatch(r"[\w.-]+", f"{name}{version}"):
        raise InputError(
            f"a chunker's name and version must have letters, digits and _.- only, got {name!r} and {version!r}."
        )
    if not version:
        version = uuid.uuid4().hex
        advice = 'so no result of it is found again: give (chunker, "v1").'
        warnings.warn(f"the chunker {name} has no version, {advice}", stacklevel=3)
    # a chunker may take as long as the model
    return NamedChunker(name, version, lru_cache(10_000)(partial(apply_chunker, cutter)))
