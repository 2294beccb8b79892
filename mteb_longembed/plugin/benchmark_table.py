"""mteb's table of a benchmark shows extended models too.

It shows only results whose model is an entry of mteb's registry. That registry cannot list extended models, because
their entries are made when they are looked up.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from typing import Any

from mteb_longembed.names.grammar import is_extended_name
from mteb_longembed.plugin.mteb_parts import part

#: The ending of the revisions of extended models, also of models with their own repository.
_OURS = re.compile(r".*-le[0-9]+")


def list_ours(summarise: Callable[[Any], Any], results: Any) -> Any:
    """`BenchmarkResults.get_benchmark_result`, whose table then has a row for each model of ours.

    mteb joins results with its registry, which it reads once in a process. So our models enter it for this table only.
    """
    registry = part("mteb.models.model_implementations", "MODEL_REGISTRY")
    known = {
        result.model_name: result.model_meta or registry.get(result.model_name)
        for result in results.model_results
        if is_extended_name(result.model_name) or _OURS.fullmatch(str(result.model_revision))
    }
    ours = {name: meta for name, meta in known.items() if meta and not dict.__contains__(registry, name)}
    for name, meta in ours.items():
        if meta.training_datasets is not None:  # a list if it comes from a file
            ours[name] = meta.model_copy(update={"training_datasets": set(meta.training_datasets)})
    _forget_models()
    registry.update(ours)
    try:
        return summarise(results)
    finally:
        for name in ours:
            del registry[name]
        _forget_models()


def _forget_models() -> None:
    """Make mteb read its registry again for its next table."""
    importlib.import_module("mteb.benchmarks._create_table")
    for cached in ("_static_model_meta", "_meta_df_no_zs", "_meta_df_with_zs"):
        part("mteb.benchmarks._create_table", cached).cache_clear()
