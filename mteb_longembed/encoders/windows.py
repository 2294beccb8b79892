"""Rows for a vector database: one for each vector of a document, with the text that it stands for."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from sentence_transformers import MultiVectorEncoder, SentenceTransformer

from mteb_longembed.errors import IncompatibleError, InputError
from mteb_longembed.sentences import Span

from .devices import on_host
from .model import LongModelMixin
from .pooling import Pooling
from .spans import tokens_read, vector_tokens
from .tokens import document_prompt


class Window(NamedTuple):
    """A vector of a document, and the text that it stands for; `_asdict()` is a row of a table."""

    document: str  #: the document's id
    start: int  #: its first character in the document
    end: int  #: the character after its last one
    text: str  #: `document[start:end]`
    vector: np.ndarray  #: float32 `[d]`


def encode_windows(
    model: SentenceTransformer | MultiVectorEncoder, documents: Mapping[str, str]
) -> list[Window]:
    """Encode documents, and return one row for each vector: of a window (`MODEL+windows`) or a span (`vectors=N`).

    All rows are in memory, so encode a large corpus in batches. A model with one vector per document returns one row,
    with the text that the model reads. Queries are encoded as usual, by `encode_query`.

    Args:
        model: a model from `extend`, `load` or `adapt` with a dense base.
        documents: texts by id.

    Returns:
        The rows in the order of the documents and of their windows. Overlapping windows have text in common, and text
        beyond the target length has no row.

    Raises:
        InputError: if it is not a model of this package.
        IncompatibleError: if the base is not dense, or its tokenizer does not return the offsets of tokens.

    Example:
        >>> from mteb_longembed import load
        >>> (row,) = encode_windows(load("mini-ape+windows"), {"a": "The key is under the mat."})
        >>> row.start, row.end, row.vector.shape
        (0, 25, (192,))
    """
    if not isinstance(model, LongModelMixin):
        raise InputError(
            f"encode_windows takes what extend, load or adapt returned, got a {type(model).__name__}."
        )
    if model.family != "dense":
        raise IncompatibleError(
            f"encode_windows needs a dense base, got a {model.family} one: use encode_document."
        )
    if not model.backbone.text_tokenizer.is_fast:
        raise IncompatibleError(
            "encode_windows needs a tokenizer with token offsets (a fast one of transformers): use encode_document."
        )
    rows = []
    encoded = model.encode_document(list(documents.values()))
    for (name, text), of_text in zip(documents.items(), encoded, strict=True):
        vectors = on_host(of_text)
        (spans,) = _spans_of(model, text, [Pooling()])
        for (start, end), vector in zip(spans.tolist(), vectors, strict=True):
            rows.append(Window(name, start, end, text[start:end], vector))
    return rows


def vector_spans(
    model: LongModelMixin, text: str, poolings: Sequence[Pooling] = (Pooling(),)
) -> list[np.ndarray]:
    """Return the characters that each vector of a text stands for, `[vectors, 2]`, in each of some poolings.

    Vectors of tokens or terms have one span, the text that is read. So has any vector without a fast tokenizer: then it
    is the whole text.

    Args:
        model: one of our models.
        text: a document. White space around it is not read.
        poolings: the poolings. A model with several vectors keeps them.
    """
    content = text.strip()
    first = len(text) - len(text.lstrip())
    return [spans + first for spans in _spans_of(model, content, poolings)]


def _spans_of(model: LongModelMixin, text: str, poolings: Sequence[Pooling]) -> list[np.ndarray]:
    """Return for each pooling the spans of a text that is read as it is, `[vectors, 2]`."""
    if not model.backbone.text_tokenizer.is_fast:
        return [np.array([[0, len(text)]])] * len(poolings)
    prompt = document_prompt(model)
    ids, offsets = tokens_read(model, prompt, text)
    characters = np.array(offsets).reshape(-1, 2)
    arrays = []
    for pooling in poolings:
        groups = [torch.arange(len(ids))]
        if model.family == "dense":
            (groups,) = vector_tokens(model, [ids], prompt or None, pooling.vectors)
        arrays.append(np.array([_characters(characters[group.numpy()]) for group in groups]))
    return arrays


def _characters(tokens: np.ndarray) -> Span:
    """Return the characters of a group of tokens with offsets `[tokens, 2]`."""
    # special tokens and the prompt have no characters of the document
    content = tokens[tokens[:, 1] > tokens[:, 0]]
    return (int(content[:, 0].min()), int(content[:, 1].max())) if len(content) else (0, 0)
