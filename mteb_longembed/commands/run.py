"""`mteb-longembed run`: mteb's own command for one or several models, with a table of scores at the end.

A task or model that cannot run does not cost the others.
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
from mteb_longembed.plugin.asked_for import check_benchmarks, check_model, check_tasks

if TYPE_CHECKING:
    from mteb.results import ModelResult

_EPILOG = """
options of mteb-longembed run alone:
  -m MODEL -m MODEL ...  several models, one after the other
  --index {exact,faiss}  how nearest documents are searched: by mteb itself, or by its FAISS index, which finds the
                         same ones; tasks that are no retrieval tasks are not changed
  -q, --quiet            nothing but the table of scores and errors; the same as -v 0
  --json                 the scores as JSON on standard output, everything else on standard error
"""


@dataclass
class Outcome:
    """What came of a run.

    Args:
        results: mteb's, in the order in which they came.
        readings: a line for each model and task on what was read of the documents.
        failures: what did not run, with its error.
    """

    results: list[ModelResult] = field(default_factory=list)
    readings: list[str] = field(default_factory=list)
    failures: dict[str, LongEmbedError] = field(default_factory=dict)


def run(arguments: list[str]) -> int:
    """Run models on tasks; the exit status: 2 if something could not run, after a sentence on each.

    Raises:
        InputError: if there is no model, or no task or benchmark of a given name: says the nearest.
        LongEmbedError: if the one task of the command line could not run.
    """
    own, rest = _own_parser().parse_known_args(arguments[1:])
    models = list(dict.fromkeys(own.model or ()))
    # a mistake in a name is told before mteb is imported, which takes seconds
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
    parser.add_argument("-m", "--model", action="append")
    parser.add_argument("-v", "--verbosity", type=int)
    parser.add_argument("-q", "--quiet", action="store_true")
    parser.add_argument("--index", choices=("exact", "faiss"), default="exact")
    parser.add_argument("--json", action="store_true")
    return parser


def _run_all(models: Sequence[str], rest: list[str], own: argparse.Namespace, outcome: Outcome) -> str:
    """Run mteb's command for each model; the folder of the results."""
    # mteb has learnt of us when this package was imported (autoload.install)
    import mteb
    from mteb.cli import build_cli
    from mteb.cli import main as mteb_main

    args = _parsed(build_cli.build_cli(), ["run", *rest])
    models = models or [args.model]
    if models == [None]:
        raise InputError(
            "run needs a model, got none: -m e5-base+ntk, or any other name (mteb-longembed list)."
        )
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
    """mteb's own reading of its options; its help ends with what is ours."""
    try:
        return parser.parse_args(arguments)
    except SystemExit as stop:
        if not stop.code:
            print(_EPILOG, end="")
        raise


def _each_by_itself(
    evaluate: Callable[..., ModelResult], own: argparse.Namespace, outcome: Outcome, several: bool
) -> Callable[..., None]:
    """`mteb.evaluate`, which stops at the first error, going on after those that are ours."""

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
    """The model with the search index that was asked for."""
    from mteb.abstasks import AbsTaskRetrieval

    if index == "exact" or not isinstance(task, AbsTaskRetrieval):
        return model
    from mteb.models import EncoderProtocol, SearchEncoderWrapper, SearchProtocol
    from mteb.models.search_encoder_index import FaissSearchIndex

    if isinstance(model, SearchProtocol) or not isinstance(model, EncoderProtocol):
        raise ModelError(
            f"--index faiss needs a model that gives one vector a document, got {model.mteb_model_meta.name}: "
            "leave --index out."
        )
    # an index for each task: one that an error left half filled never meets other documents
    return SearchEncoderWrapper(model, index_backend=FaissSearchIndex(model))


def _reading(model: Any, task: str, cache: Any) -> str:
    """One line on what was read of a task's documents; kept beside the results, from where a second run tells it."""
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
    from mteb_longembed.reports.tables.run import Scored, run_table

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
            f"mteb-longembed: {len(failures)} {_UNIT[len(failures) > 1]} not run ({', '.join(failures)}), the others "
            "did: the same command again runs only what is missing.",
            file=sys.stderr,
        )


_UNIT = {True: "tasks did", False: "task did"}


@contextmanager
def _silence() -> Iterator[None]:
    """No bars and no FutureWarnings of other libraries: what `-v 0` asks for."""
    import warnings

    import datasets
    from huggingface_hub.utils import disable_progress_bars, enable_progress_bars
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
