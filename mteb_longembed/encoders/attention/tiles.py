"""Tiles: the parts of the score matrix that one kernel call covers.

A tile is a block of rows (queries) and columns (keys) of one document, with a shape inside the block. Attention over
disjoint tiles, merged by log-sum-exp, is attention over their union. No tensor of size n x n is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from .devices import to_device


class Tile(NamedTuple):
    """Rows `rows` over columns `cols`, restricted to a shape.

    full: every row sees every column. lower: row i of the block sees columns 0..i (square blocks only).
    upper: row i sees the columns from i on (square blocks only). band: token i sees tokens i-left..i+right (whole
    documents only).
    """

    rows: slice
    cols: slice
    shape: Literal["full", "lower", "upper", "band"]
    left: int = 0
    right: int = 0

    def shows(self, i: Tensor, j: Tensor) -> Tensor:
        """Whether the tokens i, all in `rows`, see the tokens j, all in `cols` (broadcasting)."""
        if self.shape == "band":
            return (i - j <= self.left) & (j - i <= self.right)
        row = i - self.rows.start
        col = j - self.cols.start
        return {"full": col >= 0, "lower": col <= row, "upper": col >= row}[self.shape]


def band(n: int, left: int, right: int) -> Tile:
    """Each of `n` tokens over its neighbours, `left` before and `right` after it."""
    return Tile(slice(0, n), slice(0, n), "band", min(left, n - 1), min(right, n - 1))


def at_least_before(n: int, distance: int) -> list[Tile]:
    """Each token over the tokens at least `distance` before it. Empty if there are none."""
    if distance < n:
        return [Tile(slice(distance, n), slice(0, n - distance), "lower")]
    return []


def band_blocks(n: int, left: int, right: int, device: torch.device) -> Iterator[tuple[slice, slice, Tensor]]:
    """A band as blocks of rows. Each has the columns that it can see and a `[rows, cols]` mask of 0 and -inf."""
    size = _block_size(left, right)
    for start in range(0, n, size):
        stop = min(start + size, n)
        low = max(start - left, 0)
        high = min(stop + right, n)
        mask = _band_mask(size, left, right, device)
        shift = left - (start - low)
        yield slice(start, stop), slice(low, high), mask[: stop - start, shift : shift + high - low]


def band_interior(n: int, left: int, right: int, device: torch.device) -> tuple[slice, int, Tensor] | None:
    """The blocks of rows that see no end of the document, so all have one mask: rows, block size, mask; or None."""
    size = _block_size(left, right)
    first = -(-left // size)
    last = (n - right) // size
    if last <= first:
        return None
    return slice(first * size, last * size), size, _band_mask(size, left, right, device)


def _block_size(left: int, right: int) -> int:
    # small blocks score fewer unneeded keys, large blocks have less overhead
    return min(max(64, (left + right) // 8), 512)


@lru_cache(maxsize=16)
@torch.inference_mode(False)
def _band_mask(size: int, left: int, right: int, device: torch.device) -> Tensor:
    """Mask of `size` rows over the `left + size + right` columns around them."""
    distance = torch.arange(size)[:, None] + left - torch.arange(left + size + right)
    mask = torch.zeros(distance.shape).masked_fill((distance > left) | (distance < -right), -torch.inf)
    return to_device(mask, device)
