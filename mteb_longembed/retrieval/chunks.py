"""Search with one vector for each chunk of a document, cut by a function of one's own."""

from __future__ import annotations

import re
import uuid
import warnings
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from itertools import chain
from numbers import Integral
from typing import Any, Protocol, cast

import mteb
import numpy as np
import torch
from datasets import Dataset
from mteb.models.model_meta import ModelMeta
from mteb.models.models_protocols import MTEBModels
from mteb.types import PromptType
from torch.utils.data import DataLoader

from mteb_longembed.encoders.model import LongSentenceTransformer
from mteb_longembed.errors import InputError
from mteb_longembed.retrieval.encoder import LongEncoder

from .fusion import FusedSearch
from .passages import CutText, Passage
from .vector_search import VectorSearch, similarity_of


class TextSplitter(Protocol):
    """LangChain's splitters, which need `add_start_index=True`."""

    def create_documents(self, texts: list[str]) -> Iterable[object]: ...


#: A splitter, or a function to `(start, end)` in characters or objects with `start_index` and `end_index` (Chonkie's).
Cutter = Callable[[str], Iterable[object]] | TextSplitter
#: It may have a version.
Chunker = Cutter | tuple[Cutter, str]
#: What stands in a revision before the name of a chunker and its version.
CHUNKS = "-chunks."


class ChunkEncoder:
    """An encoder of mteb's around which a document has the vectors of its chunks, each encoded on its own."""

    corpus_chunk_size = 256

    def __init__(self, encoder: MTEBModels, passages: CutText) -> None:
        if not hasattr(encoder, "encode") or similarity_of(encoder) not in ("cosine", "dot"):
            raise InputError(
                "a chunker needs a model with one vector a text, compared by cosine or dot product, got "
                f"{encoder.mteb_model_meta.name}: use another name."
            )
        self._encoder = encoder
        self.passages = passages
        self.similarity_name = similarity_of(encoder)
        self.model = getattr(encoder, "model", None)
        self.mteb_model_meta = encoder.mteb_model_meta

    def around(self, model: LongSentenceTransformer) -> ChunkEncoder:
        """The same chunks of documents around a model that pools in another way."""
        return ChunkEncoder(cast("LongEncoder", self._encoder).around(model), self.passages)

    def _encode(self, inputs: Any, *, prompt_type: PromptType, **kwargs: Any) -> list[np.ndarray]:
        """One matrix `[chunks, d]` for each document, and one `[1, d]` for each query."""
        texts = [[text] for batch in inputs for text in batch["text"]]
        if prompt_type == PromptType.document:
            texts = [[text[start:end] for start, end in self.passages(text)] for (text,) in texts]
        table = Dataset.from_dict({"text": list(chain.from_iterable(texts))})
        loader: Any = DataLoader(table, batch_size=inputs.batch_size or 1)
        rows = torch.as_tensor(self._encoder.encode(loader, prompt_type=prompt_type, **kwargs)).float().cpu()
        if self.similarity_name == "cosine":
            rows = torch.nn.functional.normalize(rows, dim=1)
        return [part.numpy() for part in rows.split(list(map(len, texts)))]


def apply_chunker(chunker: Cutter, text: str) -> list[Passage]:
    """Start and end of each chunk that has text, in characters. A text without a chunk is one chunk."""
    first = len(text) - len(text.lstrip())
    text = text.strip()  # as mteb hands it to encoders
    if hasattr(chunker, "create_documents"):
        documents: Iterable[Any] = chunker.create_documents([text])
        starts = [document.metadata.get("start_index", -1) for document in documents]
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
                f"a chunk must be (start, end) with 0 <= start < end <= {len(text)} characters, got {chunk!r:.80}; "
                "LangChain's splitters need add_start_index=True."
            )
    chunks = [(start, end) for start, end in chunks if text[start:end].strip()]
    return [(start + first, end + first) for start, end in chunks or [(0, len(text))]]


def _span(piece: Any) -> Any:
    """Start and end of a piece, if it is an object of Chonkie's; anything else as it is."""
    if hasattr(piece, "start_index"):
        return piece.start_index, piece.end_index
    return piece


def describe(name: str, chunker: Chunker, key: str = "") -> ModelMeta:
    """mteb's description of a search with a chunker, which loads it. Without a version its revision is a random one.

    Args:
        name: a name that mteb knows, of a model with one vector a text.
        chunker: what cuts documents, perhaps with a version.
        key: what it is called in names; by default its own name.
    """
    cutter, version = chunker if isinstance(chunker, tuple) else (chunker, "")
    if not callable(cutter) and not hasattr(cutter, "create_documents"):
        raise InputError(f"a chunker must be a function or a splitter, got {cutter!r:.80}.")
    key = key or getattr(cutter, "__name__", type(cutter).__name__).strip("<>")
    if not re.fullmatch(r"[\w.-]+", f"{key}{version}"):
        raise InputError(
            f"a chunker's name and version must have letters, digits and _.- only, got {key!r} and {version!r}."
        )
    if not version:
        version = uuid.uuid4().hex
        advice = 'so no result of it is found again: give (chunker, "v1").'
        warnings.warn(f"the chunker {key} has no version, {advice}", stacklevel=3)
    known = mteb.get_model_meta(name)
    tail = re.sub(r"[^\w.-]", "-", str(known.name).rpartition("/")[2])
    passages = lru_cache(10_000)(partial(apply_chunker, cutter))  # a chunker may take as long as the model
    fields: dict[str, Any] = {
        "name": f"local/{key}-{tail}",
        "revision": f"{known.revision}{CHUNKS}{key}.{version}",
        "adapted_from": known.name,
        "loader_kwargs": {},
        # mteb copies what is no function
        "loader": lambda *_, device=None, **__: _load(name, passages, device),
    }
    return known.model_copy(update=fields)


def _load(name: str, passages: CutText, device: str | None) -> MTEBModels:
    model: Any = mteb.get_model(name, device=device)
    if isinstance(model, FusedSearch):
        return model.around(_over_chunks(model.vectors, passages))
    return _over_chunks(model, passages)


def _over_chunks(inner: Any, passages: CutText) -> VectorSearch:
    """The search over the vectors of chunks, with the settings of a search."""
    if isinstance(inner, VectorSearch):
        return VectorSearch(ChunkEncoder(inner.encoder, passages), inner.settings)
    return VectorSearch(ChunkEncoder(inner, passages))
