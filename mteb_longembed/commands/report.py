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
from mteb_longembed.errors import DataError, InputError
from mteb_longembed.reports.figures import bars, cells, curves
from mteb_longembed.reports.figures.drawing import Drawing
from mteb_longembed.reports.files import make_folder, write_file
from mteb_longembed.reports.overview import overview
from mteb_longembed.reports.scores.bases import given_name, group_by_base
from mteb_longembed.reports.scores.predictions import (
    DepthPoint,
    Predictions,
    depth_points,
    load_predictions,
    query_scores,
)
from mteb_longembed.reports.scores.public_results import parse_range, public_results
from mteb_longembed.reports.scores.published import COLUMNS, column_of
from mteb_longembed.reports.scores.results import Results, load_results
from mteb_longembed.reports.scores.scoreboard import AVERAGE, Line, QueryScores, score_lines
from mteb_longembed.reports.tables.public import WINDOWS, Filter, public_table
from mteb_longembed.reports.tables.scores import (
    beir_table,
    comparison_tables,
    length_tables,
    main_tables,
    statistics_table,
    strategy_tables,
    variants_table,
)
from mteb_longembed.reports.tables.table import Table, places_table
from mteb_longembed.reports.writers import WRITERS, show
from mteb_longembed.statistics.sensitivity import position_sensitivity

_SCORES = (AVERAGE, *(column.key for column in COLUMNS))
DESCRIPTION = (
    "Make the tables and figures of the LongEmbed paper from MTEB result folders, also beside mteb's public results. "
    "Write model names (A, B, BEFORE ...) as the tables print them, such as intfloat/e5-base-v2+pi@4096. A shorter "
    "name such as e5-base+pi is enough if only one model fits it."
)
EPILOG = "example: mteb-longembed report results/ --compare-published --html report.html"


def _range(text: str) -> tuple[float, float]:
    try:
        return parse_range(text)
    except InputError as error:  # argparse would replace the sentence of any other ValueError
        raise argparse.ArgumentTypeError(str(error)) from None


def _warn(sentence: str) -> None:
    print(f"warning: {sentence}", file=sys.stderr)


OPTIONS: Options = {
    "": [
        ("results", {"nargs": "*", "type": Path, "metavar": "RESULTS"},
         "folders that `mteb run` wrote (its default is results/), or copies of mteb's public results; subfolders are "
         "searched too; not needed with --published"),
    ],
    "public results": [
        ("--published", {"action": "store_true"},
         "rank the LongEmbed scores of mteb's public results, of RESULTS and of the paper in one table"),
        ("--size", {"type": _range, "metavar": "MIN-MAX"},
         "only models with a number of parameters in this range, such as 100M-1B, -500M or 1B-"),
        ("--advertised", {"type": _range, "metavar": "MIN-MAX"},
         "only models that advertise a length in this range of tokens, such as 8k-"),
        ("--window", {"choices": WINDOWS},
         "only models whose scores look as if texts were cut near this number of tokens; mismatch: only marked models"),
    ],
    "output (figures need pip install 'mteb-longembed[figures]')": [
        ("--format", {"choices": list(WRITERS), "default": "terminal"},
         "format of the tables (default: terminal)"),
        ("--output-folder", {"type": Path, "metavar": "DIR"},
         "write one file per table into DIR instead of printing"),
        ("--figures", {"type": Path, "metavar": "DIR"}, "write the figures as PNG and SVG into DIR"),
        ("--html", {"type": Path, "metavar": "FILE"},
         "write one self-contained page with tables and figures"),
    ],
    "more tables": [
        ("--compare-published", {"action": "store_true"},
         "show the numbers of the paper and of its authors beside these, also in the heat maps"),
        ("--beir", {"nargs": 2, "metavar": ("A", "B")},
         "the two models of the BEIR table (default: the first two)"),
        ("--statistics", {"action": "store_true"},
         "the published numbers and lengths of queries and documents"),
    ],
    "what figures show": [
        ("--score", {"choices": _SCORES, "default": AVERAGE, "metavar": "SCORE"},
         f"the score in the figures over target lengths: {', '.join(_SCORES)} (default: {AVERAGE})"),
        ("--tuned", {"nargs": 2, "action": "append", "default": [], "metavar": ("BEFORE", "AFTER")},
         "a model before and after tuning, for the figure of the gain by tuning; repeat for each pair"),
    ],
    "query by query": [
        ("--predictions", {"nargs": "+", "type": Path, "default": [], "metavar": "DIR"},
         "folders of `mteb run --prediction-folder`, one for each model; also gives figures by depth"),
    ],
}  # fmt: skip


