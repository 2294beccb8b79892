"""All code that touches mteb's registries, caches and private names. It adds our tasks and models to mteb's own.

mteb has no interface for plugins, so this room relies on names inside mteb. If such a name has moved, `mteb_parts`
raises one sentence that says so. Lower rooms may not import this one.
"""

from __future__ import annotations

import importlib.util
import sys

from .mteb_parts import moved

#: Module of mteb -> the functions of this room that are called with it after it has run. They are imported then.
#: `autoload` watches exactly these modules, in this order.
_REGISTER = {
    "mteb.models.model_implementations": ("registries:register_models",),
    "mteb": (
        "registries:register_tasks",
        "results_on_disk:register_writers",
        "naming:register_names",
        "leaderboard.shown:register_summaries",
    ),
    "mteb.benchmarks.benchmarks": ("registries:register_benchmark",),
    "mteb.benchmarks._leaderboard_menu": ("leaderboard.shown:register_in_menu",),
    "mteb.leaderboard": ("leaderboard.shown:register_shown_models",),
    "mteb.cli": ("command_line:register_command",),
}


def after_import(name: str) -> None:
    """Register our parts for a module of mteb that has just been imported."""
    for place in _REGISTER[name]:
        module, _, register = place.partition(":")
        getattr(importlib.import_module(f".{module}", __name__), register)(sys.modules[name])
    for watched in _REGISTER if name == "mteb" else ():
        if importlib.util.find_spec(watched) is None:
            raise moved(watched)
