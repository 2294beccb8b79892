"""`mteb-longembed run`: mteb's own command, except that a task which cannot run does not cost the others."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Collection, Iterable
from functools import wraps
from typing import Any

from mteb_longembed.errors import InputError, LongEmbedError

Failures = dict[str, LongEmbedError]


def run(arguments: list[str]) -> int:
    """Hand a command line over to mteb; the exit status: 2 if a task could not run, after a sentence on each.

    Raises:
        InputError: if there is no model, or no task or benchmark of a given name: says the nearest.
        LongEmbedError: if the one task of the command line could not run.
    """
    # mteb has learnt of us when this package was imported (autoload.install)
    import mteb
    from mteb.cli import build_cli
    from mteb.cli import main as mteb_main

    args = build_cli.build_cli().parse_args(arguments)
    if args.model is None:
        raise InputError(
            "run needs a model, got none: -m e5-base+ntk, or any other name (mteb-longembed list)."
        )
    _check(args.tasks or (), args.benchmarks or ())
    failures: Failures = {}
    evaluate = mteb.evaluate
    sys.argv = ["mteb", *arguments]
    mteb.evaluate = _each_by_itself(evaluate, failures)  # type: ignore[assignment]
    try:
        mteb_main()
    finally:
        mteb.evaluate = evaluate
    for name, error in failures.items():
        print(f"mteb-longembed: {name}: {error}", file=sys.stderr)
    if failures:
        print(
            f"mteb-longembed: {len(failures)} tasks did not run ({', '.join(failures)}), the others did: the "
            "same command again runs only what is missing.",
            file=sys.stderr,
        )
    return 2 if failures else 0


def _each_by_itself(evaluate: Callable[..., Any], failures: Failures) -> Callable[..., None]:
    """`mteb.evaluate`, which stops at the first error, going on after those that are ours."""

    @wraps(evaluate)
    def evaluate_each(model: Any, tasks: Iterable[Any], **options: Any) -> None:
        tasks = list(tasks)
        for task in tasks:
            try:
                evaluate(model, [task], **options)
            except LongEmbedError as error:
                if len(tasks) == 1:
                    raise
                failures[task.metadata.name] = error

    return evaluate_each


def _check(tasks: Iterable[str], benchmarks: Collection[str]) -> None:
    from mteb_longembed.plugin.tasks import known_tasks
    from mteb_longembed.tasks import TASKS
    from mteb_longembed.tasks.variants import find_variant

    ours = [task.metadata.name for task in TASKS]
    registry = known_tasks()
    for name in tasks:
        if name not in registry:
            find_variant(name)  # raises, if it is one with impossible values
            raise _unknown("task", name, registry, ours)
    if benchmarks:
        import mteb

        for name in benchmarks:
            try:
                mteb.get_benchmark(name)
            except KeyError:
                known = [benchmark.name for benchmark in mteb.get_benchmarks()]
                raise _unknown("benchmark", name, known, ["LongEmbed+", "LongEmbed++"]) from None


def _unknown(kind: str, name: str, known: Iterable[str], ours: Iterable[str]) -> InputError:
    near = difflib.get_close_matches(name, list(known), n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return InputError(
        f"unknown {kind} {name!r}: {hint}known: {', '.join(ours)}, and mteb's own (mteb available-{kind}s)."
    )
