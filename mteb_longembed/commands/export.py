"""`mteb-longembed export`: a plain checkpoint that needs none of our code."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the sub-command."""
    parser.description = "Write an extended model as a checkpoint that needs none of our code."
    parser.add_argument("model", help="a name such as e5-base+pi@4096, or a folder of ours")
    parser.add_argument("folder", help="where to write it; must be empty or not exist")
    parser.add_argument("--results", help="folder of results whose scores go into the model card")
    parser.add_argument("--trust-remote-code", action="store_true", help="run the base's own model code")


def main(args: argparse.Namespace) -> int:
    """Export, and say what is lost; return the exit status."""
    from mteb_longembed.encoders.export import export

    lost = export(args.model, args.folder, trust_remote_code=args.trust_remote_code, results=args.results)
    print(f"wrote {args.folder}")
    for sentence in lost:
        print(f"not in it: {sentence}")
    return 0
