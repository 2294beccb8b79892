"""How much of the documents a model reads, and how much truncation to its longest input leaves out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from weakref import WeakSet

from mteb_longembed.encoders.built_model import BuiltModel
from mteb_longembed.encoders.features import Ids
from mteb_longembed.encoders.modules import LongTransformer
from mteb_longembed.encoders.tokenizing import prefix_tokenizer_of

from .batching import CHARS_PER_TOKEN

logger = logging.getLogger(__name__)
#: How many texts, and how many characters of each, are used to measure the tokens for each character.
_SAMPLE_TEXTS = 32
_SAMPLE_CHARS = 20_000
#: Texts -> the token ids that the model reads of each.
Tokenise = Callable[[list[str]], list[Ids]]
#: The models for which the warning was logged.
_WARNED: WeakSet[BuiltModel] = WeakSet()


@dataclass
class TruncationStats:
    """How much of some documents was read, and how much truncation left out.

    Tokens are counted with the prompt and special tokens.

    Args:
        documents: number of documents.
        tokens_read: tokens that the model read, of all documents together.
        tokens: tokens of the whole documents. Of documents that were cut they are estimated from the characters.
        mostly_cut: number of documents that lost more than half of their tokens.
    """

    documents: int = 0
    tokens_read: int = 0
    tokens: int = 0
    mostly_cut: int = 0

    def add(self, other: TruncationStats) -> None:
        """Add the counts of other documents."""
        self.documents += other.documents
        self.tokens_read += other.tokens_read
        self.tokens += other.tokens
        self.mostly_cut += other.mostly_cut

    def __str__(self) -> str:
        """One human-readable line.

        >>> str(TruncationStats(documents=2, tokens_read=1024, tokens=26800))
        'read 512 of about 13,400 tokens a document on average, 4 %'
        >>> str(TruncationStats(documents=2, tokens_read=600, tokens=600))
        'read all 300 tokens a document on average'
        """
        read, total = (round(n / max(self.documents, 1)) for n in (self.tokens_read, self.tokens))
        if self.tokens_read >= self.tokens:
            return f"read all {read:,} tokens a document on average"
        share = 100 * self.tokens_read / self.tokens
        return f"read {read:,} of about {total:,} tokens a document on average, {share:.{0 if share >= 1 else 1}f} %"


def truncation_of(
    first: LongTransformer, texts: Sequence[str], ids: Sequence[Ids], tokenise: Tokenise
) -> TruncationStats:
    """How much of the texts was read.

    Args:
        first: the model's first module.
        texts: the documents.
        ids: the token ids that were read of each.
        tokenise: gives ids with what is no text: the prompt and special tokens.
    """
    read = sum(map(len, ids))
    cut = [(text, len(row)) for text, row in zip(texts, ids, strict=True) if len(row) >= first.longest]
    # a tokenizer without a cutter is too slow to measure it
    rate = 1 / CHARS_PER_TOKEN
    cutter = prefix_tokenizer_of(first.tokenizer)
    if cut and cutter is not None:
        sample = [text[:_SAMPLE_CHARS] for text, _ in cut[:_SAMPLE_TEXTS]]
        sampled = cutter.contents(sample, max(map(len, sample)))
        rate = sum(map(len, sampled)) / max(sum(map(len, sample)), 1)
    added = 0
    if cut:
        added = len(tokenise([""])[0])
    lost = [(max(round(len(text) * rate) - (n - added), 0), n) for text, n in cut]
    return TruncationStats(
        len(texts), read, read + sum(n for n, _ in lost), sum(more > n for more, n in lost)
    )


def warn_once(model: BuiltModel, stats: TruncationStats, max_len: int) -> None:
    """Log a warning, once for each model, if more than half of a text is cut away.

    Args:
        model: the model that encodes.
        stats: how much of the texts was read.
        max_len: the longest input in tokens.
    """
    if not stats.mostly_cut or model in _WARNED:
        return
    _WARNED.add(model)
    logger.warning(
        "%s texts lose more than half of their length, because the model reads only the first %s tokens; an extended "
        "model reads more (this warning appears once; logger %s).",
        f"{stats.mostly_cut:,} of {stats.documents:,}",
        f"{max_len:,}",
        __name__,
    )
