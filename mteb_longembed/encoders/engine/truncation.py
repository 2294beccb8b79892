"""How much of the documents a model reads, and about how much is cut off at its longest input."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakSet

from mteb_longembed.encoders.built_model import BuiltModel
from mteb_longembed.encoders.features import Ids

from .batching import estimated_tokens

logger = logging.getLogger(__name__)
#: The models for which the warning was logged.
_WARNED: WeakSet[BuiltModel] = WeakSet()


@dataclass
class TruncationStats:
    """How much of some documents was read, and how much was cut off.

    Tokens are counted with the prompt and special tokens.
    """

    documents: int = 0
    tokens_read: int = 0
    tokens_cut: int = 0  #: estimated from the characters
    mostly_cut: int = 0  #: documents that lost more than half of their tokens

    def add(self, texts: Sequence[str], ids: Sequence[Ids], longest: int) -> None:
        """Count documents, of which these ids were read, at most `longest` of each."""
        self.documents += len(texts)
        for text, row in zip(texts, ids, strict=True):
            self.tokens_read += len(row)
            if len(row) < longest:
                continue
            lost = max(estimated_tokens(text) - len(row), 0)
            self.tokens_cut += lost
            if lost > len(row):
                self.mostly_cut += 1

    def __str__(self) -> str:
        """One human-readable line.

        >>> str(TruncationStats(documents=2, tokens_read=1024, tokens_cut=25776))
        'read 1,024 tokens of 2 documents, and cut off about 25,776'
        >>> str(TruncationStats(documents=2, tokens_read=600))
        'read all 600 tokens of 2 documents'
        """
        if not self.tokens_cut:
            return f"read all {self.tokens_read:,} tokens of {self.documents:,} documents"
        return (
            f"read {self.tokens_read:,} tokens of {self.documents:,} documents, and cut off about "
            f"{self.tokens_cut:,}"
        )


def warn_once(model: BuiltModel, stats: TruncationStats, longest: int) -> None:
    """Log a warning, once for each model, if more than half of a text is cut away."""
    if not stats.mostly_cut or model in _WARNED:
        return
    _WARNED.add(model)
    logger.warning(
        "%s texts lose more than half of their length, because the model reads only the first %s tokens; an extended "
        "model reads more (this warning appears once; logger %s).",
        f"{stats.mostly_cut:,} of {stats.documents:,}",
        f"{longest:,}",
        __name__,
    )
