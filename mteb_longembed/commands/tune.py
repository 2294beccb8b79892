"""`mteb-longembed tune`: its options are the fields of `TuningSettings`."""

from __future__ import annotations

import argparse
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

from mteb_longembed.tuning.settings import TuningSettings

_TYPES = {"int": int, "float": float, "int | None": int}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the sub-command."""
    parser.description = (
        "Train the position rows that the strategy pi or rp has added to a model with absolute positions. All other "
        "weights stay as they are."
    )
    parser.add_argument("model", help="such as e5-base+pi@4096")
    parser.add_argument("--data", required=True, help="file (.jsonl, .csv, .parquet), folder or hub dataset")
    parser.add_argument(
        "--output-folder",
        required=True,
        type=Path,
        help="folder for the tuned model; the same command resumes an interrupted run there",
    )
    for each in fields(TuningSettings):
        kind = _TYPES.get(str(each.type))
        how: dict[str, Any] = {"action": "store_true"} if kind is None else {"type": kind}
        parser.add_argument(_flag(each.name), default=argparse.SUPPRESS, help=_help(each), **how)
    parser.add_argument("--device", help="cpu, cuda, cuda:1, mps, ... (default: the best of this machine)")
    parser.add_argument(
        "--trust-remote-code", action="store_true", help="run the repository's own model code"
    )


def main(args: argparse.Namespace) -> int:
    """Run the sub-command; return the exit status."""
    from mteb_longembed.tuning.trainer import tune

    given = {
        each.name: getattr(args, each.name) for each in fields(TuningSettings) if hasattr(args, each.name)
    }
    tune(
        args.model,
        args.data,
        args.output_folder,
        device=args.device,
        trust_remote_code=args.trust_remote_code,
        **given,
    )
    print(f"tuned model in {args.output_folder}: mteb run -m {args.output_folder}")
    return 0


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _help(each: Field[Any]) -> str:
    default = "" if each.default in (None, MISSING) else f" (default: {each.default:g})"
    return each.metadata["help"] + default
