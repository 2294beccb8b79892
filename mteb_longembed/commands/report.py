"""`mteb-longembed report`: a table by strategy and a figure by length from folders of results."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from mteb_longembed import figures
from mteb_longembed.commands import Options
from mteb_longembed.errors import InputError
from mteb_longembed.reports import by_length
from mteb_longembed.reports.results import load_results
from mteb_longembed.reports.strategies import by_strategy

DESCRIPTION = "Show what each strategy gains over its base, from the result folders of `mteb run`."
EPILOG = "example: mteb-longembed report results/ --figure by-length.svg"


def _filled(table: pd.DataFrame, missing: str | None) -> pd.DataFrame:
    """The table with another value for what is missing."""
    return table.astype(object).where(table.notna(), missing)


#: Format -> the text of a table.
FORMATS: dict[str, Callable[[pd.DataFrame], str]] = {
    "terminal": lambda table: _filled(table, "-").to_string(index=False, float_format="{:.1f}".format),
    "csv": lambda table: table.to_csv(index=False, lineterminator="\n").rstrip("\n"),
    "markdown": lambda table: _filled(table, None).to_markdown(index=False, floatfmt=".1f", missingval="-"),
    "json": lambda table: table.to_json(orient="records", indent=1),
}
OPTIONS: Options = {
    "": [
        ("results", {"nargs": "+", "type": Path, "metavar": "RESULTS"},
         "folders that `mteb run` wrote (its default is results/); subfolders are searched too"),
        ("--format", {"choices": list(FORMATS), "default": "terminal"}, "format of the table (default: terminal)"),
        ("--figure", {"type": Path, "metavar": "FILE"},
         "draw the scores by length of the documents into FILE: .svg, .png or .pdf"),
        ("--json", {"dest": "format", "action": "store_const", "const": "json"}, "the same as --format json"),
    ],
}  # fmt: skip


def main(args: argparse.Namespace) -> int:
    """Read results, print the table, and write the figure.

    Files that are skipped are named on standard error.

    Raises:
        InputError: if there are no results of LongEmbed tasks, or the figure cannot be written.
    """
    if args.figure:
        figures.prepare(args.figure)
    results, problems = load_results(args.results)
    for problem in problems:
        print(f"warning: {problem}", file=sys.stderr)
    if results.empty:
        paths = ", ".join(map(str, args.results))
        raise InputError(f"no results of LongEmbed tasks were found in {paths}: give a folder of `mteb run`.")
    print(FORMATS[args.format](by_strategy(results)))
    if args.figure:
        figures.write(by_length.draw(results), args.figure)
    return 0
