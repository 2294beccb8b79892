"""Several processes encode the texts of one call: the pools of sentence-transformers."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from .batching import PARTS_PER_WORKER, Budget, estimated_tokens, split_by_cost
from .interface import TextTransformer
from .progress import TokenBar

#: What `start_multi_process_pool` returns: two queues, and the list of processes.
Pool = dict[Literal["input", "output", "processes"], Any]

_THREADS = "OMP_NUM_THREADS"


@contextlib.contextmanager
def cores_shared(target_devices: Sequence[str] | None) -> Iterator[None]:
    """Inside, new workers on CPUs share the cores. Without it, each worker would use all cores."""
    if not target_devices or set(target_devices) != {"cpu"} or _THREADS in os.environ:
        yield
        return
    os.environ[_THREADS] = str(max(1, torch.get_num_threads() // len(target_devices)))
    try:
        yield
    finally:
        del os.environ[_THREADS]


def encode_in_pool(
    first: TextTransformer,
    texts: Sequence[str],
    pool: Pool,
    take: Callable[[Pool], tuple[int, Sequence[Tensor] | Exception]],
    *,
    show: bool,
    batch_size: int,
    kwargs: Mapping[str, object],
) -> list[Tensor]:
    """Each text's embedding, from workers that get parts of equal cost in tokens.

    `take` waits for a worker and returns a part's number with its embeddings or an exception, which is raised after all
    parts have returned. `kwargs` are those of a worker's `_inference`.
    """
    budget = Budget.of(first, "cpu", batch_size)
    tokens = [estimated_tokens(text, first.longest) for text in texts]
    parts = split_by_cost([budget.cost(n) for n in tokens], PARTS_PER_WORKER * len(pool["processes"]))
    for number, part in enumerate(parts):
        pool["input"].put([number, [texts[i] for i in part], kwargs])
    embeddings: dict[int, Tensor] = {}
    failure: Exception | None = None
    with TokenBar(sum(tokens), show=show) as bar:
        for _ in parts:
            number, output = take(pool)
            if isinstance(output, Exception):
                failure = output
                continue
            bar.update(sum(tokens[i] for i in parts[number]))
            embeddings.update(zip(parts[number], output, strict=True))
    if failure is not None:
        raise failure
    return [embeddings[i] for i in range(len(texts))]
