"""`mteb-longembed run`: mteb's own command for one or several models, with a table of scores at the end.

If a task or model cannot run, the others still run.
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mteb_longembed.errors import InputError, LongEmbedError, ModelError
from mteb_longembed.plugin.validate import check_benchmarks, check_model, check_tasks

if TYPE_CHECKING:
    from mteb.results import ModelResult

_EPILOG = """
options that only mteb-longembed run has:
  -m MODEL [MODEL ...]   several models, one after the other
  --index {exact,faiss}  how to search the nearest documents: by mteb itself, or by its FAISS index, which finds the
                         same documents; this changes only retrieval tasks
  -q, --quiet            print only the table of scores and errors; the same as -v 0
  --json                 print the scores as JSON on standard output, everything else on standard error
"""


@dataclass
class Outcome:
    """The outcome of a run.

    Args:
        results: mteb's results, in the order of the run.
        readings: for each model and task, a line about how much of the documents was read.
        failures: tasks and models that did not run, with their errors.
    """

    results: list[ModelResult] = field(default_factory=list)
    readings: list[str] = field(default_factory=list)
    failures: dict[str, LongEmbedError] = field(default_factory=dict)


def run(arguments: list[str]) -> int:
    """Run models on tasks; return the exit status.

    It is 2 if something could not run; a sentence on standard error then says what.

    Raises:
        InputError: if no model is given, or a task or benchmark is unknown; the message says the nearest name.
        LongEmbedError: if the command line has only one task, and it could not run.
    """
    own, rest = _own_parser().parse_known_args(arguments[1:])
    models = list(dict.fromkeys(own.model or ()))
    # the user must see a mistake in a name at once; to import mteb takes seconds
    for name in models:
        check_model(name)
    if own.quiet:
        own.verbosity = 0
    if own.verbosity is not None:
        rest += ["-v", str(own.verbosity)]
    outcome = Outcome()
    with ExitStack() as stack:
        if own.verbosity == 0:
            stack.enter_context(_silence())
        if own.json:
            stack.enter_context(redirect_stdout(sys.stderr))
        folder = _run_all(models, rest, own, outcome)
    _tell(outcome, folder, own)
    return 2 if outcome.failures else 0


def _own_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mteb-longembed run", add_help=False, allow_abbrev=False)
    parser.add_argument("-m", "--model", action="extend", nargs="+")
    parser.add_argument("-v", "--verbosity", type=int)
    parser.add_argument("-q", "--quiet", action="store_true")
    parser.add_argument("--index", choices=("exact", "faiss"), default="exact")
    parser.add_argument("--json", action="store_true")
    return parser


def _run_all(models: Sequence[str], rest: list[str], own: argparse.Namespace, outcome: Outcome) -> str:
    """Run mteb's command for each model; return the folder of the results."""
    # mteb registers our tasks and models when it is imported (autoload.install)
    import mteb
    from mteb.cli import build_cli
    from mteb.cli import main as mteb_main

    args = _parsed(build_cli.build_cli(), ["run", *rest])
    if not models and args.model is None:
        raise InputError(
            "run needs a model, got none: -m e5-base+ntk, or any other name (mteb-longembed list)."
        )
    models = models or [args.model]
    check_tasks(args.tasks or ())
    check_benchmarks(args.benchmarks or ())
    evaluate = mteb.evaluate
    argv = sys.argv
    mteb.evaluate = _each_by_itself(evaluate, own, outcome, len(models) > 1)  # type: ignore[assignment]
    try:
        for name in models:
            sys.argv = ["mteb", "run", *rest, "-m", name]
            try:
                inspect.unwrap(mteb_main)()
            except LongEmbedError as error:
                if len(models) == 1:
                    raise
                outcome.failures[name] = error
    finally:
        mteb.evaluate, sys.argv = evaluate, argv
    return str(args.output_folder)


def _parsed(parser: argparse.ArgumentParser, arguments: list[str]) -> argparse.Namespace:
    """mteb parses its own options. Its help ends with our options."""
    try:
        return parser.parse_args(arguments)
    except SystemExit as stop:
        if not stop.code:
            print(_EPILOG, end="")
        raise


