"""mteb's own leaderboard application, for a folder of results and without a network.

All names inside mteb's application that we rely on stand here.
"""

from __future__ import annotations

import dataclasses
import importlib
import logging
import os
import tempfile
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mteb_longembed.errors import InputError, LongEmbedError
from mteb_longembed.names import name_of

from .mteb_parts import change, part, put
from .registries import register_benchmark

if TYPE_CHECKING:
    from mteb.results import ModelResult

#: Ours, and mteb's own with the published data.
BENCHMARKS = ("LongEmbed+", "LongEmbed")
HOST = "127.0.0.1"
_APP, _SELECTOR = "mteb.leaderboard.app", "mteb.leaderboard.benchmark_selector"


def make_app(folder: Path) -> Any:
    """mteb's application (a gradio Blocks) with two benchmarks, and with all models of a folder of results.

    mteb's registry, menu and tables are changed for the rest of the process.

    Args:
        folder: what `mteb run` wrote.

    Raises:
        InputError: if there are no results of these benchmarks, or a file is broken.
        LongEmbedError: if the extra is not installed, or mteb has moved a name.
    """
    import mteb
    from mteb.benchmarks.benchmark import Benchmark
    from mteb.cache import ResultCache

    if not folder.is_dir():
        raise InputError(
            f"there is no results folder {str(folder)!r}: give the --output-folder of `mteb run`."
        )
    warnings.filterwarnings("ignore", ".*: Missing splits")  # the table has an empty cell for each
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
    _import_app()
    register_benchmark(importlib.import_module("mteb.benchmarks.benchmarks"), by_length=True)
    benchmarks = mteb.get_benchmarks([*BENCHMARKS])
    _enter_models(results.model_results)
    change(Benchmark, "_create_summary_table", _summary)
    change(Benchmark, "_create_per_task_table", _per_task)
    # mteb's application fails where the benchmark that it begins with has no results
    for module in (_APP, _SELECTOR):
        put(module, "DEFAULT_BENCHMARK_NAME", filled[0])
    menu = part("mteb.benchmarks._leaderboard_menu", "MenuEntry")
    put(_APP, "GP_BENCHMARK_ENTRIES", [menu(" and ".join(BENCHMARKS), benchmarks)])
    put(_APP, "R_BENCHMARK_ENTRIES", [])
    frame = part("mteb.results.benchmark_results", "BenchmarkResults._to_results_df")(results, tasks)
    with tempfile.TemporaryDirectory() as temporary:
        cache = ResultCache(temporary)
        results.save_leaderboard_cache({"": frame}, cache.leaderboard_parquet_path)
        # without the name of a repository, mteb reads this file and not the hub
        return part(_APP, "get_leaderboard_app")(cache, cache_repo_id="")


def _enter_models(results: Iterable[ModelResult]) -> None:
    """Enter the models of these results into mteb's registry, because its tables have no others.

    An experiment becomes a model with its whole name, so that its row has its own length.
    """
    registry = part("mteb.models.model_implementations", "MODEL_REGISTRY")
    for result in results:
        meta = result.model_meta
        if meta is not None and meta.experiment_kwargs:
            result.model_name = name_of(result.model_name, meta.experiment_kwargs)
            result.experiment_name = None
            result.model_meta = meta = meta.model_copy(
                update={"name": result.model_name, "experiment_kwargs": None}
            )
        if meta is not None and result.model_name not in registry:
            datasets = meta.training_datasets  # a list, because it comes from a file
            registry[result.model_name] = meta.model_copy(
                update={"training_datasets": None if datasets is None else set(datasets)}
            )


def _import_app() -> None:
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
    logging.getLogger("mteb.leaderboard").addHandler(logging.NullHandler())  # it logs the time of each step
    try:
        importlib.import_module(_APP)
    except ModuleNotFoundError as error:
        raise LongEmbedError(
            f"the leaderboard needs {error.name}: pip install 'mteb-longembed[leaderboard]'."
        ) from error


def start(app: Any, port: int) -> str:
    """Serve an application on this machine only, in the background, and return its address.

    Raises:
        InputError: if the port is taken.
    """
    import gradio

    # fonts of the system: mteb's come from another server
    theme = gradio.themes.Soft(font="sans-serif", font_mono="monospace")
    # gradio asks its own page whether it answers: never by a proxy
    for name in ("no_proxy", "NO_PROXY"):
        os.environ[name] = ",".join(filter(None, [os.environ.get(name), HOST]))
    options: Any = {"theme": theme, "prevent_thread_lock": True, "quiet": True, "share": False}
    try:
        _, address, _ = app.launch(server_name=HOST, server_port=port, **options)
    except OSError as error:
        raise InputError(f"--port must be free on this machine, got {port}: give another one.") from error
    return str(address)


def _summary(make: Callable[..., Any], benchmark: object, frame: object) -> Any:
    """The summary of a benchmark without its internal column, which is no score, and with a name for each length."""
    made = make(benchmark, frame)
    if made.is_empty:
        return made
    lengths = [column for columns in made.custom_group_cols.values() for column in columns]
    # mteb's page cuts all digits from names that do not begin with Mean
    names = {column: f"Mean ({column.rpartition('::')[2]} tokens)" for column in lengths}
    return dataclasses.replace(made, df=_without_experiments(made.df).rename(names), custom_group_cols={})


def _per_task(make: Callable[..., Any], benchmark: object, frame: object) -> Any:
    return _without_experiments(make(benchmark, frame))


def _without_experiments(table: Any) -> Any:
    return table.drop(part("mteb.benchmarks._create_table", "_EXPERIMENT_ID_COL"), strict=False)
