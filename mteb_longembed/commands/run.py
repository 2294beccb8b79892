"""`mteb-longembed run`: one or several models on tasks, with a table of scores at the end.

The options are those of `mteb run`. If a task or model cannot run, the others still run.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mteb_longembed.errors import InputError, LongEmbedError
from mteb_longembed.plugin.command_line import check_benchmarks, check_model, check_tasks

if TYPE_CHECKING:
    from mteb.results import ModelResult

_EPILOG = """
options that only mteb-longembed run has:
  -m MODEL [MODEL ...]   several models, one after the other
  -v N                   0 prints the table of scores and errors only; without -v also what was read of the documents,
                         and no messages of mteb's
  --json                 print the scores as JSON on standard output, everything else on standard error
"""


def run(arguments: list[str]) -> int:
    """Run models on tasks; return the exit status.

    It is 2 if something could not run; a sentence on standard error then says what.
    """
    parser = argparse.ArgumentParser(prog="mteb-longembed run", add_help=False, allow_abbrev=False)
    parser.add_argument("-m", "--model", action="extend", nargs="+")
    parser.add_argument("-v", "--verbosity", type=int)
    parser.add_argument("--json", action="store_true")
    our_options, rest = parser.parse_known_args(arguments[1:])
    models = list(dict.fromkeys(our_options.model or ()))
    # the user must see a mistake in a name at once; to import mteb takes seconds
    for name in models:
        check_model(name)
    with ExitStack() as stack:
        if not our_options.verbosity:
            from mteb_longembed.hub import silence

            stack.enter_context(silence())
        if our_options.json:
            stack.enter_context(redirect_stdout(sys.stderr))
        args = _parsed(["run", *rest])
        if not models:
            raise InputError("run needs a model, got none: -m e5-base+ntk, or another (mteb-longembed list).")
        results, readings, failures = _run_all(models, args, our_options)
    _print_results(results, readings, failures, str(args.output_folder), our_options)
    return 2 if failures else 0


def _parsed(arguments: list[str]) -> argparse.Namespace:
    """mteb parses its own options. Its help ends with our options."""
    # mteb registers our tasks and models when it is imported (autoload.install)
    from mteb.cli import build_cli

    try:
        return build_cli.build_cli().parse_args(arguments)
    except SystemExit as stop:
        if not stop.code:
            print(_EPILOG, end="")
        raise


def _run_all(
    models: Sequence[str], args: argparse.Namespace, our_options: argparse.Namespace
) -> tuple[list[ModelResult], list[str], dict[str, str]]:
    """Run each model on each task by itself: the results, what was read, and what went wrong by model or task."""
    import mteb
    import torch

    from mteb_longembed.encoders.engine.progress import progress_lines

    if our_options.verbosity:
        level = {1: logging.WARNING, 2: logging.INFO}.get(our_options.verbosity, logging.DEBUG)
        logging.getLogger("mteb").setLevel(level)
    check_tasks(args.tasks or ())
    check_benchmarks(args.benchmarks or ())
    encode: dict[str, Any] = {} if args.batch_size is None else {"batch_size": args.batch_size}
    if not our_options.verbosity:
        encode["show_progress_bar"] = our_options.verbosity is None and sys.stderr.isatty()
    options: dict[str, Any] = {
        "cache": mteb.ResultCache(args.output_folder),
        "co2_tracker": args.co2_tracker,
        "overwrite_strategy": "always" if args.overwrite else args.overwrite_strategy,
        "encode_kwargs": encode,
        "prediction_folder": args.output_folder if args.save_predictions else args.prediction_folder,
        "num_proc": args.num_proc,
        "show_progress_bar": bool(our_options.verbosity),
    }
    results, readings, failures = [], [], {}
    device = args.device if args.device is not None else "cuda" if torch.cuda.is_available() else "cpu"
    for name in models:
        tasks = _tasks(args)
        try:
            model: Any = mteb.get_model(name, args.model_revision, device=device)
        except LongEmbedError as error:
            if len(models) == 1:
                raise
            failures[name] = str(error)
            continue
        for task in tasks:
            label = f"{name}: {task.metadata.name}" if len(models) > 1 else task.metadata.name
            lines = our_options.verbosity is None and not sys.stderr.isatty()
            try:
                with progress_lines(label) if lines else nullcontext():
                    results.append(mteb.evaluate(model, [task], **options))
            except LongEmbedError as error:
                if len(tasks) * len(models) == 1:
                    raise
                failures[label] = str(error)
                continue
            if line := _reading(model, task.metadata.name, options["cache"]):
                readings.append(f"{name} on {line}" if len(models) > 1 else line)
    return results, readings, failures


def _tasks(args: argparse.Namespace) -> list[Any]:
    """New task objects, which hold no data yet."""
    import mteb

    if args.benchmarks:
        return [task for benchmark in mteb.get_benchmarks(names=args.benchmarks) for task in benchmark.tasks]
    names = ("categories", "task_types", "languages", "tasks", "eval_splits")
    return list(mteb.get_tasks(**{name: getattr(args, name) for name in names}))


def _reading(model: Any, task: str, cache: Any) -> str:
    """One line about how much of a task's documents was read. It is kept beside the results for later runs."""
    from mteb_longembed.plugin.results_on_disk import keep_lines

    readings = getattr(model, "truncations", {}).items()
    lines = {split: str(reading) for (name, split), reading in readings if name == task}
    if cache is not None:
        path = cache.get_task_result_path(task, model.mteb_model_meta)
        lines = keep_lines(path.with_suffix(".read.txt"), lines)
    if len(set(lines.values())) == 1:
        return f"{task}: {next(iter(lines.values()))}"
    return "\n".join(f"{task}, {split}: {line}" for split, line in lines.items())


def _print_results(
    results: Sequence[ModelResult],
    readings: Sequence[str],
    failures: Mapping[str, str],
    folder: str,
    our_options: argparse.Namespace,
) -> None:
    """Print the scores, what was cut, what failed, and what to type next."""
    from mteb_longembed.reports.tables.table import run_table

    rows = [
        (str(result.model_name), task.task_name, split, float(entry["main_score"]))
        for result in results
        for task in result.task_results
        for split, entries in task.scores.items()
        for entry in entries[:1]
    ]
    if our_options.json:
        scores = [dict(zip(("model", "task", "split", "score"), row, strict=True)) for row in rows]
        output = {"scores": scores, "failed": failures, "results": folder}
        print(json.dumps(output, indent=2))
    elif rows:
        from rich.console import Console

        from mteb_longembed.reports.writers import show

        show([run_table(rows)], Console(highlight=False))
        if our_options.verbosity != 0:
            print("\n".join(readings), end="\n\n" if readings else "")
            print(f"Next: mteb-longembed report {Path(folder)}")
    for name, reason in failures.items():
        print(f"mteb-longembed: {name}: {reason}", file=sys.stderr)
    if failures:
        tasks = "task" if len(failures) == 1 else "tasks"
        print(
            f"mteb-longembed: {len(failures)} {tasks} did not run ({', '.join(failures)}), all others did: the same "
            "command again runs only the missing ones.",
            file=sys.stderr,
        )
