"""The lengths of the documents of one forward pass, which the host knows, and tensors made from them once.

While a batch runs, `current()` returns its lengths to every layer. So no layer asks the device for them, and nothing
that depends on them is made again in each layer.
"""

import contextlib
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

from mteb_longembed.encoders.features import to_device

T = TypeVar("T")
P = ParamSpec("P")


@dataclass(eq=False)
class SequenceLengths:
    """The tokens of each document of a padded batch, at least 1, and the device where it is."""

    lengths: Sequence[int]
    device: torch.device
    _made: dict[Hashable, Any] = field(default_factory=dict, repr=False)

    @property
    def n(self) -> Tensor:
        """`[b]` tokens of each document, on the host."""
        return torch.tensor(self.lengths)

    @property
    def longest(self) -> int:
        """Tokens of the longest document."""
        return max(self.lengths)

    def are_all(self, width: int) -> bool:
        """Whether every document has so many tokens, so that a batch of this width has no padding."""
        return min(self.lengths) == width

    def cached(self, key: Hashable, make: Callable[[], T]) -> T:
        """The result of `make`. It is computed at the first call and kept as long as the batch."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def on_device(self, key: Hashable, make: Callable[[], Tensor]) -> Tensor:
        """A tensor that `make` makes on the host, on the device. It is made and copied once."""
        return self.cached(key, lambda: to_device(make(), self.device))


_OF_THREAD = threading.local()


def current() -> SequenceLengths | None:
    """The lengths in the forward pass that this thread runs. None outside one."""
    return getattr(_OF_THREAD, "lengths", None)


@contextlib.contextmanager
def encoding(lengths: SequenceLengths | None) -> Iterator[None]:
    """Inside this context, the model of this thread gets documents of these lengths."""
    outer = current()
    _OF_THREAD.lengths = lengths
    try:
        yield
    finally:
        _OF_THREAD.lengths = outer


def with_lengths(checkpoint: Callable[..., T], layer: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """transformers' gradient checkpointing (`checkpoint`), with the lengths of the forward pass in its second run."""
    lengths = current()

    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        with encoding(lengths):
            return layer(*args, **kwargs)

    return checkpoint(run, *args, **kwargs)
