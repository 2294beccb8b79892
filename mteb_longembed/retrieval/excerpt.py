"""The part of a passage that is shown: the sentences that share most words with the question."""

from collections.abc import Iterable

from mteb_longembed.encoders.spans import spans_by_sentences

from .words import Words

#: What stands for text that is left out.
CUT = "[...]"


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
    wanted = {word for text in (question, *also) for word, _ in words.of_query(text)}
    pieces = []
    for first, last in spans_by_sentences(passage, n):
        step = n if last - first <= n else n // 2
        pieces += [(start, min(start + n, last)) for start in range(first, last, step)]

    def n_shared(piece: tuple[int, int]) -> int:
        return len(wanted & {word for word, _ in words.of_query(passage[slice(*piece)])})

    start, end = max(pieces, key=n_shared, default=(0, 0))
    shown = " ".join(passage[start:end].split())
    if passage[:start].strip():
        shown = f"{CUT} {shown}"
    if passage[end:].strip():
        shown = f"{shown} {CUT}"
    return shown
