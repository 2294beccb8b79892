"""Random draws that are the same on every platform and Python version."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draws:
    """Random draws that depend only on a key.

    Only `random.Random.random` is used. Python promises that this method always gives the same sequence for a seed.
    `sample`, `shuffle` and `randrange` may change between versions.

    >>> draws = Draws("passkey/0/test_256")
    >>> [draws.below(100) for _ in range(5)]
    [29, 59, 98, 73, 68]
    """

    def __init__(self, key: str) -> None:
        self._random = random.Random(int.from_bytes(hashlib.sha256(key.encode()).digest(), "big")).random

    def below(self, n: int) -> int:
        """A whole number from 0 to n - 1."""
        return int(self._random() * n)

    def choice(self, items: Sequence[T]) -> T:
        """One of the items."""
        return items[self.below(len(items))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in random order (Fisher-Yates)."""
        deck = list(items)
        for last in range(len(deck) - 1, 0, -1):
            other = self.below(last + 1)
            deck[last], deck[other] = deck[other], deck[last]
        return deck

    def distinct(self, k: int, n: int) -> list[int]:
        """k different whole numbers from 0 to n - 1, in the order drawn; k <= n."""
        drawn: dict[int, None] = {}
        while len(drawn) < k:
            drawn[self.below(n)] = None
        return list(drawn)
