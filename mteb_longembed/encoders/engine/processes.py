"""Several processes: parts of equal cost for the workers of a sentence-transformers pool."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch

from mteb_longembed.encoders.engine.batching import estimated_tokens
from mteb_longembed.encoders.engine.reading import TokenBar

from .batching import PARTS_PER_WORKER, split_by_cost
from .engine import budget_of

if TYPE_CHECKING:
    from mteb_longembed.encoders.building import LongModel

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
    model: LongModel,
    texts: Sequence[str],
    pool: Pool,
    take: Callable[[Pool], tuple[int, Any]],
    *,
    show: bool,
    kwargs: dict[str, Any],
) -> list[Any]:
    """Each text's embedding, from workers that get parts of equal cost in tokens.

    `take` waits for a worker and returns a part's number with its embeddings or an exception, which is raised after all
    parts have returned.
    """
    budget = budget_of(model, "cpu", kwargs["batch_size"])
    tokens = [estimated_tokens(text, model.first.longest) for text in texts]
    parts = split_by_cost([budget.cost(n) for n in tokens], PARTS_PER_WORKER * len(pool["processes"]))
    for number, part in enumerate(parts):
        pool["input"].put([number, [texts[i] for i in part], {**kwargs, "show_progress_bar": False}])
    results: list[Any] = [None] * len(texts)
    failure: Exception | None = None
    with TokenBar(sum(tokens), show=show) as bar:
        for _ in parts:
            number, output = take(pool)
            if isinstance(output, Exception):
                failure = output
                continue
            bar.advance(sum(tokens[i] for i in parts[number]))
            for i, value in zip(parts[number], output, strict=True):
                results[i] = value
    if failure is not None:
        raise failure
    return results
