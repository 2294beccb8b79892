"""Several processes or machines encode the texts of one call. Each worker has a copy of the model.

The workers are those of a pool of sentence-transformers, or of a Ray cluster. Only the driver reads and writes the
store of embeddings, so a run that was killed can continue on other machines.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import os
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from mteb_longembed.encoders.store.keys import row_keys
from mteb_longembed.encoders.store.store import EmbeddingStore
from mteb_longembed.errors import CapacityError, InputError

from .batching import PARTS_PER_WORKER, Budget, estimated_tokens, split_by_cost
from .engine import DEFAULT_BATCH, Engine
from .reading import Reading, TokenBar, warn_once
from .tokenizing import Ids

if TYPE_CHECKING:
    from mteb_longembed.encoders.building import LongModel

logger = logging.getLogger(__name__)

#: `ray` (the cluster of RAY_ADDRESS, otherwise one on this machine), `ray:N` (with N workers), or `ray://HOST:PORT`.
WORKERS_VARIABLE = "MTEB_LONGEMBED_WORKERS"
#: A part may kill so many workers before the run ends. A part that needs too much memory kills every worker.
_DEATHS = 3
_SPELLED = re.compile(r"ray(:(?P<count>[1-9][0-9]{0,4})|://(?P<place>\S+))?")


@dataclass(frozen=True)
class Cluster:
    """Which workers to use: an address in Ray's form (None: RAY_ADDRESS, or a new cluster here) and their number.

    None stands for one worker for each GPU, or for each machine if there are no GPUs.
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
        return cls(text if match["place"] else None, int(count) if count else None)

    def workers(self, model: Any) -> Workers:
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
        if self.count and 0 < gpus < self.count:
            raise InputError(
                f"{WORKERS_VARIABLE}=ray:{self.count} asks for {self.count} workers with a GPU each, but the cluster "
                f"has {gpus} GPUs: use ray:{gpus}, or ray for all of them."
            )
        count = self.count or gpus or max(len(cpus), 1)
        return Workers(model, count, on_gpu=gpus > 0, cpus=cpus_of_a_worker(cpus, count))


