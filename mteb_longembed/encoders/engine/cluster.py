"""Several processes encode the texts of one call: a pool of sentence-transformers, or the workers of a Ray cluster.

Only the driver reads and writes the store of embeddings, so a run that was killed can continue on other machines.
"""

from __future__ import annotations

import copy
import logging
import os
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from mteb_longembed.encoders.bases.identity import Identity
from mteb_longembed.encoders.built_model import BuiltModel
from mteb_longembed.encoders.store.store import EmbeddingStore
from mteb_longembed.errors import CapacityError, InputError

from .batching import estimated_tokens
from .engine import Engine
from .keys import row_keys
from .progress import TokenBar
from .settings import EncodeSettings
from .truncation import TruncationStats, warn_once

logger = logging.getLogger(__name__)

#: `ray` (the cluster of RAY_ADDRESS, otherwise one on this machine), `ray:N` (with N workers), or `ray://HOST:PORT`.
WORKERS_VARIABLE = "MTEB_LONGEMBED_WORKERS"
#: A part may kill so many workers before the run ends. A part that needs too much memory kills every worker.
_DEATHS = 3
#: Parts for each worker. They are small, so that a lost part costs little and no worker waits long for the last part.
_PARTS_PER_WORKER = 8
#: A worker of Ray, which has no types.
Actor = Any
_SPELLED = re.compile(r"ray(:(?P<count>[1-9][0-9]{0,4})|://(?P<address>\S+))?")


@dataclass(frozen=True)
class Cluster:
    """Which workers of Ray encode texts.

    Args:
        address: of a running cluster, in Ray's form. None: RAY_ADDRESS, or a new cluster on this machine.
        count: number of workers. None: one for each GPU, or for each machine if there are no GPUs.
    """

    address: str | None = None
    count: int | None = None

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Cluster | None:
        """The cluster that the environment describes. None for only this process."""
        text = environ.get(WORKERS_VARIABLE, "")
        if not text:
            return None
        match = _SPELLED.fullmatch(text)
        if match is None:
            raise InputError(f"{WORKERS_VARIABLE} must be ray, ray:N or ray://HOST:PORT, got {text!r}.")
        count = match["count"]
        return cls(text if match["address"] else None, int(count) if count else None)

    def workers(self, model: BuiltModel) -> Workers:
        """Workers with a copy of the model."""
        try:
            import ray
        except ImportError:
            raise InputError(
                f"{WORKERS_VARIABLE} asks for Ray, which is not installed: pip install mteb-longembed[ray]."
            ) from None
        if not ray.is_initialized():
            ray.init(address=self.address, log_to_driver=False, logging_level=logging.WARNING)
        alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        gpus = int(sum(node.get("GPU", 0) for node in alive))
        cpus = [int(node["CPU"]) for node in alive if node.get("CPU", 0) >= 1]
        most, what = (gpus, "GPU") if gpus else (sum(cpus), "CPU")
        if self.count and 0 < most < self.count:
            raise InputError(
                f"{WORKERS_VARIABLE}=ray:{self.count} asks for {self.count} workers with a {what} each, but the "
                f"cluster has {most} {what}s: use ray:{most}, or ray for all of them."
            )
        count = self.count or gpus or max(len(cpus), 1)
        return Workers(model, count, on_gpu=gpus > 0, cpus=cpus_of_a_worker(cpus, count))


