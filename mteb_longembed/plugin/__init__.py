"""Replace mteb's registries and look-ups, so that mteb finds our tasks, benchmarks and models beside its own.

mteb has no interface for plugins (docs/upstream.md proposes one). Lower layers may not import this one.
"""

import functools
import sys
from collections.abc import Callable
from importlib import metadata
from types import ModuleType

from mteb_longembed.errors import LongEmbedError


def register() -> None:
    """Register our tasks, benchmarks and models with mteb, which has just been imported. A second call does nothing.

    Raises:
        LongEmbedError: if mteb lacks a name that we need.
    """
    from . import replacements as ours

    try:
        import mteb.cli

        from mteb_longembed.tasks.benchmark import all_benchmarks

        _register_tasks()
        meta = sys.modules["mteb.models.model_meta"].ModelMeta
        replace(meta, "from_sentence_transformer_model", ours.describe_loaded)
        replace(meta, "from_multi_vector_encoder_model", ours.describe_loaded)
        replace(meta, "from_sparse_encoder_model", ours.describe_loaded)
        # mteb has functions of the same names as these modules
        replace(sys.modules["mteb.models.get_model_meta"], "get_model_meta", ours.find_model)
        replace(sys.modules["mteb.models.get_model_meta"], "get_model_metas", ours.find_models)
        replace(sys.modules["mteb.benchmarks.get_benchmark"], "_build_registry", all_benchmarks)
        replace(mteb.cli, "main", ours.main_in_one_sentence)
    except (AttributeError, ImportError, KeyError) as error:
        raise LongEmbedError(
            f"mteb {metadata.version('mteb')} lacks what mteb-longembed {metadata.version('mteb-longembed')} needs to "
            f"register ({error}): install another version of one of the two."
        ) from error


def _register_tasks() -> None:
    # not imported from .tasks, which may itself be importing mteb at this moment
    from mteb_longembed.tasks.generated.variants import TaskRegistry
    from mteb_longembed.tasks.registry import TASKS

    module = sys.modules["mteb.get_tasks"]
    known, listed = module._TASKS_REGISTRY, module.TASK_LIST
    if not isinstance(known, TaskRegistry):
        ours = {task.metadata.name: task for task in TASKS if task.metadata.name not in known}
        _rebind("_TASKS_REGISTRY", known, TaskRegistry(known | ours))
        _rebind("TASK_LIST", listed, (*listed, *ours.values()))


def replace(owner: type | ModuleType, name: str, ours: Callable[..., object]) -> None:
    """Replace a method, or a function in every module that has imported it, by `ours`.

    `ours` is called with mteb's function and then its arguments. A second call does nothing.
    """
    known = getattr(owner, name)
    theirs = getattr(known, "__func__", known)
    if hasattr(theirs, "before_longembed"):
        return

    @functools.wraps(theirs)
    def changed(*args: object, **kwargs: object) -> object:
        return ours(theirs, *args, **kwargs)

    changed.before_longembed = theirs  # type: ignore[attr-defined]
    if isinstance(owner, ModuleType):
        _rebind(name, known, changed)
    else:
        setattr(owner, name, changed if theirs is known else classmethod(changed))


def _rebind(name: str, old: object, new: object) -> None:
    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get(name) is old:
            setattr(module, name, new)
