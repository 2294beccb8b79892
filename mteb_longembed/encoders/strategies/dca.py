"""Dual chunk attention: exact positions inside a chunk, bounded ones between chunks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from mteb_longembed.encoders.attention.dual_chunk import DualChunkPlan
from mteb_longembed.errors import InputError

from .base import Strategy


@dataclass(frozen=True, kw_only=True)
class DualChunkAttention(Strategy):
    """With chunks of `chunk` tokens and `a`, `b` the places of i and j in theirs (`i > j`): in the same chunk
    `a - b`, in the one before `min(chunk + a, Lo - 1) - b`, further back `Lo - 1 - b`.

    Source: An et al. 2024, arXiv:2402.17463, sections 3.1 to 3.3.
    Differs: the mirror image for bidirectional models (`i < j`: minus what j sees of i) is ours. The paper's
        text is followed, chunks of 3/4 of the trained length; the authors' code takes 11/16 of it.

    Args:
        chunk: tokens of a chunk; default `3 * Lo // 4`.

    Example:
        >>> DualChunkAttention(trained_len=512, target_len=4096).chunk_len
        384
    """

    chunk: int | None = field(
        default=None, metadata={"help": "tokens of a chunk (default 3/4 of the trained length)"}
    )

    def defaults_by_length(self) -> dict[str, object]:
        return {"chunk": max(3 * self.trained_len // 4, 1)}

    @property
    def chunk_len(self) -> int:
        """`chunk`, which is never None in an instance."""
        return cast("int", self.chunk)

    def check(self) -> None:
        if not 1 <= self.chunk_len < self.trained_len:
            raise InputError(
                f"dca's chunk must be at least 1 and below the trained length of {self.trained_len} tokens, "
                f"got {self.chunk_len}."
            )

    def attention(self) -> DualChunkPlan:
        return DualChunkPlan(self.chunk_len, self.trained_len - 1)