def cpus_of_a_worker(cpus: Sequence[int], count: int) -> int:
    """CPUs (and threads) of each worker where there are no GPUs: as many as fit on the smallest machine.

    Args:
        cpus: the CPUs of each machine.
        count: number of workers on all machines together.
    """
    if not cpus:
        return 1
    on_one = -(-count // len(cpus))
    return max(min(cpus) // on_one, 1)


class _Worker:
    """The code that runs in a worker's process."""

    def __init__(self, model: BuiltModel) -> None:
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = model.to(self.device).eval()

    def kind(self) -> str:
        """The kind of device that it computes on. Rounding depends on it."""
        return self.device.type

    def encode(self, texts: list[str], settings: EncodeSettings) -> tuple[list[np.ndarray], TruncationStats]:
        """Each text's array, and how much of the texts was read."""
        done: dict[int, np.ndarray] = {}
        with torch.inference_mode():  # also while the engine measures memory
            engine = Engine(self.model, self.device, replace(settings, to_host=True))
            for indices, arrays in engine.encode(texts, show=False):
                done.update(zip(indices, (array.float().numpy() for array in arrays), strict=True))
        return [done[i] for i in range(len(texts))], engine.truncation


class Workers:
    """Ray actors with a copy of a model, as it is now. They end with this object. Ray starts dead ones again."""

    def __init__(self, model: BuiltModel, count: int, *, on_gpu: bool, cpus: int = 1) -> None:
        import ray

        shared = copy.copy(model)
        shared.store = None  # only the driver reads and writes it
        device = model.device
        # a GPU's tensors cannot be read on a machine without one
        try:
            self._shipped = ray.put(shared.to("cpu"))  # also for those that start again
        finally:
            model.to(device)
        if on_gpu:
            resources = {"num_gpus": 1, "num_cpus": 0}
        else:
            resources = {"num_cpus": cpus}
        worker = ray.remote(_Worker).options(
            scheduling_strategy="SPREAD", max_restarts=-1, max_task_retries=_DEATHS - 1, **resources
        )
        self.actors: list[Actor] = [worker.remote(self._shipped) for _ in range(count)]
        self.device = torch.device(ray.get(self.actors[0].kind.remote()))
        logger.debug("%d Ray workers on %s", count, self.device.type)

    def run(
        self, parts: Sequence[list[str]], settings: EncodeSettings
    ) -> Iterator[tuple[int, list[np.ndarray], TruncationStats]]:
        """The arrays of each part and its number, in the order in which they finish. A lost part runs again."""
        import ray

        waiting = deque(range(len(parts)))
        idle = list(self.actors)
        running: dict[object, tuple[int, Actor]] = {}
        while waiting or running:
            while waiting and idle:
                actor = idle.pop()
                number = waiting.popleft()
                running[actor.encode.remote(parts[number], settings)] = number, actor
            done, _ = ray.wait(list(running), num_returns=1)
            number, actor = running.pop(done[0])
            try:
                arrays, truncation = ray.get(done[0])
            except ray.exceptions.RayTaskError as error:
                raise error.cause from None
            except ray.exceptions.RayError as error:
                longest = max(map(len, parts[number]))
                raise CapacityError(
                    f"{_DEATHS} Ray workers died while they encoded the same {len(parts[number])} documents (the "
                    f"longest has {longest:,} characters), last error: {type(error).__name__}; use a shorter target "
                    "length, a smaller batch_size or workers with more memory; with a store, the documents finished "
                    "before are kept."
                ) from None
            idle.append(actor)
            yield number, arrays, truncation


@dataclass
class ClusterEngine:
    """One call of `encode` on a cluster. It works as `Engine`, with the texts in parts of equal cost in tokens."""

    model: BuiltModel
    workers: Workers
    settings: EncodeSettings
    store: EmbeddingStore | None = None
    truncation: TruncationStats = field(default_factory=TruncationStats)

    def encode(self, texts: list[str], *, show: bool) -> Iterator[tuple[list[int], list[Tensor]]]:
        """Encode as `Engine.encode`: the indices of some texts, and the array of each, on the host."""
        first = self.model.first
        settings = self.settings
        tokens = [estimated_tokens(text, first.longest) for text in texts]
        keys: list[bytes] = []
        stored: Mapping[bytes, np.ndarray] = {}
        kwargs = settings.forward_kwargs
        if self.store and (keys_of := row_keys(self.model, self.workers.device, settings.form, kwargs)):
            ids = first.token_ids(texts, settings.prompt, **kwargs)
            assert ids is not None  # other calls never reach the engine
            keys = keys_of(ids, settings.prompt)
            stored = self.store.get_many(keys)
        known = [i for i, key in enumerate(keys) if key in stored]
        missing = [i for i in range(len(texts)) if not keys or keys[i] not in stored]
        with TokenBar(sum(tokens), show=show) as bar:
            if known:
                yield known, [torch.from_numpy(stored[keys[i]]) for i in known]
                bar.skip(sum(tokens[i] for i in known))
                bar.update(sum(tokens[i] for i in known))
            # dealt out by length, so that parts cost about the same
            longest_first = sorted(missing, key=lambda i: -tokens[i])
            n_parts = min(_PARTS_PER_WORKER * len(self.workers.actors), len(missing))
            parts = [longest_first[first::n_parts] for first in range(n_parts)]
            done = self.workers.run([[texts[i] for i in part] for part in parts], settings)
            for number, arrays, truncation in done:
                part = parts[number]
                self.truncation.add(truncation)
                if self.store is not None and keys:
                    self.store.put_many([keys[i] for i in part], arrays)
                # copies: Ray's arrays are read-only, and keep its shared memory
                yield part, [torch.tensor(array) for array in arrays]
                bar.update(sum(tokens[i] for i in part))
        if self.store is not None:
            self.store.counts.add([tokens[i] for i in missing], [tokens[i] for i in known])
        warn_once(self.model, self.truncation, first.longest)


#: Workers by their model, with the cluster and what the model was when they started. They end when it is deleted.
_WORKERS: WeakKeyDictionary[BuiltModel, tuple[Cluster, Identity, Workers]] = WeakKeyDictionary()


def engine_for(
    model: BuiltModel,
    device: torch.device,
    settings: EncodeSettings,
    store: EmbeddingStore | None,
    cluster: Cluster | None,
) -> Engine | ClusterEngine:
    """The engine for the texts of one call: on a cluster if there is one, otherwise in this process.

    The workers of a cluster start at the first call, and again when the model or its cluster has changed.
    """
    if cluster is None:
        return Engine(model, device, settings, store)
    now = cluster, model.identity()
    if model not in _WORKERS or _WORKERS[model][:2] != now:
        _WORKERS.pop(model, None)  # the old workers end before new ones need their memory
        _WORKERS[model] = (*now, cluster.workers(model))
    return ClusterEngine(model, _WORKERS[model][-1], settings, store)
