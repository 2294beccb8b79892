"""mteb's own leaderboard application, for a folder of results and without a network."""

import importlib
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mteb
from mteb.benchmarks.benchmark import Benchmark
from mteb.cache import ResultCache
from mteb.models.model_implementations import MODEL_REGISTRY
from mteb.results import ModelResult

from mteb_longembed.errors import InputError, LongEmbedError
from mteb_longembed.names import name_of

from . import replace as put_in_place

#: Ours, and mteb's own with the published data.
BENCHMARKS = ("LongEmbed+", "NanoLongEmbed", "LongEmbed")


def make_app(folder: Path) -> Any:
    """mteb's application (a gradio Blocks) with these benchmarks, and with all models of a folder of results.

    mteb's registry and menu are changed for the rest of the process.

    Raises:
        InputError: if the folder has no results of these benchmarks.
        LongEmbedError: if the extra is not installed, or mteb has moved a name.
    """
    benchmarks = mteb.get_benchmarks([*BENCHMARKS])
    tasks = [task for benchmark in benchmarks for task in benchmark.tasks]
    try:
        results = ResultCache(folder).load_results(tasks=tasks, load_experiments="match_name")
    except ValueError as error:  # half a file, or fields of other types
        raise InputError(
            f"mteb cannot read all results in {folder}: mteb-longembed report {folder} names the file."
        ) from error
    done = {result.task_name for model in results.model_results for result in model.task_results}
    filled = [one.name for one in benchmarks if done & {task.metadata.name for task in one.tasks}]
    if not filled:
        raise InputError(
            f"no results of LongEmbed tasks were found in {folder}: give the --output-folder of `mteb run`."
        )
    try:
        app: Any = importlib.import_module("mteb.leaderboard.app")
    except ModuleNotFoundError as error:
        raise LongEmbedError(
            f"the leaderboard needs {error.name}: pip install 'mteb-longembed[leaderboard]'."
        ) from error
    for result in results.model_results:
        _enter(result)
    put_in_place(Benchmark, "_create_summary_table", _plain)
    put_in_place(Benchmark, "_create_per_task_table", _plain)
    # mteb's application fails where the benchmark that it begins with has no results
    app.DEFAULT_BENCHMARK_NAME = filled[0]
    sys.modules["mteb.leaderboard.benchmark_selector"].DEFAULT_BENCHMARK_NAME = filled[0]  # type: ignore[attr-defined]
    app.GP_BENCHMARK_ENTRIES = [app.MenuEntry(", ".join(BENCHMARKS), benchmarks)]
    app.R_BENCHMARK_ENTRIES = []
    with tempfile.TemporaryDirectory() as temporary:
        cache = ResultCache(temporary)
        results.save_leaderboard_cache({"": results._to_results_df(tasks)}, cache.leaderboard_parquet_path)
        # without the name of a repository, mteb reads this file and not the hub
        return app.get_leaderboard_app(cache, cache_repo_id="")


def _enter(result: ModelResult) -> None:
    """Enter a model into mteb's registry, because its tables have no others: an experiment by its whole name."""
    meta = result.model_meta
    if meta is None:
        return
    result.model_name = name_of(result.model_name, meta.experiment_kwargs)
    result.experiment_name = None
    fields: dict[str, Any] = {"name": result.model_name, "experiment_kwargs": None}
    if meta.training_datasets is not None:
        fields["training_datasets"] = set(meta.training_datasets)  # a file has a list
    result.model_meta = meta.model_copy(update=fields)
    MODEL_REGISTRY.setdefault(result.model_name, result.model_meta)


def _plain(make: Callable[..., Any], *args: object) -> Any:
    """A table without mteb's inner columns, experiments and scores by length, with which its application fails."""
    made = make(*args)
    table = getattr(made, "df", made)
    shown = table.select([name for name in table.columns if not name.startswith("_")])
    if table is made:
        return shown
    return replace(made, df=shown, custom_group_cols={})
