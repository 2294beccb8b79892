"""Our tasks and our benchmark in mteb's registries."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from .mteb_parts import part, rebind


def register_tasks(mteb: ModuleType) -> None:
    """Add our tasks to those that `mteb.get_task` and `mteb.get_tasks` find. mteb's own tasks stay."""
    # not imported from .tasks, which may itself be importing mteb at this moment
    from mteb_longembed.tasks.generated.variants import TaskRegistry
    from mteb_longembed.tasks.quick import QUICK_TASKS, TASKS

    registry, listed = part("mteb.get_tasks", "_TASKS_REGISTRY"), part("mteb.get_tasks", "TASK_LIST")
    known: tuple[Any, ...] = (*TASKS, *QUICK_TASKS)
    new = tuple(task for task in known if task.metadata.name not in registry)
    ours = {task.metadata.name: task for task in new}
    if isinstance(registry, TaskRegistry):
        registry.update(ours)
    else:
        rebind("_TASKS_REGISTRY", registry, TaskRegistry(registry | ours))
    rebind("TASK_LIST", listed, (*listed, *new))


def register_benchmark(benchmarks: ModuleType) -> None:
    """Add our benchmarks as attributes of mteb's module, because `mteb.get_benchmark` looks there."""
    from mteb_longembed.tasks.benchmark import make_benchmark, make_quick_benchmark, make_wider_benchmark

    benchmarks.LONGEMBED_PLUS = make_benchmark()  # type: ignore[attr-defined]
    benchmarks.LONGEMBED_QUICK = make_quick_benchmark()  # type: ignore[attr-defined]
    benchmarks.LONGEMBED_PLUS_PLUS = make_wider_benchmark()  # type: ignore[attr-defined]
    for cache in ("_build_registry", "_build_aliases_registry"):
        part("mteb.benchmarks.get_benchmark", cache).cache_clear()
