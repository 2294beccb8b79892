"""What `search` and `index` are about to do, in one line; and their progress bar."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mteb_longembed.errors import StorageError
from mteb_longembed.files import counted, is_terminal, printable

if TYPE_CHECKING:
    from mteb_longembed.data.look import Survey
    from mteb_longembed.retrieval.encoding import Encoding
    from mteb_longembed.retrieval.searcher import Searcher

#: Documents from which the vectors are estimated.
_SAMPLED = 50
#: The speed is measured if at least this many times the tokens of the measurement are left.
_WORTH = 10
#: Bytes of BM25's index for each byte of text.
_TERMS = 2.5
#: Distinct terms grow with this power of the number of documents (Heaps' law, English).
_GROWTH = 0.5
#: Seconds between two lines of a bar in a log.
_SECONDS = 30.0


@dataclass(frozen=True)
class Forecast:
    """The work ahead of a search or an index.

    Args:
        documents: number of documents.
        tokens: tokens that the model reads of all documents, estimated from characters.
        left: the part of `tokens` that is not in the embedding cache.
        seconds: the time for `left` at the measured speed; None if it is not worth measuring.
        n_bytes: estimated bytes of the index, texts included.
        text_bytes: bytes of the texts.
    """

    documents: int
    tokens: int
    left: int
    seconds: float | None
    n_bytes: int
    text_bytes: int

    @property
    def sentence(self) -> str:
        """The forecast in one line."""
        parts = [counted(self.documents, "document", "documents")]
        if self.tokens:
            parts.append(f"about {self.tokens:,} tokens")
            if self.left < self.tokens:
                parts.append(f"{100 * (1 - self.left / self.tokens):.0f} % of them from the embedding cache")
            if self.seconds is not None:
                parts.append(f"about {_duration(self.seconds)}")
        size = f"an index of about {_megabytes(self.n_bytes)} ({_megabytes(self.text_bytes)} of text)"
        return f"{', '.join(parts)}; {size}."

    def check_room(self, folder: Path) -> None:
        """Refuse a disk without room for the index, before anything is encoded.

        Raises:
            StorageError: if the disk of the folder has less room than the index is about to take.
        """
        parent = folder.absolute()
        while not parent.exists():
            parent = parent.parent
        free = shutil.disk_usage(parent).free
        if free < self.n_bytes:
            raise StorageError(
                f"the index needs about {_megabytes(self.n_bytes)}, and the disk of {str(folder)!r} has "
                f"{_megabytes(free)} free: make room, or give a folder on another disk."
            )


def forecast(searcher: Searcher, corpus: Path, documents: Survey) -> Forecast:
    """Count what a searcher will read of a corpus, and measure the speed if much is left.

    Args:
        searcher: an empty searcher.
        corpus: the documents.
        documents: their survey.
    """
    from mteb_longembed.data.check import read_texts
    from mteb_longembed.encoders.tokens import estimated_tokens
    from mteb_longembed.retrieval.encoding import LOOKED_UP
    from mteb_longembed.word_borders import distinct_words

    encoding = None if searcher.index is None else searcher.index.encoding
    has_terms = searcher.index is None or searcher.index.lexical is not None
    n_bytes = float(documents.n_bytes * (1 + _TERMS * has_terms))
    if encoding is None:
        return Forecast(len(documents), 0, 0, None, int(n_bytes), documents.n_bytes)
    encoder = encoding.ours
    most = None
    if encoder is not None:
        most = encoder.model.backbone.max_input_len
    tokens = left = 0
    missing: list[str] = []
    sample: list[str] = []
    step = max(len(documents) // _SAMPLED, 1)
    waiting: list[str] = []

    def n_tokens(texts: Sequence[str]) -> int:
        return sum(estimated_tokens(text, most) for text in texts)

    def look() -> None:
        nonlocal tokens, left
        new = encoding.not_cached(waiting)
        tokens += n_tokens(waiting)
        left += n_tokens(new)
        missing.extend(new[: _SAMPLED - len(missing)])
        waiting.clear()

    for number, (_, text) in enumerate(read_texts(corpus)):
        if number % step == 0:
            sample.append(text)
        waiting.append(text)
        if len(waiting) == LOOKED_UP:
            look()
    look()
    n_bytes += sum(map(encoding.vector_bytes, sample)) * tokens / max(n_tokens(sample), 1)
    # the vectors of terms, for query expansion
    if has_terms and encoder is not None and encoder.family == "dense":
        width = encoder.model.get_embedding_dimension() or 0
        n_bytes += 4 * width * len(distinct_words(sample)) * (len(documents) / max(len(sample), 1)) ** _GROWTH
    seconds = _seconds(encoding, missing, left)
    return Forecast(len(documents), tokens, left, seconds, int(n_bytes), documents.n_bytes)


def _seconds(encoding: Encoding, missing: Sequence[str], left: int) -> float | None:
    """Return the seconds to encode a number of tokens, at the speed of a few texts; None if these are most of it."""
    encoder = encoding.ours
    if encoder is None or encoder.family == "sparse":
        return None
    from mteb_longembed.comparing.costs import measure
    from mteb_longembed.encoders.devices import tokens_at_once
    from mteb_longembed.sentences import CHARS_PER_TOKEN

    n_tokens = tokens_at_once(encoder.model.device)
    if left < _WORTH * n_tokens:
        return None
    n_chars = int(n_tokens * CHARS_PER_TOKEN / max(len(missing), 1))
    speed, _ = measure(encoder.model, [text[:n_chars] for text in missing])
    return left / speed


@contextmanager
def progress(work: Forecast, *, show: bool) -> Iterator[None]:
    """Show a bar of the tokens that are left, while a searcher reads its documents."""
    from tqdm.auto import tqdm  # type: ignore[import-untyped]

    from mteb_longembed.encoders.batching import shared_bar
    from mteb_longembed.hub import silence

    options = {"unit": " tokens", "unit_scale": True, "smoothing": 0}
    if not is_terminal(sys.stderr):
        options["mininterval"] = _SECONDS
    is_off = not show or sys.stderr is None or not work.left
    bar = tqdm(total=work.left, desc="Encoding", disable=is_off, **options)
    # the command has said already how much text is not read
    with bar, shared_bar(bar), silence("mteb_longembed.retrieval.searcher"):
        yield
        bar.update(max(work.left - bar.n, 0))  # the total is an estimate


def note(text: str) -> None:
    """Print a message on standard error, apart from an answer."""
    print(f"mteb-longembed: {printable(text)}", file=sys.stderr)


def _megabytes(n_bytes: float) -> str:
    """Format a size in MB, with a digit more for small ones."""
    size = n_bytes / 2**20
    if n_bytes < 1e5:
        return f"{n_bytes / 1024:,.0f} KB"
    return f"{size:,.0f} MB" if size >= 10 else f"{size:,.1f} MB"


def _duration(seconds: float) -> str:
    """Format a duration in seconds or minutes.

    >>> _duration(3.2), _duration(600)
    ('3 seconds', '10 minutes')
    """
    if seconds < 100:
        return f"{max(seconds, 1):.0f} seconds"
    return f"{seconds / 60:,.0f} minutes"
