"""The SentenceTransformer that `extend` and `load` return."""

from __future__ import annotations

from sentence_transformers import SentenceTransformer
from typing_extensions import Self


class LongSentenceTransformer(SentenceTransformer):
    """A `SentenceTransformer` whose first module is a `LongTransformer`."""

    def pool_in_fp32(self) -> Self:
        """Keep every module behind the transformer in fp32: it hands over fp32 whatever it computes in."""
        for module in list(self)[1:]:
            module.float()
        return self
