"""mteb's leaderboard on a folder of results, without network and with corrections of two errors of mteb's.

docs/leaderboard.md describes the two errors. For each it has a few lines of code that show it.
"""

from __future__ import annotations

import logging
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mteb

from mteb_longembed.errors import DataError, InputError, UnknownNameError
from mteb_longembed.plugin.leaderboard.results_folder import cache_folder, splits_in
from mteb_longembed.plugin.mteb_parts import change_function, part

from .registration import register_models

if TYPE_CHECKING:
    from gradio import Blocks

logger = logging.getLogger(__name__)
#: The benchmarks for long documents, in the order of the menu: ours, mteb's own, and mteb's long tasks.
BENCHMARKS = ("LongEmbed+", "LongEmbed", "LongEmbed++")
#: mteb's prefix for columns of a benchmark's own groups, and its separator between dimension and group.
_GROUP = "__cg__"
_BETWEEN = "::"
#: The column with the names of experiments. It holds text and no scores.
_EXPERIMENT = "_experiment_id"


def make_board(folder: str | Path, benchmarks: Sequence[str] | None = None) -> Blocks:
    """The leaderboard of a folder of results, as gradio's app, with these benchmarks, the first one first.

    The default is those of `BENCHMARKS` that have results.
    """
    results = cache_folder(folder)
    names = benchmarks_with_results(results, benchmarks or BENCHMARKS)
    for name in benchmarks or ():
        if name not in names:
            raise UnknownNameError("benchmark with results", name, names)
    try:
        from mteb import leaderboard
    except ImportError as error:
        raise InputError(
            f"the leaderboard needs packages of its own: pip install 'mteb[leaderboard]' ({error})."
        ) from error
    for model, tasks in without_complete_task(results, names).items():
        logger.warning(
            f"{model} has results of some splits only ({', '.join(tasks)}), so mteb leaves it out of its tables; "
            "mteb-longembed report shows them."
        )
    change_function("mteb.benchmarks._create_table", "_split_on_capital", heading_with_digits)
    for name in ("_apply_summary_table_styling", "_apply_per_task_table_styling"):
        change_function("mteb.leaderboard.table", name, style_without_experiments)
    _show_only([mteb.get_benchmark(name) for name in names])
    register_models(results)
    with tempfile.TemporaryDirectory() as temporary:  # mteb keeps its tables beside the results
        return leaderboard.get_leaderboard_app(_local_results(results, Path(temporary)), rebuild=True)


def serve(app: Blocks, host: str, port: int) -> None:
    """Serve the leaderboard until it is interrupted. Fonts and style sheets come only from this machine."""
    themes = part("mteb.leaderboard.app", "gr").themes
    theme = themes.Soft(font=["Arial", "sans-serif"], font_mono=["monospace"])
    app.launch(server_name=host, server_port=port, theme=theme, quiet=True)


def benchmarks_with_results(results: Path, names: Sequence[str]) -> list[str]:
    """The benchmarks that have a task with results; an error if a name is unknown, or none has results."""
    known = {benchmark.name for benchmark in mteb.get_benchmarks()}
    task_names = {file.stem for file in results.glob("results/*/*/*.json")} - {"model_meta"}
    with_results = []
    for name in dict.fromkeys(names):
        if name not in known:
            raise UnknownNameError("benchmark", name, known)
        if task_names & {task.metadata.name for task in mteb.get_benchmark(name).tasks}:
            with_results.append(name)
    if not with_results:
        raise DataError(
            f"{results} must hold results of {' or '.join(dict.fromkeys(names))}, as `mteb run --output-folder "
            f"{results}` writes them, got results of {', '.join(sorted(task_names)) or 'no task'}."
        )
    return with_results


def without_complete_task(results: Path, benchmarks: Sequence[str]) -> dict[str, list[str]]:
    """The models that mteb leaves out of its tables because they have no complete task, with their tasks."""
    tasks = [task for name in benchmarks for task in mteb.get_benchmark(name).tasks]
    splits = {task.metadata.name: set(task.eval_splits) for task in tasks}
    complete: set[str] = set()
    incomplete: dict[str, set[str]] = {}
    for file in results.glob("results/*/*/*.json"):
        model = file.parts[-3].replace("__", "/", 1)
        run = splits_in(file)
        if file.stem in splits and splits[file.stem] <= run:
            complete.add(model)
        elif file.stem in splits and run:
            incomplete.setdefault(model, set()).add(file.stem)
    return {model: sorted(incomplete[model]) for model in sorted(incomplete) if model not in complete}


def heading_with_digits(split: Callable[[str], str], name: str) -> str:
    """mteb's function for headings keeps only letters, so the groups 256 and 512 would both have none."""
    if not name.startswith(_GROUP):
        return split(name) or name
    dimension, _, group = name.removeprefix(_GROUP).partition(_BETWEEN)
    return f"{group} ({dimension})"  # the group comes first, because the page cuts long headings


def style_without_experiments(style: Callable[..., Any], frame: Any, *args: Any, **kwargs: Any) -> Any:
    """mteb's function for the style of a table would round the column of experiments, which is text."""
    if _EXPERIMENT not in frame.columns:
        return style(frame, *args, **kwargs)
    frame = frame.copy()
    experiments = frame.pop(_EXPERIMENT).fillna("").astype(str)
    if "Model" in frame.columns:
        frame["Model"] = frame["Model"].where(experiments == "", frame["Model"] + " (" + experiments + ")")
    return style(frame, *args, **kwargs)


def _show_only(benchmarks: list[Any]) -> None:
    """Make the menu hold only some benchmarks, because mteb does not start if its own first one has no results."""
    menu = "mteb.benchmarks._leaderboard_menu"
    app = "mteb.leaderboard.app"
    entry = part(menu, "MenuEntry")("Long documents", benchmarks=benchmarks)
    for name, entries in (("GP_BENCHMARK_ENTRIES", [entry]), ("R_BENCHMARK_ENTRIES", [])):
        setattr(sys.modules[app], name, part(app, name) and entries)
    for module in (app, "mteb.leaderboard.benchmark_selector"):
        part(module, "DEFAULT_BENCHMARK_NAME")
        setattr(sys.modules[module], "DEFAULT_BENCHMARK_NAME", benchmarks[0].name)  # noqa: B010


def _local_results(results: Path, temporary: Path) -> Any:
    """The results of a folder. mteb adds nothing from its public repository to them."""

    class LocalResults(mteb.ResultCache):
        def download_from_remote(self, *args: Any, **kwargs: Any) -> Path:
            return Path(self.cache_path)

        @property
        def leaderboard_parquet_path(self) -> Path:
            return temporary / "tables.parquet"

    return LocalResults(results)
