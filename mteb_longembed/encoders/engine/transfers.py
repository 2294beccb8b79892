"""Copies results from an accelerator to the host while later batches run.

On a CPU nothing is copied and nothing waits. On CUDA a batch's arrays are copied to pinned memory after the batch has
run, together with one flag for each document: whether its numbers are finite. Reading waits only for this batch, and
the device already works on the next batches. So the check for NaN never leaves the device idle.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TypeVar

import torch
from torch import Tensor

from mteb_longembed.encoders.attention.devices import to_device

T = TypeVar("T")

#: How many later batches an accelerator runs while the host waits for the results of a batch.
AHEAD = 2


class Results:
    """One array for each document. The arrays have one type and may have different shapes.

    Args:
        arrays: arrays from the model's last module, on its device.
        fetch: whether the arrays are copied to the host. The flags always are.
    """

    def __init__(self, arrays: list[Tensor], *, fetch: bool) -> None:
        self._arrays = arrays
        self._host: Tensor | None = None
        self._copied: torch.cuda.Event | None = None
        flat = _flat(arrays)
        self._finite = _finite(flat, [array.numel() for array in arrays])
        if arrays[0].device.type != "cuda":
            self._arrays = [array.cpu() for array in arrays] if fetch else arrays
            return
        self._finite = self._finite.to("cpu", non_blocking=True)
        if fetch:
            self._host = flat.to("cpu", non_blocking=True)
        self._copied = torch.cuda.Event()
        self._copied.record(torch.cuda.current_stream(arrays[0].device))

    def read(self) -> tuple[list[Tensor], list[int]]:
        """The arrays, on the host if they were fetched, and the indices of those that hold NaN or infinity."""
        if self._copied is not None:
            self._copied.synchronize()
        if self._host is not None:
            parts = self._host.split([array.numel() for array in self._arrays])
            self._arrays = [part.view(array.shape) for part, array in zip(parts, self._arrays, strict=True)]
            self._host = None
        finite = self._finite.tolist()
        return self._arrays, [i for i, fine in enumerate(finite) if not fine]


def _flat(arrays: list[Tensor]) -> Tensor:
    """The numbers of all arrays one after another, by one operator if the arrays have one shape."""
    if len({array.shape for array in arrays}) == 1:
        return torch.stack(arrays).flatten()
    return torch.cat([array.reshape(-1) for array in arrays])


def _finite(flat: Tensor, sizes: list[int]) -> Tensor:
    """Whether each array has only finite numbers. A few operators for all arrays, whatever their sizes."""
    finite = torch.isfinite(flat)
    if len(set(sizes)) == 1:
        return finite.view(len(sizes), -1).all(1)
    ends = to_device(torch.tensor([0, *sizes]).cumsum(0), flat.device)
    wrong = torch.nn.functional.pad(finite.logical_not().cumsum(0), (1, 0))
    return wrong[ends].diff() == 0


def delayed(items: Iterable[T], ahead: int) -> Iterator[T]:
    """The items in their order. Each item is yielded after `ahead` later items have been drawn.

    >>> drawn = []
    >>> items = (drawn.append(i) or i for i in range(4))
    >>> [(item, list(drawn)) for item in delayed(items, 2)]
    [(0, [0, 1, 2]), (1, [0, 1, 2, 3]), (2, [0, 1, 2, 3]), (3, [0, 1, 2, 3])]
    """
    waiting: deque[T] = deque()
    for item in items:
        waiting.append(item)
        if len(waiting) > ahead:
            yield waiting.popleft()
    yield from waiting
