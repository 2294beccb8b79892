"""Search with one vector for each chunk of a document, cut by a custom chunker."""

import re
import uuid
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain
from numbers import Integral
from typing import NamedTuple, Protocol, runtime_checkable

from sentence_transformers.base import BaseModel

from mteb_longembed.encoders.tokens import cutter_of, document_prompt
from mteb_longembed.errors import InputError
from mteb_longembed.sentences import Span


@runtime_checkable
class Splitter(Protocol):
    """A splitter of LangChain, which needs `add_start_index=True`."""

    def create_documents(self, texts: list[str]) -> Iterable[object]:
        """Return the chunks of texts."""


#: A function from a text to one or more chunks, or a splitter.
Cutter = Callable[[str], object] | Splitter
#: A cutter, perhaps with a version.
Chunker = Cutter | tuple[Cutter, str]


class Chunk(NamedTuple):
    """A chunk of a document."""

    span: Span  #: its characters in the document, which a hit shows
    text: str  #: the text that is encoded: its own, or the text of the span


#: The chunks of a text.
CutChunks = Callable[[str], list[Chunk]]


#: Attribute that identifies a splitter that returns texts without offsets, and the remedy.
_REMEDIES = {
    "chunk_indices": "give the splitter's method chunk_indices",
    "get_nodes_from_documents": (
        "give a function such as lambda text: splitter.get_nodes_from_documents([Document(text=text)])"
    ),
    "create_documents": (
        "give the splitter itself, made with add_start_index=True, and with lengths in characters or chunk_overlap=0"
    ),
    "token_counter": "give a function such as lambda text: chunker(text, offsets=True)[1]",
}


def apply_chunker(chunker: Cutter, text: str) -> list[Chunk]:
    """Return the non-blank chunks of a text. A text without a chunk is one chunk.

    A chunk is `(start, end)` in characters, perhaps with its own text, or an object of Chonkie, LangChain or LlamaIndex
    with the same fields. Its own text is encoded, such as a table's header with some of its rows, and must contain the
    text of the span, or differ from it only in white space.

    Raises:
        InputError: if a chunk has no valid offsets, or a text that does not match its offsets.
    """
    first = len(text) - len(text.lstrip())
    text = text.strip()  # as mteb passes it to encoders
    if isinstance(chunker, Splitter):
        result: object = chunker.create_documents([text])
    else:
        result = chunker(text)
    returned = [result]
    if isinstance(result, Iterable) and not isinstance(result, str):
        returned = list(result)
    chunks = []
    for chunk in returned:
        start, end, own = _read(chunk, chunker, len(text))
        shown = text[start:end]
        if own is None:
            own = shown
        if shown.strip() not in own and own.split() != shown.split():
            raise InputError(
                f"a chunk's own text must contain the text of its span, got {own!r:.60} for characters {start} to "
                f"{end}, {shown!r:.60}: give (start, end) in the document's characters, or use a chunker that keeps "
                "its text."
            )
        if own.strip():
            chunks.append(Chunk((start + first, end + first), own))
    return chunks or [Chunk((first, first + len(text)), text)]


def _read(chunk: object, chunker: Cutter, length: int) -> tuple[int, int, str | None]:
    """Return start, end and own text (None without one) of a chunk; `length` is the length of the whole text."""
    fields: Sequence[object] = ()
    text = getattr(chunk, "text", None)
    if hasattr(chunk, "page_content") and hasattr(chunk, "metadata") and isinstance(chunk.metadata, Mapping):
        fields = (chunk.metadata.get("start_index"), chunk.page_content)
    elif hasattr(chunk, "start_index") and hasattr(chunk, "end_index"):
        fields = (chunk.start_index, chunk.end_index, text)
    elif hasattr(chunk, "start_char_idx") and hasattr(chunk, "end_char_idx"):
        fields = (chunk.start_char_idx, chunk.end_char_idx, text)
    elif isinstance(chunk, Iterable) and not isinstance(chunk, (str, Mapping)):
        fields = tuple(chunk)
    offsets = [int(field) for field in fields if isinstance(field, Integral)]
    texts = [field for field in fields if isinstance(field, str)]
    own = texts[0] if len(texts) == 1 else None
    if own is not None and len(offsets) == 1:
        offsets.append(offsets[0] + len(own))
    is_read = len(offsets) == 2 and len(fields) <= 3
    if not is_read or not 0 <= offsets[0] < offsets[1] <= length:
        raise InputError(
            f"a chunk must be (start, end) with 0 <= start < end <= {length} characters, got {chunk!r:.80}: "
            f"{_remedy(chunker, chunk)}."
        )
    return offsets[0], offsets[1], own


