"""Which characters of a document each of its vectors stands for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sentence_transformers import MultiVectorEncoder

from mteb_longembed.encoders.features import Ids
from mteb_longembed.encoders.span_pooling import RaggedVectors, SpanPooling
from mteb_longembed.encoders.spans import document_prompt, spans_by_sentences, tokens_read

#: Start and end in characters. The end is excluded.
Passage = tuple[int, int]
#: Longest window of a document that is shown when the document has one vector: about 128 tokens of English.
WINDOW_CHARS = 500


def windows_of(text: str) -> list[Passage]:
    """Windows over all of a text: neighbouring sentences of at most `WINDOW_CHARS`; a longer sentence is cut."""
    return [
        (start, min(start + WINDOW_CHARS, end))
        for first, end in spans_by_sentences(text, WINDOW_CHARS)
        for start in range(first, end, WINDOW_CHARS)
        if not text[start : min(start + WINDOW_CHARS, end)].isspace()
    ]


def passages_of(model: Any, text: str) -> list[Passage]:
    """Start and end of the text of each vector of a document, in the order of its vectors.

    With one vector it is the text that was read. A document that is shorter than a window or span has one passage.
    """
    prompt = document_prompt(model)
    if not getattr(model.tokenizer, "is_fast", False):
        return [(0, len(text))]
    ids, offsets = tokens_read(model, prompt, text)
    (groups,) = tokens_of_vectors(model, [ids], prompt or None)
    places = np.array(offsets).reshape(-1, 2)
    return [_passage(places[group]) for group in groups]


def tokens_of_vectors(model: Any, rows: Sequence[Ids], prompt: str | None) -> Iterator[list[np.ndarray]]:
    """For each row of token ids, special tokens and prompt included, the places of each vector's tokens."""
    first, pooling = model.first, model[1]
    vectors = pooling.vectors if isinstance(pooling, SpanPooling) and not pools_vectors(model) else None
    settings = [(0,)] * len(rows) if vectors is None else first.row_settings(rows, prompt)
    for n, (_, *around) in zip(map(len, rows), settings, strict=True):
        prefix, behind = around or (0, 0)
        if (
            vectors is None
            or n - prefix - behind < 1
            or (vectors == "window" and first.family.leaves_unchanged(n))
        ):
            yield [np.arange(n)]
        elif vectors == "window":
            yield [window.numpy() for window in first.strategy.windows(n, prefix, behind)]
        else:
            yield np.split(np.arange(prefix, n - behind), range(vectors, n - prefix - behind, vectors))


def pools_vectors(model: Any) -> bool:
    """Whether a module that is not ours makes a model's several vectors. Then we do not know their places."""
    return isinstance(model, MultiVectorEncoder) and not isinstance(model[-1], RaggedVectors)


def _passage(places: np.ndarray) -> Passage:
    # special tokens and the prompt have no characters of the document
    content = places[places[:, 1] > places[:, 0]]
    return (int(content[:, 0].min()), int(content[:, 1].max())) if len(content) else (0, 0)
