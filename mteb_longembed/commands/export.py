"""`mteb-longembed export`: a plain checkpoint that needs none of our code."""

from __future__ import annotations

import argparse

from mteb_longembed.commands import Options

DESCRIPTION = "Write an extended model as a checkpoint that needs none of our code."
OPTIONS: Options = {"": [
    ("model", {}, "a name such as e5-base+pi@4096, or a folder of ours"),
    ("folder", {}, "where to write it; must be empty or not exist"),
    ("--trust-remote-code", {"action": "store_true"}, "run the base's own model code"),
]}  # fmt: skip


def main(args: argparse.Namespace) -> int:
    """Export, and say what the written folder has not.

    Raises:
        LongEmbedError: as `mteb_longembed.export` does.
    """
    from mteb_longembed.encoders.export import export

    lost = export(args.model, args.folder, trust_remote_code=args.trust_remote_code)
    print(f"wrote {args.folder}")
    for sentence in lost:
        print(f"not in it: {sentence}")
    return 0
