"""`mteb-longembed export`: a plain checkpoint that needs none of our code."""

import argparse
import json

from mteb_longembed.commands import JSON, Options

DESCRIPTION = "Write an extended model as a checkpoint that needs none of our code."
OPTIONS: Options = {"": [
    ("model", {"metavar": "MODEL"}, "a name such as e5-base+pi@4096, or a folder of ours"),
    ("folder", {"metavar": "FOLDER"}, "where to write it; must be empty or not exist"),
    ("--trust-remote-code", {"action": "store_true"}, "run the base's own model code"),
    JSON,
]}  # fmt: skip


def main(args: argparse.Namespace) -> int:
    """Export, and say what the written folder has not.

    Raises:
        LongEmbedError: as `mteb_longembed.export` does.
    """
    from mteb_longembed.encoders.export import export

    lost = export(args.model, args.folder, trust_remote_code=args.trust_remote_code)
    if args.json:
        print(json.dumps({"folder": args.folder, "not_in_it": lost}, indent=2))
        return 0
    print(f"wrote {args.folder}")
    for sentence in lost:
        print(f"not in it: {sentence}")
    return 0