def _remedy(chunker: Cutter, chunk: object = None) -> str:
    """Return the remedy for a chunker whose chunks have no valid offsets."""
    if hasattr(chunk, "page_content"):
        return _REMEDIES["create_documents"]
    owner = getattr(chunker, "__self__", chunker)
    for attribute, remedy in _REMEDIES.items():
        if hasattr(owner, attribute):
            return remedy
    return "give a function that returns the offsets of each chunk in the text that it gets"


def warn_of_cut_chunks(model: object, cut: CutChunks, texts: Iterable[str]) -> None:
    """Warn if a model truncates some chunks, with the share of all text that it reads."""
    if not isinstance(model, BaseModel) or model.max_seq_length is None:
        return
    limit = model.max_seq_length
    cutter = cutter_of(model.tokenizer)
    if cutter is None:
        return
    n_added = len(cutter.prefix_ids) + len(cutter.suffix_ids)
    n_added += len(cutter.contents([document_prompt(model)], limit)[0])
    room = max(limit - n_added, 1)
    n_chunks = n_cut = n_all = 0
    n_read = 0.0
    for chunk in chain.from_iterable(map(cut, texts)):
        n_bytes = len(chunk.text.encode(errors="replace"))
        n_tokens = n_bytes  # at most
        if n_bytes > room:
            n_tokens = len(cutter.contents([chunk.text], n_bytes)[0])
        n_chunks += 1
        n_cut += n_tokens > room
        n_all += len(chunk.text)
        n_read += len(chunk.text) * min(room / max(n_tokens, 1), 1)
    if n_cut:
        warnings.warn(
            f"{n_cut:,} of {n_chunks:,} chunks are longer than the {limit:,} tokens that the model reads, so it reads "
            f"{n_read / n_all:.0%} of their text: cut chunks of at most {room:,} tokens, or give a longer target.",
            stacklevel=5,
        )


@dataclass(frozen=True)
class NamedChunker:
    """A chunker with its name and version, for names and revisions of results."""

    name: str
    version: str
    cut: CutChunks


def read_chunker(chunker: Chunker, name: str = "") -> NamedChunker:
    """Return a custom chunker with its name. Without a version it gets a random one.

    Args:
        chunker: the chunker, perhaps with a version.
        name: its name in results; by default its own name.

    Raises:
        InputError: if it is not a chunker, or its name or version has characters that names may not have.
    """
    cutter, version = chunker if isinstance(chunker, tuple) else (chunker, "")
    # LlamaIndex's splitters are callable, but on nodes
    takes_texts = callable(cutter) and not hasattr(cutter, "get_nodes_from_documents")
    if not takes_texts and not hasattr(cutter, "create_documents"):
        raise InputError(
            f"a chunker must be a function of a text, or a splitter of LangChain, got {cutter!r:.80}: "
            f"{_remedy(cutter)}."
        )
    name = name or getattr(cutter, "__name__", type(cutter).__name__).strip("<>")
    if not re.fullmatch(r"[\w.-]+", f"{name}{version}"):
        raise InputError(
            f"a chunker's name and version must have letters, digits and _.- only, got {name!r} and {version!r}."
        )
    if not version:
        version = uuid.uuid4().hex
        advice = 'so no result of it is found again: give (chunker, "v1").'
        warnings.warn(f"the chunker {name} has no version, {advice}", stacklevel=4)
    # a chunker may take as long as the model
    return NamedChunker(name, version, lru_cache(10_000)(partial(apply_chunker, cutter)))
