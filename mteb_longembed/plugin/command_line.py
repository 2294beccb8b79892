"""The stock `mteb` command: it reports mistakes in our names first, and our errors or an interrupt in one sentence."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from mteb_longembed.errors import INTERRUPTED, LongEmbedError

from .mteb_parts import change_function
from .validate import check_command

#: `1` also shows the traceback of our errors.
TRACEBACK_VARIABLE = "MTEB_LONGEMBED_TRACEBACK"


def register_command(cli: ModuleType) -> None:
    """Make the `mteb` command report our errors in one sentence."""
    change_function(cli.__name__, "main", lambda main: in_one_sentence(main, check_command))


def in_one_sentence(
    main: Callable[..., Any], check: Callable[[Sequence[str]], None] | None = None
) -> Callable[..., Any]:
    """The main function of a command, changed so that our errors become one sentence and an exit status.

    Other errors are raised as before. Only this function is changed, not `sys.excepthook`.
    """

    @functools.wraps(main)
    def told(*args: Any, **kwargs: Any) -> Any:
        try:
            if check is not None:
                check(sys.argv[1:])
            return main(*args, **kwargs)
        except LongEmbedError as error:
            if os.environ.get(TRACEBACK_VARIABLE) == "1":
                raise
            print(f"mteb-longembed: {error}", file=sys.stderr)
            status = 2
        except KeyboardInterrupt:
            if os.environ.get(TRACEBACK_VARIABLE) == "1" or sys.argv[1:2] != ["run"]:
                raise
            print(f"mteb-longembed: {INTERRUPTED}", file=sys.stderr)
            status = 130
        sys.exit(status)

    return told
