"""The arguments of `mteb-longembed tune`, and what it does with them."""

from __future__ import annotations

import argparse
from pathlib import Path

#: Option of `tune` -> its type and what it means. Defaults are those of the function, which is imported (with
#: torch) only when it runs; the test compares the two.
OPTIONS: dict[str, tuple[type, str]] = {
    "epochs": (float, "passes over the data (default: 3)"),
    "batch_size": (int, "rows that serve as each other's negatives (default: 512)"),
    "mini_batch_size": (int, "rows in memory at once (default: 32)"),
    "lr": (float, "highest learning rate (default: 0.0005)"),
    "warmup_steps": (int, "steps of linear warm-up (default: 100)"),
    "weight_decay": (float, "weight decay of the new rows (default: 0.01)"),
    "temperature": (float, "temperature of InfoNCE (default: 0.01)"),
    "n_negatives": (int, "hard negatives a row; missing ones are drawn (default: 7)"),
    "max_len": (int, "tokens of a query or document (default: 192)"),
    "save_steps": (int, "steps between checkpoints (default: 100)"),
    "max_steps": (int, "steps in place of --epochs"),
    "seed": (int, "of data order, drawn negatives and positions (default: 42)"),
    "device": (str, "cpu, cuda, cuda:1, mps, ... (default: the best there is)"),
}
SWITCHES = {
    "bf16": "mixed precision (default: where a GPU supports it)",
    "trust_remote_code": "run the repository's own model code",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the sub-command."""
    parser.description = "Train the position rows that pi or rp added to a model with absolute positions."
    parser.add_argument("model", help="such as e5-base+pi@4096")
    parser.add_argument("--data", required=True, help="file (.jsonl, .csv, .parquet), folder or hub dataset")
    parser.add_argument("--out", required=True, type=Path, help="folder for the tuned model; resumes there")
    for name, (kind, text) in OPTIONS.items():
        parser.add_argument(_flag(name), type=kind, default=argparse.SUPPRESS, help=text)
    for name, text in SWITCHES.items():
        parser.add_argument(_flag(name), action="store_true", default=argparse.SUPPRESS, help=text)


def main(args: argparse.Namespace) -> int:
    """Run the sub-command; the exit status."""
    from mteb_longembed.tuning.trainer import tune

    given = {name: getattr(args, name) for name in (*OPTIONS, *SWITCHES) if hasattr(args, name)}
    tune(args.model, args.data, args.out, **given)
    print(f"tuned model in {args.out}: mteb run -m {args.out}")
    return 0


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
