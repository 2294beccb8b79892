"""Makes mteb's leaderboard and `get_benchmark_result` show extended models.

Both show only results whose model is an entry of mteb's registry. That registry cannot list extended models, because
their entries are made when they are looked up.
"""

from __future__ import annotations

import functools
import importlib
import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mteb.models.model_meta import ModelMeta

from mteb_longembed.names.grammar import is_extended_name
from mteb_longembed.plugin.metadata import load_named
from mteb_longembed.plugin.mteb_parts import part

#: The ending of the revisions of extended models, also of models with their own repository.
_OURS = re.compile(r".*-le[0-9]+")


def register_models(cache: Path) -> None:
    """Enter the models of a results cache into mteb's registry. Warn about a file that describes no model.

    The description is the one that was written with the results, so nothing is read from the hub. mteb's own entries
    stay. Only extended models have a loader.
    """
    registry = part("mteb.models.model_implementations", "MODEL_REGISTRY")
    entries_of_mteb = set(registry)
    # if a name has several revisions, the newest description is used
    for file in sorted(cache.glob("results/*/*/model_meta.json"), key=lambda file: file.stat().st_mtime):
        try:
            fields = {**json.loads(file.read_bytes())}
            name = fields["name"]
            if not isinstance(name, str):
                raise TypeError(f"the name {name!r}")
            if name in entries_of_mteb:
                continue
            fields.pop("is_cross_encoder", None)  # derived: mteb writes it, but warns when it reads it
            ours = is_extended_name(name) or _OURS.fullmatch(file.parts[-2])
            loader = functools.partial(load_named, name) if ours else None
            registry[name] = ModelMeta.model_validate({**fields, "loader": loader, "loader_kwargs": {}})
        except (OSError, ValueError, TypeError, KeyError) as error:
            reason = str(error).partition("\n")[0]
            warnings.warn(
                f"{file} must describe a model as mteb writes it, got {type(error).__name__}: {reason}; "
                "the leaderboard leaves that model out.",
                stacklevel=2,
            )


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
