"""The documents of one forward pass: their lengths, which the host knows, and tensors made from them once.

While a batch runs, `current()` returns its documents to every layer. So no layer asks the device for lengths, and
nothing that depends on them is made again in each layer. Packed documents lie one after another in the one row that
the model sees.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

from .devices import to_device

T = TypeVar("T")
P = ParamSpec("P")


@dataclass(eq=False)
class Documents:
    """The documents of a padded batch on a device: tokens of each one, at least 1.

    `expanded` ones are queries whose padding is scored too (ColBERT), although they do not see it.

    Args:
        lengths: tokens of each document, at least 1.
        device: where the batch is.
        expanded: whether queries have tokens that attention does not see (late interaction).
    """

    lengths: Sequence[int]
    device: torch.device
    expanded: bool = False
    _made: dict[Hashable, Any] = field(default_factory=dict, repr=False)

    @property
    def n(self) -> Tensor:
        """`[b]` tokens of each document, on the host."""
        return torch.tensor(self.lengths)

    @property
    def longest(self) -> int:
        """Tokens of the longest document."""
        return max(self.lengths)

    def cached(self, key: Hashable, make: Callable[[], T]) -> T:
        """The result of `make`. It is computed at the first call and kept as long as the batch."""
        if key not in self._made:
            with torch.inference_mode(False):
                self._made[key] = make()
        return self._made[key]

    def on_device(self, key: Hashable, make: Callable[[], Tensor]) -> Tensor:
        """A tensor that `make` makes on the host, on the device. It is made and copied once."""
        return self.cached(key, lambda: to_device(make(), self.device))

    def lengths_on_device(self) -> Tensor:
        """`[b]` tokens of each document, on the device."""
        return self.on_device("lengths", lambda: self.n)

    def expand_to_tokens(self, values: Tensor) -> Tensor:
        """Values of documents `[b, ...]` for their tokens, on the device: `[b, 1, ...]`, packed `[1, tokens, ...]`."""
        return to_device(values, self.device)[:, None]

    def by_length(self) -> list[tuple[int, list[int], Tensor]]:
        """Each length, and the rows of the documents that have it, on the host and on the device."""

        def make() -> list[tuple[int, list[int], Tensor]]:
            groups: dict[int, list[int]] = {}
            for row, length in enumerate(self.lengths):
                groups.setdefault(length, []).append(row)
            return [(n, rows, to_device(torch.tensor(rows), self.device)) for n, rows in groups.items()]

        return self.cached("by length", make)


class PackedDocuments(Documents):
    """The documents of a packed batch.

    Args:
        lengths: tokens of each document, in the order of the row.
        device: where the batch is.
    """

    def starts(self) -> Tensor:
        """`[b + 1]` int32 on the device: where each document starts, and where the last one ends."""
        return self.on_device("starts", lambda: cumulative(self.lengths))

    def positions(self) -> Tensor:
        """`[tokens]` on the device: each token's place in its document."""
        return self.on_device("positions", lambda: torch.cat([torch.arange(n) for n in self.lengths]))

    def padded_indices(self, width: int) -> Tensor:
        """`[tokens]` on the device: each token's index in a padded batch `[b, width]` that is read row by row."""
        key = ("padded indices", width)
        rows = enumerate(self.lengths)
        return self.on_device(key, lambda: torch.cat([row * width + torch.arange(n) for row, n in rows]))

    def expand_to_tokens(self, values: Tensor) -> Tensor:
        owners = self.on_device(
            "owners", lambda: torch.repeat_interleave(torch.arange(len(self.lengths)), self.n)
        )
        return to_device(values, self.device)[owners][None]


def cumulative(lengths: Sequence[int]) -> Tensor:
    """`[len + 1]` int32: 0 and the cumulative sums of the lengths."""
    return torch.tensor([0, *lengths]).cumsum(0, dtype=torch.int32)


_OF_THREAD = threading.local()


def current() -> Documents | None:
    """The documents of the forward pass that this thread runs. None outside one."""
    return getattr(_OF_THREAD, "documents", None)


def current_packed() -> PackedDocuments | None:
    """The documents of this thread's forward pass if they are packed."""
    documents = current()
    if isinstance(documents, PackedDocuments):
        return documents
    return None


@contextlib.contextmanager
def encoding(documents: Documents | None) -> Iterator[None]:
    """Inside this context, the model of this thread gets these documents."""
    outer = current()
    _OF_THREAD.documents = documents
    try:
        yield
    finally:
        _OF_THREAD.documents = outer


def with_documents(
    checkpoint: Callable[..., T], layer: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """transformers' gradient checkpointing (`checkpoint`), with the documents of the forward pass in its second run."""
    documents = current()

    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        with encoding(documents):
            return layer(*args, **kwargs)

    return checkpoint(run, *args, **kwargs)
