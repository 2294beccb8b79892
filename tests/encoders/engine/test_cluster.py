"""More than one machine: a Ray cluster of two nodes gives what one process gives, also when workers die."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mteb
import numpy as np
import pytest
import torch
from torch import Tensor

import mteb_longembed as longembed
from mteb_longembed.encoders.encoder import LongEncoder
from mteb_longembed.encoders.engine import cluster as cluster_module
from mteb_longembed.encoders.engine.cluster import WORKERS_VARIABLE, Cluster, ClusterEngine, Workers
from mteb_longembed.encoders.engine.settings import EncodeSettings
from mteb_longembed.encoders.store.store import STORE_VARIABLE, Counts, EmbeddingStore
from mteb_longembed.errors import CapacityError, InputError, NumberError
from tests import tiny
from tests.limits import same_vectors

SETTINGS = EncodeSettings()
LENGTHS = [5, 16, 17, 64, 100, 40, 33, 8] * 8
TEXTS = [tiny.text(n, seed) for seed, n in enumerate(LENGTHS)]


def test_the_environment_says_which_cluster() -> None:
    read = Cluster.from_environment
    assert read({}) is None and read({WORKERS_VARIABLE: ""}) is None
    assert read({WORKERS_VARIABLE: "ray"}) == Cluster()
    assert read({WORKERS_VARIABLE: "ray:3"}) == Cluster(count=3)
    assert read({WORKERS_VARIABLE: "ray://head:10001"}) == Cluster(address="ray://head:10001")
    for wrong in ("spark", "ray:0", "ray:x", "ray://", "2"):
        with pytest.raises(InputError, match="must be ray, ray:N or ray://HOST:PORT"):
            read({WORKERS_VARIABLE: wrong})


def test_without_ray_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install mteb-longembed\[ray\]"):
        Cluster().workers(None)


def test_cpu_workers_share_the_cores_of_their_machines() -> None:
    # Ray gives a worker as many threads as CPUs: one CPU each would leave the rest of a machine idle
    cpus = cluster_module.cpus_of_a_worker
    assert cpus([64, 64], count=2) == 64 and cpus([64, 64], count=4) == 32
    assert cpus([64, 16], count=2) == 16, "the smaller machine must hold its worker too"
    assert cpus([64], count=3) == 21 and cpus([2], count=5) == cpus([], count=1) == 1


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Three nodes, as three machines would be: two with one CPU each, and a head without any."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster as Nodes

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    sources = str(Path(__file__).parents[3])
    nodes = Nodes(initialize_head=True, head_node_args={"num_cpus": 0, "num_gpus": 0})
    for _ in range(2):
        nodes.add_node(num_cpus=1, num_gpus=0)
    # the workers read this checkout, as machines with the package installed would
    ray.init(address=nodes.address, log_to_driver=False, runtime_env={"env_vars": {"PYTHONPATH": sources}})
    yield
    ray.shutdown()
    nodes.shutdown()


@pytest.fixture(scope="module")
def model(base):
    return longembed.extend(base, "pi", 128)


@pytest.fixture(scope="module")
def workers(cluster: None, model) -> Iterator[Workers]:
    made = Cluster().workers(model)
    yield made
    end(made)


def end(workers: Workers) -> None:
    import ray

    for actor in workers.actors:
        ray.kill(actor)


def process_id(features: dict[str, Tensor]) -> list[Tensor]:
    """The worker that encodes, in place of what it encodes."""
    return [torch.tensor([os.getpid()], dtype=torch.float32)] * len(features["sentence_embedding"])


def processes(workers: Workers, model: Any) -> set[int]:
    ids = collected(ClusterEngine(model, workers, EncodeSettings(collect=process_id)))
    return set(ids[:, 0].astype(int).tolist())


def collected(engine: ClusterEngine, victim: int | None = None) -> np.ndarray:
    """All vectors. The process `victim` is killed after the first ones."""
    done: list[np.ndarray | None] = [None] * len(TEXTS)
    for indices, arrays in engine.encode(TEXTS, show=False):
        for index, array in zip(indices, arrays, strict=True):
            assert done[index] is None, "a document came twice"
            done[index] = array.numpy()
        if victim is not None:
            os.kill(victim, signal.SIGKILL)
            victim = None
    return np.stack(done)


@pytest.mark.ray
@pytest.mark.filterwarnings("error:.*not writable")
def test_two_workers_give_the_embeddings_of_one_process(workers, model) -> None:
    # the arrays of Ray are read-only: what the caller gets is a copy, without a warning of torch
    assert len(workers.actors) == 2
    engine = ClusterEngine(model, workers, SETTINGS)
    same_vectors(collected(engine), model.encode(TEXTS))
    assert engine.truncation == model.truncation


@pytest.mark.ray
def test_a_worker_killed_in_the_middle_loses_nothing(workers, model, tmp_path) -> None:
    store = EmbeddingStore(tmp_path)
    old_pids = processes(workers, model)
    done = collected(ClusterEngine(model, workers, SETTINGS, store), victim=min(old_pids))
    same_vectors(done, model.encode(TEXTS))
    assert store.counts.rows_encoded == len(TEXTS)
    # the next call has two living workers again, whether or not the dead one was met in this one
    engine = ClusterEngine(model, workers, SETTINGS)
    same_vectors(collected(engine), done)
    new_pids = processes(workers, model)
    assert len(old_pids) == len(new_pids) == 2 and old_pids & new_pids == old_pids - {min(old_pids)}


@pytest.mark.ray
def test_a_run_that_stopped_goes_on_from_the_store(workers, model, tmp_path) -> None:
    first = ClusterEngine(model, workers, SETTINGS, EmbeddingStore(tmp_path))
    run = first.encode(TEXTS, show=False)
    finished = sum(len(next(run)[0]) for _ in range(3))
    run.close()
    engine = ClusterEngine(model, workers, SETTINGS, EmbeddingStore(tmp_path))
    vectors = collected(engine)
    assert engine.store is not None and engine.store.counts.rows_read == finished > 0
    assert engine.store.counts.rows_encoded == len(TEXTS) - finished
    same_vectors(vectors, model.encode(TEXTS))
    # and one process reads what the cluster wrote
    model.store = EmbeddingStore(tmp_path)
    try:
        model.encode(TEXTS)
        assert model.store.counts == Counts(0, 0, len(TEXTS), sum(LENGTHS))
    finally:
        model.store = None


def dies(features: dict[str, Tensor]) -> list[Tensor]:
    """What a document that is too large does to its worker."""
    os.kill(os.getpid(), signal.SIGKILL)
    return []


def never_finite(features: dict[str, Tensor]) -> list[Tensor]:
    return list(features["sentence_embedding"] * torch.nan)


@pytest.mark.ray
def test_a_part_that_kills_every_worker_ends_the_run_in_one_sentence(workers, model) -> None:
    with pytest.raises(CapacityError, match="3 Ray workers died while they encoded the same"):
        list(ClusterEngine(model, workers, EncodeSettings(collect=dies)).encode(TEXTS[:1], show=False))


@pytest.mark.ray
def test_an_error_of_a_worker_is_the_one_that_one_process_raises(workers, model) -> None:
    engine = ClusterEngine(model, workers, EncodeSettings(collect=never_finite))
    with pytest.raises(NumberError, match="is not finite"):
        list(engine.encode(TEXTS[:1], show=False))


@pytest.mark.ray
def test_an_evaluation_of_which_a_worker_dies_has_the_scores_of_one_process(workers, tmp_path, monkeypatch):
    end(workers)  # the model of the evaluation has workers of its own, which need the CPUs

    monkeypatch.setenv(STORE_VARIABLE, "0")
    original, killed = Workers.run, []

    def run_and_kill(self: Workers, *args: Any) -> Iterator[Any]:
        for result in original(self, *args):
            if not killed:
                pids = [
                    arrays[0][0]
                    for _, arrays, _ in original(self, [["a"]], EncodeSettings(collect=process_id))
                ]
                killed.append(int(pids[0]))
                os.kill(killed[0], signal.SIGKILL)
            yield result

    monkeypatch.setattr(Workers, "run", run_and_kill)
    scores = []
    for spelled in ("", "ray"):
        monkeypatch.setenv(WORKERS_VARIABLE, spelled)
        encoder = LongEncoder(longembed.load("mini-rope+se@1k"))
        assert (encoder.model.cluster is None) == (spelled == "")
        (task,) = mteb.get_tasks(["LongEmbedPasskey"], eval_splits=["test_256"])
        cache = mteb.ResultCache(tmp_path / (spelled or "alone"))
        result = mteb.evaluate(encoder, [task], cache=cache, show_progress_bar=False)
        scores.append(result.task_results[0].scores["test_256"][0])
    assert killed, "no worker died"
    numbers = {name: value for name, value in scores[0].items() if isinstance(value, float)}
    assert "main_score" in numbers
    for name, value in numbers.items():
        assert scores[1][name] == pytest.approx(value, abs=1e-6, nan_ok=True), name


@pytest.mark.parametrize(("resources", "kind"), [({"GPU": 2.0, "CPU": 8.0}, "GPU"), ({"CPU": 2.0}, "CPU")])
def test_more_workers_than_devices_are_refused_and_do_not_wait_without_end(monkeypatch, resources, kind):
    nodes = [{"Alive": True, "Resources": resources}]
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: True, nodes=lambda: nodes))
    with pytest.raises(InputError, match=rf"3 workers with a {kind} each, .* has 2 {kind}s: use ray:2"):
        Cluster(count=3).workers(None)


def test_workers_start_again_when_the_model_or_its_cluster_has_changed(monkeypatch, base):
    started = []
    monkeypatch.setattr(
        Cluster, "workers", lambda cluster, model: started.append(cluster) or SimpleNamespace()
    )
    model = longembed.extend(base, "pi", 64)
    model.cluster = Cluster(count=1)

    def n_started() -> int:
        cluster_module.engine_for(model, model.device, SETTINGS, None, model.cluster)
        return len(started)

    assert (n_started(), n_started()) == (1, 1)
    with torch.no_grad():
        next(model.parameters()).mul_(1.1)
    assert n_started() == 2
    model.cluster = Cluster(count=2)
    assert n_started() == 3 and started[-1].count == 2


def test_a_worker_measures_memory_without_gradients(monkeypatch, base):
    modes = []

    class Seen(cluster_module.Engine):
        def __init__(self, *args, **kwargs):
            modes.append(torch.is_inference_mode_enabled())
            super().__init__(*args, **kwargs)

    monkeypatch.setattr(cluster_module, "Engine", Seen)
    arrays, _ = cluster_module._Worker(longembed.extend(base, "pi", 64)).encode([tiny.text(5)], SETTINGS)
    assert modes == [True] and arrays[0].shape == (24,)
