"""The sub-commands of `mteb-longembed`, one file each: `DESCRIPTION`, `OPTIONS`, `main(args) -> int`, maybe `EPILOG`.

This is the top room: it may import every other room, and only `cli` imports it, by name. Heavy imports are inside
functions, so that `--help` and the error for a wrong option come at once.
"""

import argparse
import inspect
import re
from types import ModuleType
from typing import Any

#: Names of an argument, what argparse needs, and the help.
Option = tuple[str, dict[str, Any], str]
#: Arguments by the title under which the help shows them; an empty title for none.
Options = dict[str, list[Option]]
JSON: Option = ("--json", {"action": "store_true"}, "print JSON")
DEVICE: Option = ("--device", {}, "cpu, cuda, cuda:1, mps, ... (default: the best of this machine)")


def helps(options: type) -> dict[str, str]:
    """What the docstring of a class says of each of its fields."""
    told = (inspect.getdoc(options) or "").partition("Args:\n")[2].partition("\n\n")[0]
    lines = re.findall(r"^    (\w+): (.+(?:\n {8}.+)*)", told, re.MULTILINE)
    return {name: " ".join(text.split()).rstrip(".").replace("%", "%%") for name, text in lines}


def add_arguments(parser: argparse.ArgumentParser, command: ModuleType) -> None:
    """Add the arguments and texts of a sub-command to its parser.

    Args:
        parser: the empty parser of the sub-command.
        command: its module, with `DESCRIPTION`, `OPTIONS` and maybe `EPILOG`.
    """
    parser.description = command.DESCRIPTION
    parser.epilog = getattr(command, "EPILOG", None)
    for title, group in command.OPTIONS.items():
        target: argparse._ActionsContainer = parser
        if title:
            target = parser.add_argument_group(title)
        for names, settings, meaning in group:
            target.add_argument(*names.split(), help=meaning, **settings)
