"""Safe forward passes: a batch that does not fit is halved, and an embedding that is not finite is computed again."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mteb_longembed.encoders.attention.devices import to_device
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


@contextlib.contextmanager
def in_fp32(model: nn.Module) -> Iterator[None]:
    """The model's parameters in fp32, and then as before. This is exact: fp32 holds every half-precision number."""
    dtypes = {name: parameter.dtype for name, parameter in model.named_parameters()}
    try:
        for parameter in model.parameters():
            parameter.data = parameter.data.float()
        yield
    finally:
        for name, parameter in model.named_parameters():
            parameter.data = parameter.data.to(dtypes[name])


#: How many later batches an accelerator runs while the host waits for the results of a batch.
AHEAD = 2


class Results:
    """One array of one type and any shape for each document, copied to the host if `fetch`, and which are finite.

    Args:
        arrays: one for each document, of one type and any shape.
        fetch: whether the arrays are copied to the host.
    """

    def __init__(self, arrays: list[Tensor], *, fetch: bool) -> None:
        self._arrays = arrays
        self._host: Tensor | None = None
        self._copied: torch.cuda.Event | None = None
        # arrays of one shape need only one operator
        same = len({array.shape for array in arrays}) == 1
        if same:
            flat = torch.stack(arrays).flatten()
        else:
            flat = torch.cat([array.reshape(-1) for array in arrays])
        finite = torch.isfinite(flat)
        if same:
            self._finite = finite.view(len(arrays), -1).all(1)
        else:
            # a few operators for all arrays, whatever their sizes
            ends = torch.tensor([0, *(array.numel() for array in arrays)]).cumsum(0)
            wrong = torch.nn.functional.pad(finite.logical_not().cumsum(0), (1, 0))
            self._finite = wrong[to_device(ends, flat.device)].diff() == 0
        if arrays[0].device.type != "cuda":
            if fetch:
                self._arrays = [array.cpu() for array in arrays]
            else:
                self._arrays = arrays
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
        return self._arrays, [i for i, finite in enumerate(self._finite.tolist()) if not finite]


#: The share of the free memory that a batch may take. The rest is for fragments, vectors and other processes.
_SHARE = 0.6
#: Tokens of the measured batch, and the largest number of tokens of a document in it.
_PROBE = 8192
_PROBE_DOCUMENT = 4096
#: With fewer tokens an accelerator is never busy, and with more it is not faster.
FEWEST = 4096
MOST = 1 << 18


def tokens_that_fit(bytes_a_token: float, free: int) -> int:
    """Tokens of a batch. It is a power of two, so that two runs on one machine make the same batches.

    Args:
        bytes_a_token: memory that a token takes in a forward pass.
        free: free bytes of the device.
    """
    fitting = int(_SHARE * free / max(bytes_a_token, 1.0))
    return min(max(1 << max(fitting.bit_length() - 1, 0), FEWEST), MOST)


def measured_tokens(run: Callable[[int, int], object], longest: int, device: torch.device) -> int:
    """Tokens of a batch on a CUDA device. One pass of `run(documents, tokens)` measures the memory for a token.

    Args:
        run: runs so many documents of so many tokens.
        longest: the longest input of the model in tokens.
        device: a CUDA device.
    """
    n = min(longest, _PROBE_DOCUMENT)
    count = max(_PROBE // n, 1)
    try:
        run(1, min(n, 64))  # the first run makes workspaces and kernels, which are not measured
        allocated = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        run(count, n)
        peak = torch.cuda.max_memory_allocated(device)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        torch.cuda.empty_cache()
        return FEWEST
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return tokens_that_fit((peak - allocated) / (count * n), torch.cuda.mem_get_info(device)[0] + kept)