def _each_by_itself(
    evaluate: Callable[..., ModelResult], own: argparse.Namespace, outcome: Outcome, several: bool
) -> Callable[..., None]:
    """`mteb.evaluate` stops at the first error. This function continues if the error is one of ours."""

    @wraps(evaluate)
    def evaluate_each(model: Any, tasks: Iterable[Any], **options: Any) -> None:
        tasks = list(tasks)
        if own.verbosity == 0:
            options["show_progress_bar"] = False
            options["encode_kwargs"] = {**(options.get("encode_kwargs") or {}), "show_progress_bar": False}
        for task in tasks:
            try:
                result = evaluate(_searching(model, task, own.index), [task], **options)
            except LongEmbedError as error:
                if len(tasks) == 1:
                    raise
                name = task.metadata.name
                outcome.failures[f"{model.mteb_model_meta.name}: {name}" if several else name] = error
                continue
            outcome.results.append(result)
            line = _reading(model, task.metadata.name, options.get("cache"))
            if line:
                outcome.readings.append(f"{model.mteb_model_meta.name} on {line}" if several else line)

    return evaluate_each


def _searching(model: Any, task: Any, index: str) -> Any:
    """The model with the search index that the user chose."""
    from mteb.abstasks import AbsTaskRetrieval

    if index == "exact" or not isinstance(task, AbsTaskRetrieval):
        return model
    from mteb.models import EncoderProtocol, SearchEncoderWrapper, SearchProtocol
    from mteb.models.search_encoder_index import FaissSearchIndex

    if isinstance(model, SearchProtocol) or not isinstance(model, EncoderProtocol):
        raise ModelError(
            f"--index faiss needs a model with one vector for each document, got {model.mteb_model_meta.name}: "
            "leave --index out."
        )
    # a new index for each task: after an error, an index may be half full
    return SearchEncoderWrapper(model, index_backend=FaissSearchIndex(model))


def _reading(model: Any, task: str, cache: Any) -> str:
    """One line about how much of a task's documents was read. It is kept beside the results for later runs."""
    from mteb_longembed.plugin.results_on_disk import keep_lines

    found = {
        split: str(reading)
        for (name, split), reading in getattr(model, "readings", {}).items()
        if name == task
    }
    if cache is not None:
        path = cache.get_task_result_path(task, model.mteb_model_meta)
        found = keep_lines(path.with_suffix(".read.txt"), found)
    if not found:
        return ""
    if len(set(found.values())) == 1:
        return f"{task}: {next(iter(found.values()))}"
    return "\n".join(f"{task}, {split}: {line}" for split, line in found.items())


def _tell(outcome: Outcome, folder: str, own: argparse.Namespace) -> None:
    """Print the scores, what was cut, what failed, and what to type next."""
    from mteb_longembed.reports.tables.table import Scored, run_table

    rows = [
        Scored(str(result.model_name), task.task_name, split, float(entry["main_score"]))
        for result in outcome.results
        for task in result.task_results
        for split, entries in task.scores.items()
        for entry in entries[:1]
    ]
    failures = {name: str(error) for name, error in outcome.failures.items()}
    if own.json:
        found = {"scores": [row._asdict() for row in rows], "failed": failures, "results": folder}
        print(json.dumps(found, indent=2))
    elif rows:
        from rich.console import Console

        from mteb_longembed.reports.writers.terminal import show

        show([run_table(rows)], Console(highlight=False))
        if own.verbosity != 0:
            print("\n".join(outcome.readings), end="\n\n" if outcome.readings else "")
            print(f"Next: mteb-longembed report {Path(folder)}")
    for name, told in failures.items():
        print(f"mteb-longembed: {name}: {told}", file=sys.stderr)
    if failures:
        print(
            f"mteb-longembed: {len(failures)} {_UNIT[len(failures) > 1]} not run ({', '.join(failures)}), all others "
            "did: the same command again runs only the missing ones.",
            file=sys.stderr,
        )


_UNIT = {True: "tasks did", False: "task did"}


@contextmanager
def _silence() -> Iterator[None]:
    """Switch off progress bars and FutureWarnings of other libraries, for `-v 0`."""
    import warnings

    import datasets
    from huggingface_hub.utils.tqdm import disable_progress_bars, enable_progress_bars
    from transformers.utils import logging as transformers_logging

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        datasets.disable_progress_bars()
        disable_progress_bars()
        transformers_logging.disable_progress_bar()
        try:
            yield
        finally:
            datasets.enable_progress_bars()
            enable_progress_bars()
            transformers_logging.enable_progress_bar()
