"""Which characters of a document each of its vectors stands for."""

from collections.abc import Callable

import numpy as np

from mteb_longembed.encoders.model import LongModelMixin
from mteb_longembed.encoders.spans import spans_by_sentences, tokens_read, vector_tokens
from mteb_longembed.encoders.weights import document_prompt

#: Start and end in characters. The end is excluded.
Passage = tuple[int, int]
#: A text -> its passages.
CutText = Callable[[str], list[Passage]]
#: Longest window of a document that is shown when the document has one vector: about 128 tokens of English.
WINDOW_CHARS = 500


def windows_of(text: str) -> list[Passage]:
    """Windows over all of a text: neighbouring sentences of at most `WINDOW_CHARS`. A longer sentence is cut."""
    windows = []
    for first, last in spans_by_sentences(text, WINDOW_CHARS):
        for start in range(first, last, WINDOW_CHARS):
            windows.append((start, min(start + WINDOW_CHARS, last)))
    return [(start, end) for start, end in windows if not text[start:end].isspace()]


def passages_of(model: LongModelMixin, text: str) -> list[Passage]:
    """Start and end of the text of each vector of a document, in the order of its vectors.

    With one vector it is the text that was read. A document that is shorter than a window or span has one passage.
    """
    prompt = document_prompt(model)
    if not getattr(model.tokenizer, "is_fast", False):
        return [(0, len(text))]
    ids, offsets = tokens_read(model, prompt, text)
    (groups,) = vector_tokens(model, [ids], prompt or None)
    spans = np.array(offsets).reshape(-1, 2)
    return [_passage(spans[group.numpy()]) for group in groups]


def _passage(spans: np.ndarray) -> Passage:
    # special tokens and the prompt have no characters of the document
    content = spans[spans[:, 1] > spans[:, 0]]
    return (int(content[:, 0].min()), int(content[:, 1].max())) if len(content) else (0, 0)
