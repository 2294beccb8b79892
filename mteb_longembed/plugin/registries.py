"""Our tasks and benchmark in mteb's registries."""

from types import ModuleType

from .mteb_parts import part, rebind


def register_tasks(mteb: ModuleType) -> None:
    """Add our tasks to those that `mteb.get_task` and `mteb.get_tasks` find. mteb's own tasks stay."""
    # not imported from .tasks, which may itself be importing mteb at this moment
    from mteb_longembed.tasks.generated.variants import TaskRegistry
    from mteb_longembed.tasks.registry import TASKS

    registry = part("mteb.get_tasks", "_TASKS_REGISTRY")
    listed = part("mteb.get_tasks", "TASK_LIST")
    if isinstance(registry, TaskRegistry):
        return
    ours = {task.metadata.name: task for task in TASKS if task.metadata.name not in registry}
    rebind("_TASKS_REGISTRY", registry, TaskRegistry(registry | ours))
    rebind("TASK_LIST", listed, (*listed, *ours.values()))


def register_benchmark(benchmarks: ModuleType, *, by_length: bool = False) -> None:
    """Add our benchmark as an attribute of mteb's module, because `mteb.get_benchmark` looks there."""
    from mteb_longembed.tasks.benchmark import make_benchmark

    benchmarks.LONGEMBED_PLUS = make_benchmark(by_length=by_length)  # type: ignore[attr-defined]
    for cache in ("_build_registry", "_build_aliases_registry"):
        part("mteb.benchmarks.get_benchmark", cache).cache_clear()
