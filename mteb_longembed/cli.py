"""The command `mteb-longembed`. Each sub-command is a module that is imported only when it is needed."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

from . import __version__
from .errors import INTERRUPTED, LongEmbedError


class Command(NamedTuple):
    """A module with `add_arguments(parser)` and `main(args) -> int`, and one line of help."""

    module: str
    help: str


COMMANDS: dict[str, Command] = {
    "compare": Command(
        "mteb_longembed.commands.compare",
        "which way of embedding is best for my model and data, at what cost",
    ),
    "search": Command(
        "mteb_longembed.commands.search", "the best documents of your own files for a question"
    ),
    "list": Command("mteb_longembed.commands.list", "strategies, aliases, tasks, and what fits what"),
    "report": Command("mteb_longembed.commands.report", "tables and figures from a folder of results"),
    "diagnose": Command(
        "mteb_longembed.commands.diagnose",
        "does a task need long context? scores for each number of tokens read",
    ),
    "tune": Command("mteb_longembed.commands.tune", "train the position rows that an extension added"),
    "export": Command("mteb_longembed.commands.export", "a plain checkpoint that needs none of our code"),
    "leaderboard": Command(
        "mteb_longembed.commands.leaderboard", "mteb's leaderboard on a folder of results, without network"
    ),
    "submit-check": Command(
        "mteb_longembed.commands.submit_check", "what mteb's public results repository would refuse, and why"
    ),
    "doctor": Command("mteb_longembed.commands.doctor", "versions, hub, devices, caches, and what is wrong"),
}
_RUN = "run tasks on models; takes the options of `mteb run`, and prints a table of scores"
#: Commands that keep finished work and continue from it when they are started again.
_RESUME = ("run", "compare", "tune")
_EXAMPLES = """\
examples:
  mteb-longembed compare mini-rope -t LongEmbedPasskey --eval-splits test_512 test_2048
  mteb-longembed run -t LongEmbedPasskey -m e5-base+ntk
  mteb-longembed list
  mteb-longembed report results/
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return the exit status.

    0: done. 1: `doctor` found a problem, or `submit-check` found something missing. 2: the command line is wrong, or
    something could not run; a sentence on standard error says what. 130: interrupted.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        if arguments[:1] == ["run"]:
            from .commands.run import run

            return run(arguments)
        args = _parser(arguments[0] if arguments else "").parse_args(arguments)
        status = int(importlib.import_module(COMMANDS[args.command].module).main(args))
        sys.stdout.flush()  # here and not at exit: at exit nobody can catch the error of a closed pipe
        return status
    except LongEmbedError as error:
        print(f"mteb-longembed: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(
            f"mteb-longembed: {INTERRUPTED if arguments[:1] and arguments[0] in _RESUME else 'interrupted.'}",
            file=sys.stderr,
        )
        return 130
    except BrokenPipeError:  # `mteb-longembed list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes again at exit
        return 0


def _parser(chosen: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mteb-longembed",
        description="Text-embedding models for longer documents, and the LongEmbed benchmark for them.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    commands.add_parser("run", help=_RUN)
    for name, command in COMMANDS.items():
        own = commands.add_parser(name, help=command.help)
        if name == chosen:
            importlib.import_module(command.module).add_arguments(own)
    return parser
