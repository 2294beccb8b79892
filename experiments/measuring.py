"""What the scripts that measure collections share: their command line, and how a table gets into a page."""

import argparse
from collections.abc import Callable
from pathlib import Path


def run(
    description: str | None, measure: Callable[[Path, Path, str], None], page: Callable[[], None]
) -> None:
    """Read the command line of a script: measure collections with a model, or write the page.

    Args:
        description: of the script.
        measure: gets the folder of a collection, the folder of the model, and its compute type.
        page: writes the page.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    measured = commands.add_parser("measure")
    measured.add_argument("collections", type=Path)
    measured.add_argument("model", type=Path)
    measured.add_argument("names", nargs="*", help="default: all folders")
    measured.add_argument("--dtype", default="fp32", help="of the model: fp32 or bf16")
    commands.add_parser("page")
    args = parser.parse_args()
    if args.command == "page":
        page()
        return
    for name in args.names or sorted(folder.name for folder in args.collections.iterdir()):
        measure(args.collections / name, args.model, args.dtype)


def write_part(file: Path, name: str, part: str) -> None:
    """Replace what stands in a page between the comments `NAME: begin` and `NAME: end`."""
    text = file.read_text(encoding="utf-8")
    head, begin, rest = text.partition(f"<!-- {name}: begin -->")
    _, end, tail = rest.partition(f"<!-- {name}: end -->")
    file.write_text(f"{head}{begin}\n{part}\n{end}{tail}", encoding="utf-8")
