"""Results on their way from an accelerator to the host: copied while later batches run, looked at when they are here.

On a CPU nothing is copied and nobody waits. On CUDA a batch's arrays go to pinned memory behind its own work,
together with one flag a document that says whether its numbers are finite. Reading them waits for that batch alone,
while the device works on the batches after it; so the check for NaN never leaves it idle.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TypeVar

import torch
from torch import Tensor

T = TypeVar("T")

#: Batches that run on an accelerator while the results of the one before them are awaited.
AHEAD = 2


class Results:
    """One array a document, of any shapes but one type.

    Args:
        arrays: as the model's last module left them, on its device.
        fetch: whether the arrays are wanted on the host; the flags always are.
    """

    def __init__(self, arrays: list[Tensor], *, fetch: bool) -> None:
        self._arrays = arrays
        self._host: Tensor | None = None
        self._copied: torch.cuda.Event | None = None
        self._finite = torch.stack([torch.isfinite(array).all() for array in arrays])
        if arrays[0].device.type != "cuda":
            self._arrays = [array.cpu() for array in arrays] if fetch else arrays
            return
        self._finite = self._finite.to("cpu", non_blocking=True)
        if fetch:
            self._host = torch.cat([array.reshape(-1) for array in arrays]).to("cpu", non_blocking=True)
        self._copied = torch.cuda.Event()
        self._copied.record(torch.cuda.current_stream(arrays[0].device))

    def read(self) -> tuple[list[Tensor], list[int]]:
        """The arrays, on the host where they were fetched, and which of them hold NaN or infinity."""
        if self._copied is not None:
            self._copied.synchronize()
        if self._host is not None:
            parts = self._host.split([array.numel() for array in self._arrays])
            self._arrays = [part.view(array.shape) for part, array in zip(parts, self._arrays, strict=True)]
            self._host = None
        finite = self._finite.tolist()
        return self._arrays, [i for i, fine in enumerate(finite) if not fine]


def lagging(items: Iterable[T], ahead: int) -> Iterator[T]:
    """The items in their order, each once `ahead` later ones were drawn.

    >>> drawn = []
    >>> items = (drawn.append(i) or i for i in range(4))
    >>> [(item, list(drawn)) for item in lagging(items, 2)]
    [(0, [0, 1, 2]), (1, [0, 1, 2, 3]), (2, [0, 1, 2, 3]), (3, [0, 1, 2, 3])]
    """
    waiting: deque[T] = deque()
    for item in items:
        waiting.append(item)
        if len(waiting) > ahead:
            yield waiting.popleft()
    yield from waiting
