"""Safe forward passes: a batch that does not fit is halved, and an embedding that is not finite is computed again."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from mteb_longembed.errors import CapacityError, NumberError

from .tokenizing import Ids

Features = dict[str, Any]

#: The error messages of allocators: CUDA and MPS, their libraries, Triton, torch on CPUs, C++, oneDNN.
_NO_MEMORY = re.compile(
    r"out of memory|can't allocate memory|cannot allocate memory|bad_?alloc|alloc_cpu|"
    r"could not create a (memory|primitive)|failed to allocate|STATUS_ALLOC_FAILED|out of resource",
    re.IGNORECASE,
)
_WANTED = re.compile(r"allocate (\d+(?:\.\d+)?) ?(bytes|[KMG]i?B)", re.IGNORECASE)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory ran out, whichever allocator raised it."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    # Triton's errors are plain exceptions
    return isinstance(error, Exception) and _NO_MEMORY.search(str(error)) is not None


class Runner:
    """Runs batches of token ids through a model and remembers which cost did not fit.

    Args:
        forward: ids of a batch -> the features after the model's last module.
        cost: cost of one document, from its number of tokens.
        limit: the highest cost of a batch that is tried. It is lowered when memory runs out.
    """

    def __init__(
        self,
        forward: Callable[[Sequence[Ids]], Features],
        cost: Callable[[int], float],
        limit: float = float("inf"),
    ) -> None:
        self._forward = forward
        self._cost = cost
        self.limit = limit

    def __call__(self, rows: Sequence[Ids]) -> Iterator[tuple[int, Features]]:
        """The features, and how many documents they hold. There is one piece, or several if memory is short.

        Raises:
            CapacityError: if a single document does not fit.
        """
        if len(rows) == 1 or self._total(rows) <= self.limit:
            failure = None
            try:
                # kept in a variable, so that the exception's frames are freed before memory is allocated again
                features = self._forward(rows)
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
                raise CapacityError(_does_not_fit(len(rows[0]), failure))
            self.limit = self._total(rows) / 2
        half = (len(rows) + 1) // 2
        yield from self(rows[:half])
        yield from self(rows[half:])

    def _total(self, rows: Sequence[Ids]) -> float:
        return len(rows) * self._cost(max(map(len, rows)))


def _does_not_fit(n: int, failure: str) -> str:
    wanted = _WANTED.search(failure)
    needed = f"at least {_readable(wanted)} more in one piece" if wanted else "more than is free"
    return (
        f"a document of {n} tokens does not fit into memory even alone: its forward pass needs {needed}; use "
        "a shorter target length, half precision (dtype=bf16) or a larger device; with a store (mteb runs), "
        "the documents finished before are kept."
    )


def _readable(wanted: re.Match[str]) -> str:
    number, unit = float(wanted[1]), wanted[2]
    if unit.lower() != "bytes":
        return f"{wanted[1]} {unit}"
    return f"{number / 2**30:.2f} GiB" if number >= 2**30 else f"{number / 2**20:.1f} MiB"


def embeddings_of(features: Features) -> Tensor:
    """The embeddings to check: those of the documents, or of the tokens (zeros for padding) if there are none."""
    found = features.get("sentence_embedding")
    if found is not None:
        return found
    return features["token_embeddings"] * features["attention_mask"][..., None]


def not_finite(features: Features) -> list[int]:
    """The rows of a batch with NaN or infinity in their embedding."""
    finite = torch.isfinite(embeddings_of(features)).flatten(1).all(1)
    return [] if bool(finite.all()) else (~finite).nonzero()[:, 0].tolist()


def retry_in_fp32(
    model: nn.Module, forward: Callable[[], Features], finite: Callable[[Features], bool], describe: str
) -> Features:
    """Run one document again in fp32, because half precision may overflow where fp32 does not.

    Args:
        model: its parameters are converted to fp32 during the run.
        forward: runs the document alone.
        finite: checks that the needed features are finite.
        describe: the name of the document for the error.

    Raises:
        NumberError: if the embedding is still not finite. The error names the document.
    """
    half = any(p.dtype in (torch.float16, torch.bfloat16) for p in model.parameters())
    if half:
        with _in_fp32(model):
            features = forward()
        if finite(features):
            return features
    raise NumberError(
        f"the embedding of {describe} is not finite, computed in fp32{' too' if half else ''}: the model's "
        "weights or its extension overflow on it, so no result is written."
    )


@contextlib.contextmanager
def _in_fp32(model: nn.Module) -> Iterator[None]:
    """The model's parameters in fp32, and then as before. This is exact: fp32 holds every half-precision number."""
    before = {name: parameter.dtype for name, parameter in model.named_parameters()}
    try:
        for parameter in model.parameters():
            parameter.data = parameter.data.float()
        yield
    finally:
        for name, parameter in model.named_parameters():
            parameter.data = parameter.data.to(before[name])
