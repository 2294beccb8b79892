"""All code that touches mteb's registries and private names. It adds our tasks and models to mteb's own.

mteb has no interface for plugins (docs/upstream.md proposes one). If a name that we rely on has moved, one sentence
says so. Lower rooms may not import this one.
"""

import functools
import importlib.util
import sys
from collections.abc import Callable
from importlib import metadata
from types import ModuleType
from typing import Any

from mteb_longembed.errors import LongEmbedError


def after_import(name: str) -> None:
    """Register our parts for a module of mteb that has just been imported, one of those that `autoload` watches."""
    from . import replacements as ours

    if name == "mteb":
        _register_tasks()
        meta = part("mteb.models.model_meta", "ModelMeta")
        replace(meta, "from_sentence_transformer_model", ours.describe_loaded)
        replace(meta, "from_multi_vector_encoder_model", ours.describe_loaded)
        replace(sys.modules["mteb.models.get_model_meta"], "get_model_meta", ours.find_model)
        for watched in ("mteb.benchmarks.benchmarks", "mteb.cli"):
            if importlib.util.find_spec(watched) is None:
                raise _moved(watched)
    elif name == "mteb.cli":
        replace(sys.modules[name], "main", ours.main_in_one_sentence)
    else:
        from mteb_longembed.tasks.benchmark import make_benchmark

        # `mteb.get_benchmark` looks for attributes of this module
        sys.modules[name].LONGEMBED_PLUS = make_benchmark()  # type: ignore[attr-defined]
        for cache in ("_build_registry", "_build_aliases_registry"):
            part("mteb.benchmarks.get_benchmark", cache).cache_clear()


def _register_tasks() -> None:
    # not imported from .tasks, which may itself be importing mteb at this moment
    from mteb_longembed.tasks.generated.variants import TaskRegistry
    from mteb_longembed.tasks.registry import TASKS

    known = part("mteb.get_tasks", "_TASKS_REGISTRY")
    listed = part("mteb.get_tasks", "TASK_LIST")
    if not isinstance(known, TaskRegistry):
        ours = {task.metadata.name: task for task in TASKS if task.metadata.name not in known}
        _rebind("_TASKS_REGISTRY", known, TaskRegistry(known | ours))
        _rebind("TASK_LIST", listed, (*listed, *ours.values()))


def part(module: str, name: str) -> Any:
    """An object inside a module of mteb. The module is found even if a function of mteb has the same name."""
    try:
        return getattr(sys.modules[module], name)
    except (AttributeError, KeyError):
        raise _moved(f"{module}.{name}") from None


def replace(owner: type | ModuleType, name: str, ours: Callable[..., object]) -> None:
    """Let `ours` be called in place of a method, or of a function in every module that has imported it.

    It gets mteb's function, and then what that was called with. A second time nothing happens.
    """
    known = getattr(owner, name, None)
    if known is None:
        raise _moved(f"{owner.__name__}.{name}")
    theirs = getattr(known, "__func__", known)
    if hasattr(theirs, "__wrapped__"):
        return

    @functools.wraps(theirs)
    def changed(*args: object, **kwargs: object) -> object:
        return ours(theirs, *args, **kwargs)

    if isinstance(owner, ModuleType):
        _rebind(name, known, changed)
    else:
        setattr(owner, name, changed if theirs is known else classmethod(changed))


def _rebind(name: str, old: object, new: object) -> None:
    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get(name) is old:
            setattr(module, name, new)


def _moved(name: str) -> LongEmbedError:
    return LongEmbedError(
        f"mteb {metadata.version('mteb')} has no {name}, which mteb-longembed {metadata.version('mteb-longembed')} "
        "needs to register: install another version of one of the two."
    )
