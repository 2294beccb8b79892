"""The stock `mteb` command: it reports mistakes in our names first, and our errors or an interrupt in one sentence."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Callable, Iterable, Sequence

from mteb_longembed.errors import INTERRUPTED, InputError, LongEmbedError
from mteb_longembed.names.grammar import is_extended_name

from .mteb_parts import part

#: `1` also shows the traceback of our errors.
TRACEBACK_VARIABLE = "MTEB_LONGEMBED_TRACEBACK"


def main_in_one_sentence(main: Callable[..., object], *args: object, **kwargs: object) -> object:
    """The main function of mteb's command, in which our errors become one sentence and an exit status.

    Other errors are raised as before. Only this function is changed, not `sys.excepthook`.
    """
    try:
        check_command(sys.argv[1:])
        return main(*args, **kwargs)
    except (LongEmbedError, KeyboardInterrupt) as error:
        is_interrupt = isinstance(error, KeyboardInterrupt)
        if os.environ.get(TRACEBACK_VARIABLE) == "1" or (is_interrupt and sys.argv[1:2] != ["run"]):
            raise
        print(f"mteb-longembed: {INTERRUPTED if is_interrupt else error}", file=sys.stderr)
        sys.exit(130 if is_interrupt else 2)


def check_command(arguments: Sequence[str]) -> None:
    """Check the parts of an `mteb run` that concern us. mteb checks everything else."""
    if list(arguments[:1]) != ["run"]:
        return
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    parser.add_argument("-m", "--model", default="")
    parser.add_argument("-t", "--tasks", nargs="+", default=[])
    try:
        asked, _ = parser.parse_known_args(arguments[1:])
    except argparse.ArgumentError:
        return  # mteb reports what is wrong with its own options
    check_model(asked.model)
    is_ours = is_extended_name(asked.model)
    # all our tasks have names that start so
    check_tasks(name for name in asked.tasks if is_ours or name.startswith("LongEmbed"))


def check_model(name: str) -> None:
    """Raise a LongEmbedError if the name of an extended model has a mistake. The base is not checked."""
    if is_extended_name(name):
        from mteb_longembed.encoders.bases.spec import ModelSpec

        ModelSpec.parse(name)


def check_tasks(names: Iterable[str]) -> None:
    """Raise InputError if one of the tasks does not exist. mteb must be imported already."""
    from mteb_longembed.tasks import TASKS
    from mteb_longembed.tasks.generated.variants import find_variant

    registry = part("mteb.get_tasks", "_TASKS_REGISTRY")  # it recognises variants too
    for name in names:
        if name not in registry:
            find_variant(name)  # raises if it is a variant with impossible values
            raise unknown("task", name, registry, [task.metadata.name for task in TASKS])


def check_benchmarks(names: Iterable[str]) -> None:
    """Raise InputError if one of the benchmarks does not exist."""
    import mteb

    for name in names:
        try:
            mteb.get_benchmark(name)
        except KeyError:
            known = [benchmark.name for benchmark in mteb.get_benchmarks()]
            ours = [name for name in known if name.startswith(("LongEmbed+", "LongEmbed-"))]
            raise unknown("benchmark", name, known, ours) from None


def unknown(kind: str, name: str, known: Iterable[str], ours: Iterable[str]) -> InputError:
    """The error for a task or benchmark that does not exist. `mteb available-KINDs` lists mteb's own."""
    near = difflib.get_close_matches(name, list(known), n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return InputError(
        f"unknown {kind} {name!r}: {hint}known: {', '.join(ours)}, and mteb's own (mteb available-{kind}s)."
    )
