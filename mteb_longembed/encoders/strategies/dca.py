"""Dual chunk attention: exact distances inside a chunk, limited distances between chunks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mteb_longembed.errors import InputError

from .strategy import Plan, Strategy, parameter


@dataclass(frozen=True, kw_only=True)
class DualChunkAttention(Strategy):
    """Dual chunk attention: exact distances within a chunk, limited distances between chunks.

    A chunk has `chunk` tokens. Token i is number `a` in its chunk, token j is number `b` in its chunk, and `i > j`.
    The distance is `a - b` if both are in the same chunk, `min(chunk + a, limit) - b` if j is in the chunk just
    before, and `limit - b` if j is further back.

    Source: An et al. 2024, arXiv:2402.17463, sections 3.1 to 3.3.
    Differs: the mirror image for bidirectional models is ours: for `i < j` it is minus the distance at which j sees
        i. The defaults follow the paper's text: chunks of 3/4 of the trained length `Lo`, and positions up to
        `Lo - 1`. The authors' code (ChunkLlama) takes `chunk = 11 * Lo // 16` and `limit = 3 * Lo // 4`.

    Args:
        chunk: tokens of a chunk; default 3/4 of the trained length, `3 * Lo // 4`.
        limit: the largest relative position; default the trained length minus 1, `Lo - 1`.

    Example:
        >>> dca = DualChunkAttention(trained_len=512, target_len=4096)
        >>> dca.chunk, dca.limit
        (384, 511)
        >>> theirs = DualChunkAttention(trained_len=512, target_len=4096, chunk=352, limit=384)
    """

    KEY: ClassVar[str] = "dca"

    chunk: int = parameter(None, "tokens of a chunk (default 3/4 of the trained length)", inside=True)
    limit: int = parameter(
        None, "largest relative position (default the trained length - 1; ChunkLlama: 3/4 of it)"
    )

    def defaults_by_length(self) -> dict[str, object]:
        return {"chunk": max(3 * self.trained_len // 4, 1), "limit": self.trained_len - 1}

    def check(self) -> None:
        if not self.chunk <= self.limit < self.trained_len:
            raise InputError(
                f"dca's limit must be at least the chunk of {self.chunk} tokens and below the trained length "
                f"of {self.trained_len}, got {self.limit}."
            )

    def attention(self) -> Plan:
        from mteb_longembed.encoders.attention.plan import DualChunkPlan

        return DualChunkPlan(self.chunk, self.limit)
