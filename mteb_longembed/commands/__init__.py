"""The sub-commands of `mteb-longembed`, one file each: `DESCRIPTION`, `OPTIONS`, `main(args) -> int`, maybe `EPILOG`.

This is the top room: it may import every other room, and only `cli` imports it, by name. Heavy imports are inside
functions, so that `--help` and the error for a wrong option come at once.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

#: Names of an argument, what argparse needs, and the help.
Option = tuple[str, dict[str, Any], str]
#: Arguments by the title under which the help shows them; an empty title for none.
Options = dict[str, list[Option]]
JSON: Option = ("--json", {"action": "store_true"}, "print JSON")
DEVICE: Option = ("--device", {}, "cpu, cuda, cuda:1, mps, ... (default: the best of this machine)")
TRUST: Option = ("--trust-remote-code", {"action": "store_true"}, "run the base's own model code")


def add_arguments(parser: argparse.ArgumentParser, command: ModuleType) -> None:
    """Add the arguments and texts of a sub-command to its parser."""
    parser.description, parser.epilog = command.DESCRIPTION, getattr(command, "EPILOG", None)
    for title, group in command.OPTIONS.items():
        target = parser.add_argument_group(title) if title else parser
        for names, settings, meaning in group:
            target.add_argument(*names.split(), help=meaning, **settings)


@contextmanager
def silence() -> Iterator[None]:
    """Switch off messages and progress bars of other libraries. Our bar of tokens stays."""
    import datasets
    from huggingface_hub.utils.tqdm import disable_progress_bars, enable_progress_bars

    # a module without types
    transformers_logging: ModuleType = importlib.import_module("transformers.utils.logging")
    logger = logging.getLogger("mteb")
    with warnings.catch_warnings(), ExitStack() as after:
        warnings.simplefilter("ignore", FutureWarning)
        after.callback(logger.setLevel, logger.level)
        logger.setLevel(logging.ERROR)
        for switch_off, switch_on in (
            (datasets.disable_progress_bars, datasets.enable_progress_bars),
            (disable_progress_bars, enable_progress_bars),
            (transformers_logging.disable_progress_bar, transformers_logging.enable_progress_bar),
        ):
            switch_off()
            after.callback(switch_on)
        yield
