"""Write an extended model as a checkpoint that needs none of our code."""

import argparse
import json
from pathlib import Path

from mteb_longembed.commands import JSON


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="a name such as e5-base+pi@4096, or the folder of a saved extended model",
    )
    parser.add_argument("folder", metavar="FOLDER", help="where to write it; must be empty or not exist")
    parser.add_argument("--trust-remote-code", action="store_true", help="run the base's own model code")
    parser.add_argument("--json", action="store_true", help=JSON)


def main(args: argparse.Namespace) -> int:
    """Export a model, and print how the exported folder differs from it.

    Raises:
        LongEmbedError: as `mteb_longembed.export` does.
    """
    from mteb_longembed.encoders.method import Method
    from mteb_longembed.files import check_empty
    from mteb_longembed.zoo import check_folder

    check_empty("the folder to export to", Path(args.folder))
    method = Method.parse_model(args.model)
    check_folder(method.base)
    method.check_plain()
    from mteb_longembed.encoders.export import export

    lost = export(args.model, args.folder, trust_remote_code=args.trust_remote_code)
    if args.json:
        print(json.dumps({"folder": args.folder, "differences": lost}, indent=2))
        return 0
    print(f"wrote {args.folder}")
    for sentence in lost:
        print(f"it differs from the model: {sentence}")
    return 0
