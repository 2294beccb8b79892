"""mteb's own leaderboard application, without a network. It needs the extra `leaderboard`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import mteb.leaderboard.app
from mteb.benchmarks.benchmark import Benchmark
from mteb.cache import ResultCache
from mteb.leaderboard import benchmark_selector
from mteb.models.model_implementations import MODEL_REGISTRY
from mteb.results import BenchmarkResults, ModelResult

from mteb_longembed.names import name_of

from . import replace as put_in_place

if TYPE_CHECKING:
    from gradio import Blocks


def make_app(results: BenchmarkResults, benchmarks: list[Benchmark], first: str) -> Blocks:
    """Build mteb's application (gradio Blocks) with these benchmarks and all models. `first`, shown first, has results.

    mteb's registry and menu are changed for the rest of the process.
    """
    for result in results.model_results:
        _enter(result)
    app = mteb.leaderboard.app
    menu = vars(app)["MenuEntry"](", ".join(one.name for one in benchmarks), benchmarks)
    vars(benchmark_selector).update(DEFAULT_BENCHMARK_NAME=first)
    vars(app).update(DEFAULT_BENCHMARK_NAME=first, GP_BENCHMARK_ENTRIES=[menu], R_BENCHMARK_ENTRIES=[])
    put_in_place(Benchmark, "_create_summary_table", _plain)
    put_in_place(Benchmark, "_create_per_task_table", _plain)
    tasks = [task for benchmark in benchmarks for task in benchmark.tasks]
    with tempfile.TemporaryDirectory() as temporary:
        cache = ResultCache(temporary)
        results.save_leaderboard_cache({"": results._to_results_df(tasks)}, cache.leaderboard_parquet_path)
        # without a repository name, mteb reads this file instead of the hub
        return app.get_leaderboard_app(cache, cache_repo_id="")


def _enter(result: ModelResult) -> None:
    """Add a model to mteb's registry, since its tables have no others: an experiment by its full name."""
    meta = result.model_meta
    if meta is not None:
        result.model_name = name_of(result.model_name, meta.experiment_kwargs)
        result.experiment_name = None
        data = meta.training_datasets and set(meta.training_datasets)  # a file has a list
        fields = {"name": result.model_name, "experiment_kwargs": None, "training_datasets": data}
        result.model_meta = meta.model_copy(update=fields)
        MODEL_REGISTRY.setdefault(result.model_name, result.model_meta)


def _plain(make: Callable[..., Any], *args: object) -> Any:
    """Return a table without mteb's internal columns and scores by length, which its application does not support."""
    table = make(*args)
    if hasattr(table, "df"):
        return replace(table, df=table.df.select(r"^[^_].*$"), custom_group_cols={})
    return table.select(r"^[^_].*$")