def cpus_of_a_worker(cpus: Sequence[int], count: int) -> int:
    """CPUs (and threads) of each worker where there are no GPUs: as many as fit on the smallest machine."""
    if not cpus:
        return 1
    on_one = -(-count // len(cpus))
    return max(min(cpus) // on_one, 1)


class _Worker:
    """The code that runs in a worker's process."""

    def __init__(self, model: Any) -> None:
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = model.to(self.device).eval()

    def pid(self) -> int:
        """The id of the worker's process on its machine."""
        return os.getpid()

    def kind(self) -> str:
        """The kind of device that it computes on. Rounding depends on it."""
        return self.device.type

    def encode(self, texts: list[str], settings: dict[str, Any]) -> tuple[list[np.ndarray], Reading]:
        """Each text's array, and how much of the texts was read."""
        done: list[Any] = [None] * len(texts)
        with torch.inference_mode():  # also while the engine measures memory
            engine = Engine(self.model, self.device, **{**settings, "to_host": True})
            for places, arrays in engine.encode(texts, show=False):
                for place, array in zip(places, arrays, strict=True):
                    done[place] = array.float().numpy()
        return done, engine.reading


class Workers:
    """Ray actors with a copy of a model, as it is when they start. They end with this object."""

    def __init__(self, model: Any, count: int, *, on_gpu: bool, cpus: int = 1) -> None:
        import ray

        shared = copy.copy(model)
        shared.store = shared.cluster = None
        device = model.device
        # a GPU's tensors cannot be read on a machine without one
        self._shipped = ray.put(shared.to("cpu"))
        model.to(device)
        resources = {"num_gpus": 1, "num_cpus": 0} if on_gpu else {"num_cpus": cpus}
        self._kind = ray.remote(_Worker).options(scheduling_strategy="SPREAD", **resources)
        self.actors: list[Any] = [self._kind.remote(self._shipped) for _ in range(count)]
        self.device = torch.device(ray.get(self.actors[0].kind.remote()))
        logger.debug("%d Ray workers on %s", count, self.device.type)

    def run(
        self, parts: Sequence[list[str]], settings: dict[str, Any]
    ) -> Iterator[tuple[int, list[np.ndarray], Reading]]:
        """The arrays of each part and its number, in the order in which they finish. A lost part runs again."""
        import ray

        waiting = deque(range(len(parts)))
        deaths = [0] * len(parts)
        running: dict[Any, tuple[int, Any]] = {}
        idle = list(self.actors)
        while waiting or running:
            while waiting and idle:
                actor, number = idle.pop(), waiting.popleft()
                running[actor.encode.remote(parts[number], settings)] = number, actor
            done, _ = ray.wait(list(running), num_returns=1)
            number, actor = running.pop(done[0])
            try:
                arrays, reading = ray.get(done[0])
                idle.append(actor)
            except ray.exceptions.RayTaskError as error:
                raise error.cause from None
            except ray.exceptions.RayError as error:
                # the worker or its machine has died: a new worker starts, and the part goes to the next free worker
                ray.kill(actor)
                place = self.actors.index(actor)
                self.actors[place] = self._kind.remote(self._shipped)
                idle.append(self.actors[place])
                deaths[number] += 1
                if deaths[number] >= _DEATHS:
                    longest = max(map(len, parts[number]))
                    raise CapacityError(
                        f"{deaths[number]} Ray workers died while they encoded the same {len(parts[number])} "
                        f"documents (the longest has {longest:,} characters), last error: {type(error).__name__}; use "
                        "a shorter target length, a smaller batch_size or workers with more memory; with a store, the "
                        "documents finished before are kept."
                    ) from None
                logger.warning("a Ray worker died (%s); its part runs again.", type(error).__name__)
                waiting.appendleft(number)
                continue
            yield number, arrays, reading

    def close(self) -> None:
        """End the workers."""
        import ray

        for actor in self.actors:
            ray.kill(actor)


class ClusterEngine:
    """One call of `encode` on a cluster. It works as `Engine`, with the texts in parts of equal cost in tokens."""

    def __init__(
        self, model: LongModel, workers: Workers, *, store: EmbeddingStore | None = None, **settings: Any
    ) -> None:
        self.model = model
        self.workers = workers
        self.store = store
        #: Arguments of the engines of the workers.
        self.settings: dict[str, Any] = {
            "prompt": None, "batch_size": DEFAULT_BATCH, "kwargs": {}, "form": "sentence_embedding", **settings
        }  # fmt: skip
        self.reading = Reading()
        form, kwargs = self.settings["form"], self.settings["kwargs"]
        self.row_keys = None if store is None else row_keys(model, workers.device, form, kwargs)

    def encode(self, texts: list[str], *, show: bool) -> Iterator[tuple[list[int], list[Tensor]]]:
        """Encode as `Engine.encode`: the indices of some texts, and the array of each, on the host."""
        first = self.model.first
        tokens = [estimated_tokens(text, first.longest) for text in texts]
        keys: list[bytes] = []
        if self.row_keys is not None:
            prompt, kwargs = self.settings["prompt"], self.settings["kwargs"]
            keys = self.row_keys.keys(cast("list[Ids]", first.token_ids(texts, prompt, **kwargs)), prompt)
        found = self.store.get_many(keys) if self.store is not None and keys else {}
        known = [i for i, key in enumerate(keys) if key in found]
        missing = [i for i in range(len(texts)) if not keys or keys[i] not in found]
        with TokenBar(sum(tokens), show=show) as bar:
            if known:
                yield known, [torch.from_numpy(found[keys[i]]) for i in known]
                bar.update(sum(tokens[i] for i in known))
            budget = Budget.of(first, self.workers.device.type, self.settings["batch_size"])
            costs = [budget.cost(tokens[i]) for i in missing]
            parts = split_by_cost(costs, PARTS_PER_WORKER * len(self.workers.actors))
            places = [[missing[i] for i in part] for part in parts]
            done = self.workers.run([[texts[i] for i in own] for own in places], self.settings)
            for number, arrays, reading in done:
                own = places[number]
                self.reading.add(reading)
                if self.store is not None and keys:
                    self.store.put_many([keys[i] for i in own], arrays)
                # copies: Ray's arrays are read-only, and keep its shared memory
                yield own, [torch.tensor(array) for array in arrays]
                bar.update(sum(tokens[i] for i in own))
        if self.store is not None:
            self.store.counts.add([tokens[i] for i in missing], [tokens[i] for i in known])
        warn_once(self.model, self.reading, first.longest)


#: Workers by their model. They end when the model is deleted.
_WORKERS: WeakKeyDictionary[Any, Workers] = WeakKeyDictionary()


def workers_of(model: Any) -> Workers:
    """The workers that a model's `cluster` gives. They start at the first call."""
    if model not in _WORKERS:
        _WORKERS[model] = model.cluster.workers(model)
    return _WORKERS[model]


# ---- pools of sentence-transformers ------------------------------------------------------------------------

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
    budget = Budget.of(model.first, "cpu", kwargs["batch_size"])
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
            bar.update(sum(tokens[i] for i in parts[number]))
            for i, value in zip(parts[number], output, strict=True):
                results[i] = value
    if failure is not None:
        raise failure
    return results
