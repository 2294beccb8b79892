"""All code that touches mteb's registries, caches and private names. It adds our tasks and models to mteb's own.

mteb has no interface for plugins, so this room relies on names inside mteb. If such a name has moved, `mteb_parts`
raises one sentence that says so. Lower rooms may not import this one.
"""

import importlib.util
import sys
from collections.abc import Callable

from .mteb_parts import change, change_function, moved, part

#: Module of mteb -> what is done after it has run. `autoload` watches exactly these modules, in this order.
#: A function of this room is called with the module. A pair names a function or method of mteb's, and ours that is
#: called in its place. Ours are imported only then.
_REGISTER: dict[str, tuple[str | tuple[str, str], ...]] = {
    "mteb": (
        "registries:register_tasks",
        ("mteb.models.model_meta:ModelMeta.from_sentence_transformer_model", "replacements:describe_loaded"),
        ("mteb.models.model_meta:ModelMeta.from_multi_vector_encoder_model", "replacements:describe_loaded"),
        ("mteb.models.get_model_meta:get_model_meta", "replacements:find_model"),
    ),
    "mteb.benchmarks.benchmarks": ("registries:register_benchmark",),
    "mteb.cli": (
        ("mteb.cli:main", "replacements:main_in_one_sentence"),
        ("mteb.cli.build_cli:run", "replacements:run_and_say"),
    ),
}


def after_import(name: str) -> None:
    """Register our parts for a module of mteb that has just been imported."""
    for entry in _REGISTER[name]:
        if isinstance(entry, str):
            _ours(entry)(sys.modules[name])
            continue
        theirs, ours = entry
        module, _, changed = theirs.partition(":")
        owner, _, function = changed.rpartition(".")
        if owner:
            change(part(module, owner), function, _ours(ours))
        else:
            change_function(module, function, _ours(ours))
    for watched in _REGISTER if name == "mteb" else ():
        if importlib.util.find_spec(watched) is None:
            raise moved(watched)


def _ours(name: str) -> Callable[..., object]:
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(f".{module}", __name__), function)