def main(args: argparse.Namespace) -> int:
    """Run `report`; the exit status is 0, also if some files were skipped (each is named on standard error)."""
    _check(args)
    results = load_results(args.results)
    predictions, more_problems = load_predictions(args.predictions)
    problems = [*results.problems, *more_problems]
    for problem in problems:
        _warn(problem)
    if args.results and not results.rows:
        folders = ", ".join(map(str, args.results))
        raise InputError(f"no results of LongEmbed or BEIR tasks were found in {folders}.")
    by_query = _by_query(results, predictions)
    lines = score_lines(results.rows, by_query)
    names = {line.model.name.full for line in lines}
    args.tuned = [
        tuple(given_name("model in the results", name, names) for name in pair) for pair in args.tuned
    ]
    for group in group_by_base(lines):
        if group.warning:
            _warn(f"{group.label}: {group.warning}")
    depths = _depths(results, predictions)
    made = _tables(args, results, lines, by_query) + ([_places(depths)] if depths else [])
    tables = [table.without_empty_columns() for table in made]
    drawings = _drawings(args, lines, depths) if args.figures or args.html else []
    _write_tables(args, tables)
    # If standard output has tables for other programs, it must have nothing else.
    out = sys.stdout if args.output_folder or args.format == "terminal" else sys.stderr
    for drawing in drawings if args.figures else ():
        print(*drawing.save(args.figures), sep="\n", file=out)
    if args.html:
        # Imported here, because an ordinary report does not need it.
        from mteb_longembed.reports import html_page

        written = f"{datetime.now(UTC).date().isoformat()}, by mteb-longembed {__version__}"
        public = public_results() if args.published else None
        head = overview(results.rows, lines, written=written, public=public)
        # One's own models come first; the public rows are folded.
        ordered = sorted(tables, key=lambda table: table.is_folded)
        write_file(args.html, html_page.write(ordered, drawings, problems, head))
        print(args.html, file=out)
    return 0


def _check(args: argparse.Namespace) -> None:
    """Refuse what cannot work, and make the folders, before anything is read."""
    if not args.results and not args.published:
        raise InputError("there is nothing to report: give RESULTS folders, or --published, or both.")
    for option in ("size", "advertised", "window"):
        if getattr(args, option) and not args.published:
            raise InputError(f"--{option} works only on the public results: give --published too.")
    folders = {
        "--output-folder": args.output_folder,
        "--figures": args.figures,
        "--html": args.html and args.html.parent,
    }
    for option, folder in folders.items():
        if folder is not None:
            make_folder(f"what {option} writes into", folder)
    if args.html and args.html.is_dir():
        raise InputError(f"--html writes one file, but {str(args.html)!r} is a folder: give a file in it.")


def _tables(
    args: argparse.Namespace,
    results: Results,
    lines: Sequence[Line],
    by_query: QueryScores,
) -> list[Table]:
    tables = [*main_tables(lines), *strategy_tables(lines), *length_tables(lines)]
    if args.published:
        chosen = Filter(args.size, args.advertised, args.window)
        tables.insert(0, public_table(public_results(), lines, chosen))
    if variants := variants_table(results.rows, by_query):
        tables.append(variants)
    beir = beir_table(results.rows, args.beir and tuple(args.beir), by_query)
    if beir is not None:
        tables.append(beir)
    if args.compare_published:
        tables += comparison_tables(lines)
    if args.statistics:
        tables.append(statistics_table())
    return tables


def _drawings(args: argparse.Namespace, lines: Sequence[Line], depths: Sequence[_Depths]) -> list[Drawing]:
    return [
        *map(cells.draw, cells.by_model(lines, args.compare_published)),
        *(cells.draw(cells.by_depth(item.model, item.task, points)) for item, points in depths),
        *map(bars.draw, bars.improvement(lines)),
        *map(curves.draw_targets, curves.targets(lines, args.score)),
        *map(bars.draw, bars.tuning(lines, args.tuned)),
        *map(curves.draw_positions, curves.positions(lines, args.score)),
    ]


def _by_query(results: Results, predictions: Sequence[Predictions]) -> QueryScores:
    """The scores of single queries, for tasks whose data can be loaded."""
    found = {}
    for item in predictions:
        try:
            found[item.model, item.revision, item.task] = query_scores(item, results.rows)
        except DataError as error:
            _warn(f"no intervals from the predictions of {item.model}: {error}")
    return found


#: The rankings of one model on one task, and the place of each answer.
_Depths = tuple[Predictions, Sequence[DepthPoint]]


def _places(found: Sequence[_Depths]) -> Table:
    rows = []
    for item, points in found:
        known = position_sensitivity([p.score for p in points], [p.depth for p in points])
        if known is not None:
            rows.append((item.model, item.task, len(points), known))
    return places_table(rows)


def _depths(results: Results, predictions: Sequence[Predictions]) -> list[_Depths]:
    found: list[_Depths] = []
    for item in predictions:
        column = column_of(item.task)
        if column is not None and column.is_by_length:
            try:
                found.append((item, depth_points(item, results.rows)))
            except DataError as error:
                # The published Passkey and Needle data do not say where the answers are.
                _warn(f"no places of the answers of {item.model} on {item.task}: {error}")
    return found


def _write_tables(args: argparse.Namespace, tables: Sequence[Table]) -> None:
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
