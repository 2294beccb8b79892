"""The command `mteb-longembed`. Each sub-command is a module that is imported only when needed."""

import argparse
import atexit
import gc
import importlib
import io
import os
import sys
import warnings
from collections.abc import Sequence
from types import ModuleType

from . import __version__
from .errors import INTERRUPTED, LongEmbedError

#: Name -> one line of help. Each has a module in `commands`.
COMMANDS = {
    "compare": "which method is best for my model and data, at what cost",
    "search": "the best documents of your own files for a question",
    "index": "encode your own files once, and save the index for search",
    "list": "strategies, presets, aliases of models, tasks",
    "report": "the gain of each strategy, from a folder of results",
    "leaderboard": "mteb's leaderboard of a folder of results, in a browser",
    "export": "a plain checkpoint that needs none of our code",
    "cache": "the content of the cache, and its size",
    "doctor": "versions, hub, devices, caches, and problems",
}
#: Commands that keep finished work and resume from it.
_RESUME = ("compare", "index", "search")
_EXAMPLES = """\
examples:
  mteb-longembed compare mini-rope -t LongEmbedPasskey --eval-splits test_512 test_2048
  mteb-longembed list
  mteb-longembed report results/
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return the exit status.

    0: success. 1: `doctor` found a problem, or a gate of `compare` is closed. 2: a wrong command line, or an error,
    with one sentence on standard error. 130: interrupted.
    """
    # imports create a million permanent objects: collecting garbage among them takes 40 % of a short call
    gc.set_threshold(100_000, 50)
    atexit.register(gc.freeze)
    # mteb's own use of deprecated methods does not concern users of the command line
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"mteb\.")
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):  # a stream that is not UTF-8 escapes characters that it lacks
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        args = _parsed(arguments)
        status = int(_module(args.command).main(args))
        sys.stdout.flush()  # at exit, nobody could catch the error of a closed pipe
        return status
    except LongEmbedError as error:
        print(f"mteb-longembed: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        sentence = "interrupted."
        if arguments and arguments[0] in _RESUME:
            sentence = INTERRUPTED
        print(f"mteb-longembed: {sentence}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `mteb-longembed list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes again at exit
        return 0
    except OSError as error:  # such as a cache that cannot be created while mteb is imported
        refused = f"the system refuses {error.filename or 'a file'}: {error.strerror or error}."
        print(f"mteb-longembed: {refused}", file=sys.stderr)
        return 2


def _open_closed_streams() -> None:
    """Open the null device for standard streams that the shell has closed (`>&-`)."""
    # in the order of their descriptors: each opened file gets the lowest free one
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115


def _module(command: str) -> ModuleType:
    return importlib.import_module(f"mteb_longembed.commands.{command}")


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments. Only the module of the chosen command is imported."""
    parser = argparse.ArgumentParser(
        prog="mteb-longembed",
        description="Text-embedding models for longer documents, and the LongEmbed benchmark for them.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, help_line in COMMANDS.items():
        command = commands.add_parser(name, help=help_line)
        if arguments and name == arguments[0]:
            command.description = _module(name).__doc__
            _module(name).add_arguments(command)
    return parser.parse_args(arguments)
