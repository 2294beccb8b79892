"""The stock `mteb` command: it ends with one sentence on an error of ours, or on an interrupt."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from mteb_longembed.errors import INTERRUPTED, LongEmbedError

#: `1` also shows the traceback of our errors.
TRACEBACK_VARIABLE = "MTEB_LONGEMBED_TRACEBACK"


def main_in_one_sentence(main: Callable[..., object], *args: object, **kwargs: object) -> object:
    """The main function of mteb's command, in which our errors become one sentence and an exit status.

    Other errors are raised as before. Only this function is changed, not `sys.excepthook`.
    """
    try:
        return main(*args, **kwargs)
    except (LongEmbedError, KeyboardInterrupt) as error:
        is_interrupt = isinstance(error, KeyboardInterrupt)
        if os.environ.get(TRACEBACK_VARIABLE) == "1" or (is_interrupt and sys.argv[1:2] != ["run"]):
            raise
        print(f"mteb-longembed: {INTERRUPTED if is_interrupt else error}", file=sys.stderr)
        sys.exit(130 if is_interrupt else 2)
