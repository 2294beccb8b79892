"""Which characters of a document each of its vectors stands for, and what of them is shown."""

from collections.abc import Iterable

import numpy as np

from mteb_longembed.encoders.model import LongModelMixin
from mteb_longembed.encoders.spans import Span, spans_by_sentences, tokens_read, vector_tokens
from mteb_longembed.encoders.tokens import document_prompt

from .words import Words

#: Longest window of a document that is shown when the document has one vector: about 128 tokens of English.
WINDOW_CHARS = 500
#: What stands for text that is left out.
CUT = "[...]"


def windows_of(text: str) -> list[Span]:
    """Windows over all of a text: neighbouring sentences of at most `WINDOW_CHARS`. A longer sentence is cut."""
    windows = []
    for first, last in spans_by_sentences(text, WINDOW_CHARS):
        for start in range(first, last, WINDOW_CHARS):
            windows.append((start, min(start + WINDOW_CHARS, last)))
    return [(start, end) for start, end in windows if not text[start:end].isspace()]


def passages_of(model: LongModelMixin, text: str) -> list[Span]:
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


def _passage(spans: np.ndarray) -> Span:
    # special tokens and the prompt have no characters of the document
    content = spans[spans[:, 1] > spans[:, 0]]
    return (int(content[:, 0].min()), int(content[:, 1].max())) if len(content) else (0, 0)


def excerpt(passage: str, question: str, n: int, language: str, also: Iterable[str] = ()) -> str:
    """At most `n` characters of a passage, with blanks for line breaks, and a mark where text is left out.

    Args:
        passage: the text.
        question: what was asked.
        n: characters that are shown, without the marks. A longer sentence, such as a table, is cut.
        language: of the words, as mteb writes it.
        also: further words of the passage that match.
    """
    words = Words(language)
    wanted = dict(words.of_query(" ".join([question, *also])))
    pieces = []
    for first, last in spans_by_sentences(passage, n):
        step = n if last - first <= n else n // 2
        pieces += [(start, min(start + n, last)) for start in range(first, last, step)]

    def n_shared(piece: tuple[int, int]) -> int:
        return len(wanted.keys() & dict(words.of_query(passage[slice(*piece)])))

    start, end = max(pieces, key=n_shared, default=(0, 0))
    shown = " ".join(passage[start:end].split())
    if passage[:start].strip():
        shown = f"{CUT} {shown}"
    if passage[end:].strip():
        shown = f"{shown} {CUT}"
    return shown
