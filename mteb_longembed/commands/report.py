"""`mteb-longembed report`: makes tables, figures and one page from result folders."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from mteb_longembed import __version__
from mteb_longembed.commands import Options
from mteb_longembed.errors import InputError
from mteb_longembed.reports import html_page
from mteb_longembed.reports.figures import heat_maps, strategies
from mteb_longembed.reports.figures.drawing import Drawing
from mteb_longembed.reports.safe_files import make_folder, write_file
from mteb_longembed.reports.scores.base_groups import group_by_base
from mteb_longembed.reports.scores.results import load_results
from mteb_longembed.reports.scores.scoreboard import Line, score_lines
from mteb_longembed.reports.tables import paper_tables
from mteb_longembed.reports.tables.public_ranking import public_table
from mteb_longembed.reports.tables.table import Table
from mteb_longembed.reports.writers import WRITERS, show

DESCRIPTION = (
    "Make the tables and figures of the LongEmbed paper from MTEB result folders, or rank public results."
)
EPILOG = "example: mteb-longembed report results/ --compare-published --html report.html"

OPTIONS: Options = {
    "": [
        ("results", {"nargs": "*", "type": Path, "metavar": "RESULTS"},
         "folders that `mteb run` wrote (its default is results/), or copies of mteb's public results; subfolders are "
         "searched too; not needed with --published"),
    ],
    "tables": [
        ("--published", {"action": "store_true"},
         "rank the LongEmbed scores of mteb's public results, of RESULTS and of the paper in one table"),
        ("--compare-published", {"action": "store_true"}, "show the paper's numbers beside these"),
    ],
    "output": [
        ("--format", {"choices": list(WRITERS), "default": "terminal"},
         "format of the tables (default: terminal)"),
        ("--output-folder", {"type": Path, "metavar": "DIR"},
         "write one file per table into DIR instead of printing"),
        ("--figures", {"type": Path, "metavar": "DIR"}, "write the figures as PNG and SVG into DIR"),
        ("--html", {"type": Path, "metavar": "FILE"},
         "write one self-contained page with tables and figures"),
    ],
}  # fmt: skip


def main(args: argparse.Namespace) -> int:
    """Read results, then print or write tables, figures and the page.

    Args:
        args: the options, by their names in `OPTIONS`.

    Returns:
        The exit status: 0, also if some files were skipped. Each of them is named on standard error.

    Raises:
        InputError: if there are no results of LongEmbed tasks, or a path cannot be written.
    """
    _check(args)
    results, problems = load_results(args.results)
    for problem in problems:
        print(f"warning: {problem}", file=sys.stderr)
    if args.results and not results:
        paths = ", ".join(map(str, args.results))
        raise InputError(
            f"no results of LongEmbed tasks were found in {paths}; variants of tasks have no column here, and "
            "compare writes its own page."
        )
    lines = score_lines(results)
    tables = [table.without_empty_columns() for table in _tables(args, lines)]
    _write_tables(args, tables)
    # If standard output has tables for other programs, it must have nothing else.
    out = sys.stderr
    if args.output_folder or args.format == "terminal":
        out = sys.stdout
    drawings = []
    if args.figures or args.html:
        drawings = _drawings(lines)
    if args.figures:
        for drawing in drawings:
            print(*drawing.save(args.figures), sep="\n", file=out)
    if args.html:
        write_file(args.html, _page(tables, drawings, problems))
        print(args.html, file=out)
    return 0


def _check(args: argparse.Namespace) -> None:
    """Refuse what cannot work, and make the folders, before anything is read."""
    if not args.results and not args.published:
        raise InputError("there is nothing to report: give RESULTS folders, or --published, or both.")
    page_folder = args.html and args.html.parent
    folders = {"--output-folder": args.output_folder, "--figures": args.figures, "--html": page_folder}
    for option, folder in folders.items():
        if folder is not None:
            make_folder(f"what {option} writes into", folder)
    if args.html and args.html.is_dir():
        raise InputError(f"--html writes one file, but {str(args.html)!r} is a folder: give a file in it.")


def _tables(args: argparse.Namespace, lines: Sequence[Line]) -> list[Table]:
    """All tables that were asked for, in the order in which they are shown."""
    tables = paper_tables.main_tables(lines)
    if args.published:
        tables.insert(0, public_table(lines))
    tables += paper_tables.strategy_tables(lines)
    tables += paper_tables.length_tables(lines)
    if args.compare_published:
        tables += paper_tables.comparison_tables(lines)
    return tables


def _drawings(lines: Sequence[Line]) -> list[Drawing]:
    """All figures for which there are results."""
    drawings = heat_maps.draw(lines)
    for group in group_by_base(lines):
        drawings += strategies.draw(group)
    return drawings


def _page(tables: Sequence[Table], drawings: Sequence[Drawing], problems: Sequence[str]) -> str:
    """The page; one's own models come first, and the public ones are folded."""
    written = f"{datetime.now(UTC).date().isoformat()}, by mteb-longembed {__version__}"
    return html_page.write(
        html_page.Page(
            title="LongEmbed report",
            tables=sorted(tables, key=lambda table: table.is_folded),
            drawings=drawings,
            problems=problems,
            facts=[("Written", written)],
        )
    )


def _write_tables(args: argparse.Namespace, tables: Sequence[Table]) -> None:
    """Write one file for each table, or print them all."""
    write, suffix = WRITERS[args.format]
    if args.output_folder:
        for table in tables:
            path = args.output_folder / f"{table.key}{suffix}"
            write_file(path, write([table]))
            print(path)
    elif args.format == "terminal" and sys.stdout.isatty():
        show(tables, Console())
    else:
        print(write(tables), end="")
