"""All code that touches mteb's registries, caches and private names. It adds our tasks and models to mteb's own.

mteb has no interface for plugins, so this room relies on names inside mteb. If such a name has moved, `mteb_parts`
raises one sentence that says so. Lower rooms may not import this one.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType

from .mteb_parts import moved


def after_import(name: str) -> None:
    """Register our parts for a module of mteb that has just been imported.

    Raises:
        LongEmbedError: if mteb no longer has a name that we rely on.
    """
    for register in _REGISTER[name]():
        register(sys.modules[name])


Register = Callable[[ModuleType], None]


def _models() -> tuple[Register, ...]:
    from .models import register_models

    return (register_models,)


def _tasks_and_writers() -> tuple[Register, ...]:
    from .leaderboard.shown import register_summaries
    from .naming import register_names
    from .results_on_disk import register_writers
    from .tasks import register_tasks

    return (register_tasks, register_writers, register_names, register_summaries, _check_watched)


def _benchmark() -> tuple[Register, ...]:
    from .tasks import register_benchmark

    return (register_benchmark,)


def _menu() -> tuple[Register, ...]:
    from .leaderboard.shown import register_in_menu

    return (register_in_menu,)


def _shown_models() -> tuple[Register, ...]:
    from .leaderboard.shown import register_shown_models

    return (register_shown_models,)


def _command() -> tuple[Register, ...]:
    from .command_line import register_command

    return (register_command,)


def _check_watched(mteb: ModuleType) -> None:
    for name in _REGISTER:
        if importlib.util.find_spec(name) is None:
            raise moved(name)


#: Module of mteb -> what is registered after it has run. `autoload` watches exactly these modules, in this order.
_REGISTER: dict[str, Callable[[], tuple[Register, ...]]] = {
    "mteb.models.model_implementations": _models,
    "mteb": _tasks_and_writers,
    "mteb.benchmarks.benchmarks": _benchmark,
    "mteb.benchmarks._leaderboard_menu": _menu,
    "mteb.leaderboard": _shown_models,
    "mteb.cli": _command,
}
