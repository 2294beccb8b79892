"""`mteb-longembed tune`: its options are the fields of `TuningSettings`."""

from __future__ import annotations

import argparse
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

from mteb_longembed.commands import DEVICE, TRUST, Option, Options
from mteb_longembed.tuning.settings import TuningSettings

_TYPES = {"int": int, "float": float, "int | None": int}


def _option(field: Field[Any]) -> Option:
    """The option of a field: a switch, or a number of its type."""
    value_type = _TYPES.get(str(field.type))
    settings: dict[str, Any] = {"action": "store_true"}
    if value_type is not None:
        settings = {"type": value_type}
    default = ""
    if field.default not in (None, MISSING):
        default = f" (default: {field.default:g})"
    flag = f"--{field.name.replace('_', '-')}"
    return flag, {"default": argparse.SUPPRESS, **settings}, field.metadata["help"] + default


DESCRIPTION = (
    "Train the position rows that the strategy pi or rp has added to a model with absolute positions. All other "
    "weights stay as they are."
)
OPTIONS: Options = {"": [
    ("model", {}, "such as e5-base+pi@4096"),
    ("--data", {"required": True}, "file (.jsonl, .csv, .parquet), folder or hub dataset"),
    ("--output-folder", {"dest": "out", "required": True, "type": Path, "metavar": "DIR"},
     "folder for the tuned model; the same command resumes an interrupted run there"),
    *map(_option, fields(TuningSettings)),
    DEVICE,
    TRUST,
]}  # fmt: skip


def main(args: argparse.Namespace) -> int:
    """Train the rows of one model.

    Args:
        args: the options, by the names of `mteb_longembed.tuning.trainer.tune`.

    Returns:
        The exit status.

    Raises:
        LongEmbedError: as `tune` does.
    """
    from mteb_longembed.tuning.trainer import tune

    tune(**{key: value for key, value in vars(args).items() if key != "command"})
    print(f"tuned model in {args.out}: mteb run -m {args.out}")
    return 0
