"""Which documents run together: batches within a token budget, halved where memory is short.

Without a lack of memory they depend only on lengths and settings.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

import torch

from mteb_longembed.encoders.features import Ids
from mteb_longembed.encoders.text.drawing import estimated_tokens
from mteb_longembed.encoders.trunk import LongTransformer
from mteb_longembed.errors import CapacityError, InputError

#: The largest cost of a batch in tokens (see `Budget.cost`), by kind of device. On a CPU a thousand tokens are enough
#: for fast matrix products, and longer documents run alone, without padding or mask. Other devices need larger batches.
TOKENS = {"cpu": 4096}
TOKENS_ELSEWHERE = 65_536


@dataclass(frozen=True)
class Budget:
    """The limits of one forward pass. A document that alone costs more than `tokens` runs by itself.

    Args:
        tokens: the largest cost of a batch, in tokens of short documents.
        batch_size: the largest number of documents in a batch.
        trained_len: documents up to this length in tokens never share a batch with longer ones.
        even_len: the length in tokens at which attention costs as much as the rest of the model; infinite where
            attention does not count.
        fill: padded tokens up to which any share of padding is cheaper than another forward pass.
        waste: the largest share of padding in a batch of more than `fill` tokens.
    """

    tokens: int
    batch_size: int
    trained_len: int
    even_len: float
    fill: int = 256
    waste: float = 0.1

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise InputError(f"batch_size must be at least 1 document, got {self.batch_size}.")

    @classmethod
    def of(cls, trunk: LongTransformer, device_type: str, batch_size: int) -> Self:
        """The budget of a model's first module on a kind of device."""
        return cls(
            tokens=TOKENS.get(device_type, TOKENS_ELSEWHERE),
            batch_size=batch_size,
            trained_len=trunk.strategy.trained_len,
            # for each token a layer spends 24 d^2 on projections and MLP, and 4 n d on attention; on CUDA memory is
            # the limit, and a token takes the same memory in every document
            even_len=math.inf if device_type == "cuda" else 6 * trunk.config.get_text_config().hidden_size,
            fill=256 if device_type == "cpu" else 8192,
        )

    def cost(self, n: int) -> float:
        """The cost of a document of `n` tokens, in tokens of a short document."""
        return n * (1 + n / self.even_len)


def plan(lengths: Sequence[int], budget: Budget) -> list[list[int]]:
    """Batches of document indices, the longest documents first. Every index occurs once.

    >>> plan([3, 9, 3, 8], Budget(tokens=20, batch_size=8, trained_len=4, even_len=1000))
    [[1, 3], [0, 2]]
    """
    batches: list[list[int]] = []
    batch: list[int] = []
    real = 0
    for i in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        if batch and not _joins(lengths[i], lengths[batch[0]], len(batch), real, budget):
            batches.append(batch)
            batch = []
            real = 0
        batch.append(i)
        real += lengths[i]
    if batch:
        batches.append(batch)
    return batches


def _joins(n: int, widest: int, size: int, real: int, budget: Budget) -> bool:
    """Whether a document of `n` tokens may join a batch of `size` documents with `real` tokens in all."""
    if size >= budget.batch_size or (size + 1) * budget.cost(widest) > budget.tokens:
        return False
    if (n > budget.trained_len) != (widest > budget.trained_len):
        return False
    padded = (size + 1) * widest
    return padded <= budget.fill or padded <= (1 + budget.waste) * (real + n)


#: A block of texts, which is tokenised at once, has about the tokens of this many batches.
_BATCHES = 64


def divide(texts: Sequence[str], max_len: int, batch_tokens: int) -> list[list[int]]:
    """Indices of the texts in blocks, the longest texts first. They depend only on lengths and settings."""
    blocks: list[list[int]] = []
    room = 0  # tokens that the last block may still get
    for i in sorted(range(len(texts)), key=lambda i: (-len(texts[i]), i)):
        if room <= 0:
            room = batch_tokens * _BATCHES
            blocks.append([])
        blocks[-1].append(i)
        room -= estimated_tokens(texts[i], max_len)
    return blocks


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


T = TypeVar("T")


@dataclass(eq=False)
class Runner(Generic[T]):
    """Runs the batches of one call, and remembers which cost did not fit, for this call."""

    forward: Callable[[Sequence[Ids]], T]
    cost: Callable[[int], float]  #: of a document of so many tokens
    limit: float = float("inf")  #: no batch above this cost is tried; it falls when memory runs out

    def __call__(self, rows: Sequence[Ids]) -> Iterator[tuple[int, T]]:
        """How many documents a piece of the batch holds, and its result: one piece, or several if memory is short."""
        if len(rows) == 1 or self._total(rows) <= self.limit:
            failure = None
            try:
                # kept in a variable, so that the exception's frames are freed before memory is allocated again
                result = self.forward(rows)
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                failure = str(error) or type(error).__name__
            if failure is None:
                yield len(rows), result
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
