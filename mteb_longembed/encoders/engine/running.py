"""Safe forward passes: a batch that does not fit into memory is halved."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from mteb_longembed.encoders.features import Features, Ids
from mteb_longembed.errors import CapacityError

#: The error messages of allocators: CUDA and MPS, their libraries, Triton, torch on CPUs, C++, oneDNN.
_NO_MEMORY = re.compile(
    r"out of memory|can't allocate memory|cannot allocate memory|bad_?alloc|alloc_cpu|"
    r"could not create a (memory|primitive)|failed to allocate|STATUS_ALLOC_FAILED|out of resource",
    re.IGNORECASE,
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory ran out, whichever allocator raised it."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    # Triton's errors are plain exceptions
    return isinstance(error, Exception) and _NO_MEMORY.search(str(error)) is not None


@dataclass(eq=False)
class Runner:
    """Runs batches of token ids through a model and remembers which cost did not fit.

    Args:
        forward: runs the token ids of a batch.
        cost: maps the tokens of a document to its cost.
        limit: no batch above this cost is tried. It falls when memory runs out.
    """

    forward: Callable[[Sequence[Ids]], Features]
    cost: Callable[[int], float]
    limit: float = float("inf")

    def __call__(self, rows: Sequence[Ids]) -> Iterator[tuple[int, Features]]:
        """The features, and how many documents they hold. There is one piece, or several if memory is short."""
        if len(rows) == 1 or self._total(rows) <= self.limit:
            failure = None
            try:
                # kept in a variable, so that the exception's frames are freed before memory is allocated again
                features = self.forward(rows)
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                failure = str(error) or type(error).__name__
            if failure is None:
                yield len(rows), features
                return
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
            if len(rows) == 1:
                raise CapacityError(
                    f"a document of {len(rows[0])} tokens does not fit into memory even alone "
                    f"({' '.join(failure.split())[:120]}); use a shorter target length, half precision (dtype=bf16) "
                    "or a larger device; with a store (mteb runs), the documents finished before are kept."
                )
            self.limit = self._total(rows) / 2
        middle = (len(rows) + 1) // 2
        yield from self(rows[:middle])
        yield from self(rows[middle:])

    def _total(self, rows: Sequence[Ids]) -> float:
        return len(rows) * self.cost(max(map(len, rows)))
