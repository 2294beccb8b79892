"""Search with one vector for each chunk of a document, cut by a function of one's own."""

import re
import uuid
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from mteb_longembed.errors import InputError
from mteb_longembed.sentences import Span

from .passages import CutText

#: A function to `(start, end)` in characters or objects with `start_index` and `end_index` (Chonkie's), or a splitter
#: of LangChain, which needs `add_start_index=True`.
Cutter = Callable[[str], Iterable[object]] | Any
#: It may have a version.
Chunker = Cutter | tuple[Cutter, str]


def apply_chunker(chunker: Cutter, text: str) -> list[Span]:
    """Start and end of each chunk that has text, in characters. A text without a chunk is one chunk."""
    first = len(text) - len(text.lstrip())
    text = text.strip()  # as mteb hands it to encoders
    chunks: list[Any] = []
    if hasattr(chunker, "create_documents"):
        for document in chunker.create_documents([text]):
            start = document.metadata.get("start_index", -1)
            chunks.append((start, start + len(document.page_content)))
    else:
        pieces: Any = chunker(text)
        for piece in pieces if isinstance(pieces, Iterable) else [pieces]:
            is_object = hasattr(piece, "start_index")
            chunks.append((piece.start_index, piece.end_index) if is_object else piece)
    for chunk in chunks:
        try:
            start, end = chunk
            is_inside = 0 <= start < end <= len(text)
        except (TypeError, ValueError):
            is_inside = False
        if not is_inside:
            raise InputError(
                f"a chunk must be (start, end) with 0 <= start < end <= {len(text)} characters, got {chunk!r:.80}. "
                "LangChain's splitters need add_start_index=True, and lengths in characters or chunk_overlap=0."
            )
    chunks = [(start, end) for start, end in chunks if text[start:end].strip()]
    return [(start + first, end + first) for start, end in chunks or [(0, len(text))]]


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
