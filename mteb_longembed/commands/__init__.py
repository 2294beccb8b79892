"""The sub-commands of `mteb-longembed`, one file each, with `add_arguments(parser)` and `main(args) -> int`.

This is the top room: it may import every other room, and only `cli` imports it, by name. Heavy imports are inside
functions, so that `--help` and the error for a wrong option come at once.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

#: Options: names, what argparse needs, and the help.
Group = list[tuple[str, dict[str, Any], str]]


def add_groups(parser: argparse.ArgumentParser, options: Mapping[str, Group]) -> None:
    """Add options to a parser, each group under its title, or without one."""
    for title, group in options.items():
        own = parser.add_argument_group(title) if title else parser
        for names, settings, meaning in group:
            own.add_argument(*names.split(), help=meaning, **settings)


@contextmanager
def silence() -> Iterator[None]:
    """Switch off messages and progress bars of other libraries. Our bar of tokens stays."""
    import warnings

    import datasets
    from huggingface_hub.utils.tqdm import disable_progress_bars, enable_progress_bars
    from transformers.utils import logging as transformers_logging

    logger = logging.getLogger("mteb")
    level = logger.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        logger.setLevel(logging.ERROR)
        datasets.disable_progress_bars()
        disable_progress_bars()
        transformers_logging.disable_progress_bar()
        try:
            yield
        finally:
            logger.setLevel(level)
            datasets.enable_progress_bars()
            enable_progress_bars()
            transformers_logging.enable_progress_bar()
