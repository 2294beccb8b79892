"""Show the gain of each strategy over its base, from the result folders of `mteb run`.

Example: mteb-longembed report results/ --figure by-length.svg
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from mteb_longembed import figures
from mteb_longembed.errors import InputError
from mteb_longembed.reports.results import load_results
from mteb_longembed.reports.strategies import (
    PUBLIC,
    averages_of,
    by_length,
    by_strategy,
    covers_benchmark,
    draw,
)


def _filled(table: pd.DataFrame, missing: str | None) -> pd.DataFrame:
    """Return the table with missing values replaced by another value."""
    return table.astype(object).where(table.notna(), missing)


#: Format -> the text of a table.
FORMATS: dict[str, Callable[[pd.DataFrame], str]] = {
    "terminal": lambda table: _filled(table, "-").to_string(index=False, float_format="{:.1f}".format),
    "csv": lambda table: table.to_csv(index=False, lineterminator="\n").rstrip("\n"),
    "markdown": lambda table: _filled(table, None).to_markdown(index=False, floatfmt=".1f", missingval="-"),
    "json": lambda table: table.to_json(orient="records", indent=1),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    text = "folders that `mteb run` wrote (its default is results/); subfolders are searched too"
    parser.add_argument("results", nargs="+", type=Path, metavar="RESULTS", help=text)
    text = "format of the table (default: terminal)"
    parser.add_argument("--format", choices=list(FORMATS), default="terminal", help=text)
    text = (
        "the scores of Passkey and Needle by length of the documents, one row for each model, as in the paper"
    )
    parser.add_argument("--by-length", action="store_true", help=text)
    text = "draw the scores by length of the documents into FILE: .svg, .png or .pdf"
    parser.add_argument("--figure", type=Path, metavar="FILE", help=text)
    text = "the same as --format json"
    parser.add_argument("--json", dest="format", action="store_const", const="json", help=text)


def main(args: argparse.Namespace) -> int:
    """Read results, print the table, and write the figure.

    Skipped files are listed on standard error.

    Raises:
        InputError: if there are no results of LongEmbed tasks, or the figure cannot be written, or
            --by-length finds no splits by length.
    """
    if args.figure:
        figures.prepare(args.figure)
    results, problems = load_results(args.results)
    for problem in problems:
        print(f"warning: {problem}", file=sys.stderr)
    if results.empty:
        paths = ", ".join(map(str, args.results))
        raise InputError(f"no results of LongEmbed tasks were found in {paths}: give a folder of `mteb run`.")
    print(FORMATS[args.format](by_length(results) if args.by_length else by_strategy(results)))
    if args.format == "terminal" and args.by_length:
        print(
            "not run: no result; > N: no result, and the documents are longer than the N tokens that the model reads."
        )
    elif args.format == "terminal" and not covers_benchmark(results):
        print("\n".join(averages_of(results)))
    elif args.format == "terminal":
        means = ", ".join(f"{name} {mean}" for name, mean in PUBLIC.items())
        print(f"Public means of LongEmbed (docs/tasks.md): {means}")
    if args.figure:
        figures.write(draw(results), args.figure)
    return 0
