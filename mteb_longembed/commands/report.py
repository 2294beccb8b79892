"""`mteb-longembed report`: makes tables, figures and one page from result folders."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from mteb_longembed import __version__
from mteb_longembed.errors import DataError, InputError
from mteb_longembed.reports.figures import depth, heatmap, improvement, positions, targets, tuning
from mteb_longembed.reports.figures.drawing import Drawing
from mteb_longembed.reports.overview import Overview, overview
from mteb_longembed.reports.public.public_results import REPOSITORY, parse_range, public_results, refresh
from mteb_longembed.reports.scores.bases import group_by_base
from mteb_longembed.reports.scores.columns import COLUMNS
from mteb_longembed.reports.scores.given_names import given_name
from mteb_longembed.reports.scores.predictions import (
    Predictions,
    depth_points,
    load_predictions,
    query_scores,
)
from mteb_longembed.reports.scores.results import Results, load_results
from mteb_longembed.reports.scores.scoreboard import AVERAGE, Line, QueryScores, score_lines
from mteb_longembed.reports.scores.significance import Comparison, compare_models, significance_table
from mteb_longembed.reports.tables.beir import beir_table
from mteb_longembed.reports.tables.main import length_tables, main_tables
from mteb_longembed.reports.tables.public import WINDOWS, Filter, n_mismatches, public_table
from mteb_longembed.reports.tables.published import comparison_tables
from mteb_longembed.reports.tables.statistics import count_statistics, statistics_table
from mteb_longembed.reports.tables.strategies import strategy_tables
from mteb_longembed.reports.tables.table import Table
from mteb_longembed.reports.writers import WRITERS
from mteb_longembed.reports.writers.terminal import show

_SCORES = (AVERAGE, *(column.key for column in COLUMNS))


def _range(text: str) -> tuple[float, float]:
    try:
        return parse_range(text)
    except InputError as error:  # argparse would replace the sentence of any other ValueError
        raise argparse.ArgumentTypeError(str(error)) from None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `report` to a parser."""
    parser.description = (
        "Make the tables and figures of the LongEmbed paper from MTEB result folders, also beside mteb's public "
        "results. Write model names (A, B, BEFORE ...) as the tables print them, such as "
        "intfloat/e5-base-v2+pi@4096. A shorter name such as e5-base+pi is enough if only one model fits it. Write "
        "bases without a strategy."
    )
    parser.epilog = "example: mteb-longembed report results/ --compare-published --html report.html"
    parser.add_argument(
        "results",
        nargs="*",
        type=Path,
        metavar="RESULTS",
        help="folders that `mteb run` wrote (its default is results/), or copies of mteb's public results; "
        "subfolders are searched too; not needed with --published",
    )
    public = parser.add_argument_group("public results")
    public.add_argument(
        "--published",
        action="store_true",
        help="rank the LongEmbed scores of mteb's public results, of RESULTS and of the paper in one table",
    )
    public.add_argument(
        "--size",
        type=_range,
        metavar="MIN-MAX",
        help="only models with a number of parameters in this range, such as 100M-1B, -500M or 1B-",
    )
    public.add_argument(
        "--advertised",
        type=_range,
        metavar="MIN-MAX",
        help="only models that advertise a length in this range of tokens, such as 8k-",
    )
    public.add_argument(
        "--window",
        choices=WINDOWS,
        help="only models whose scores look as if texts were cut near this number of tokens; mismatch: only marked "
        "models",
    )
    public.add_argument(
        "--refresh",
        type=Path,
        metavar="GIT_CLONE",
        help=f"first rebuild the public results from a clone of {REPOSITORY}",
    )
    out = parser.add_argument_group("output (figures need pip install 'mteb-longembed[figures]')")
    out.add_argument(
        "--format", choices=list(WRITERS), default="terminal", help="format of the tables (default: terminal)"
    )
    out.add_argument(
        "--output", type=Path, metavar="DIR", help="write one file per table into DIR instead of printing"
    )
    out.add_argument("--figures", type=Path, metavar="DIR", help="write the figures as PNG and SVG into DIR")
    out.add_argument(
        "--html", type=Path, metavar="FILE", help="write one self-contained page with tables and figures"
    )
    more = parser.add_argument_group("more tables")
    more.add_argument(
        "--compare-published",
        action="store_true",
        help="show the numbers of the paper and of its authors beside these, also in the heat maps",
    )
    more.add_argument(
        "--beir",
        nargs=2,
        metavar=("A", "B"),
        help="the two models of the BEIR table (default: the first two)",
    )
    more.add_argument(
        "--statistics",
        nargs="*",
        metavar="TASK",
        help="numbers and lengths of queries and documents: the published ones, and counts in the data of each TASK",
    )
    figures = parser.add_argument_group("what figures show")
    figures.add_argument(
        "--score",
        choices=_SCORES,
        default=AVERAGE,
        metavar="SCORE",
        help=f"the score in the figures over target lengths: {', '.join(_SCORES)} (default: {AVERAGE})",
    )
    figures.add_argument(
        "--bases",
        nargs="+",
        metavar="BASE",
        help="the bases in the figure by strategy and target length, in this order (default: all)",
    )
    figures.add_argument(
        "--tuned",
        nargs=2,
        action="append",
        default=[],
        metavar=("BEFORE", "AFTER"),
        help="a model before and after tuning, for the figure of the gain by tuning; repeat for each pair",
    )
    figures.add_argument(
        "--absolute",
        nargs="+",
        metavar="BASE",
        help="bases with absolute positions, for the figure that compares them with rotary ones "
        "(default: the paper's)",
    )
    figures.add_argument("--rotary", nargs="+", metavar="BASE", help="the rotary bases of that figure")
    queries = parser.add_argument_group("query by query")
    queries.add_argument(
        "--predictions",
        nargs="+",
        type=Path,
        default=[],
        metavar="DIR",
        help="folders of `mteb run --prediction-folder`, one for each model; also gives figures by depth",
    )
    queries.add_argument(
        "--significance",
        nargs=2,
        metavar=("A", "B"),
        help="test whether B differs from A; needs --predictions of both",
    )


def main(args: argparse.Namespace) -> int:
    """Run `report`.

    Args:
        args: The arguments of `add_arguments`.

    Returns:
        The exit status: 0, also if some files were skipped (each is named on standard error).

    Raises:
        InputError: If an option is wrong, or there is no result at all.
    """
    _check(args)
    _make_folders(args)
    if args.refresh:
        commit = refresh(args.refresh)
        print(f"packed the public results of {args.refresh} at {commit[:12]}", file=sys.stderr)
    results = load_results(args.results)
    predictions, more_problems = load_predictions(args.predictions)
    problems = [*results.problems, *more_problems]
    for problem in problems:
        print(f"warning: {problem}", file=sys.stderr)
    if args.results and not results.rows:
        folders = ", ".join(map(str, args.results))
        raise InputError(f"no results of LongEmbed or BEIR tasks were found in {folders}.")
    by_query = _by_query(results, predictions)
    lines = score_lines(results.rows, by_query)
    _resolve_names(args, lines)
    comparisons = _comparisons(args, results, predictions)
    tables = [table.without_empty_columns() for table in _tables(args, results, lines, comparisons, by_query)]
    drawings: list[Drawing] = []
    if args.figures or args.html:
        drawings = _drawings(args, results, lines, predictions)
    _write_tables(args, tables)
    # If standard output has tables for other programs, it must have nothing else.
    told = sys.stdout if args.output or args.format == "terminal" else sys.stderr
    if args.figures:
        for drawing in drawings:
            try:
                for path in drawing.save(args.figures):
                    print(path, file=told)
            except OSError as error:
                raise InputError(f"{str(args.figures)!r} cannot be written: {error.strerror}.") from None
    if args.html:
        # Imported here, because an ordinary report does not need it.
        from mteb_longembed.reports import html_page

        head = _overview(args, results, lines, comparisons)
        _write_text(args.html, html_page.write(tables, drawings, problems, head))
        print(args.html, file=told)
    return 0


def _resolve_names(args: argparse.Namespace, lines: Sequence[Line]) -> None:
    """Replace the names that the user typed with the full names in the results."""
    names = {line.model.name.full for line in lines}
    bases = {group.base for group in group_by_base(lines)}
    args.tuned = [[given_name("model in the results", name, names) for name in pair] for pair in args.tuned]
    for option in ("bases", "absolute", "rotary"):
        typed = getattr(args, option)
        if typed:
            setattr(args, option, [given_name("extended base in the results", name, bases) for name in typed])


def _make_folders(args: argparse.Namespace) -> None:
    """Make the output folders before anything is read, so that an error comes at once."""
    for option, folder in (
        ("--output", args.output),
        ("--figures", args.figures),
        ("--html", args.html and args.html.parent),
    ):
        if folder is None:
            continue
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise InputError(
                f"{option} writes into a folder, but {str(folder)!r} is a file: give another folder."
            ) from None
        except OSError as error:
            raise InputError(f"{option} cannot make the folder {str(folder)!r}: {error.strerror}.") from None
    if args.html and args.html.is_dir():
        raise InputError(f"--html writes one file, but {str(args.html)!r} is a folder: give a file in it.")


def _write_text(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{str(path)!r} cannot be written: {error.strerror}.") from None


def _check(args: argparse.Namespace) -> None:
    if not args.results and not args.published:
        raise InputError("there is nothing to report: give RESULTS folders, or --published, or both.")
    filters = {"--size": args.size, "--advertised": args.advertised, "--window": args.window}
    given = [name for name, value in {**filters, "--refresh": args.refresh}.items() if value]
    if given and not args.published:
        raise InputError(f"{given[0]} works only on the public results: give --published too.")
    if args.significance and not args.predictions:
        raise InputError("--significance compares each query: give --predictions DIR with both models.")
    if bool(args.absolute) != bool(args.rotary):
        raise InputError("--absolute and --rotary are compared with each other: give both options.")


def _tables(
    args: argparse.Namespace,
    results: Results,
    lines: Sequence[Line],
    comparisons: Sequence[Comparison],
    by_query: QueryScores,
) -> list[Table]:
    tables = [*main_tables(lines), *strategy_tables(lines), *length_tables(lines)]
    if args.published:
        chosen = Filter(args.size, args.advertised, args.window)
        tables.insert(0, public_table(public_results(), lines, chosen))
    beir = beir_table(results.rows, None if args.beir is None else tuple(args.beir), by_query)
    if beir is not None:
        tables.append(beir)
    if args.compare_published:
        tables += comparison_tables(lines)
    if args.statistics is not None:
        tables.append(statistics_table([row for name in args.statistics for row in count_statistics(name)]))
    if args.significance:
        tables.append(significance_table(comparisons, tuple(args.significance)))
    return tables


def _comparisons(
    args: argparse.Namespace, results: Results, predictions: Sequence[Predictions]
) -> list[Comparison]:
    if not args.significance:
        return []
    known = {item.model for item in predictions}
    args.significance = [given_name("model with predictions", name, known) for name in args.significance]
    return compare_models(predictions, results.rows, tuple(args.significance))


def _overview(
    args: argparse.Namespace, results: Results, lines: Sequence[Line], comparisons: Sequence[Comparison]
) -> Overview:
    written = f"{datetime.now(UTC).date().isoformat()}, by mteb-longembed {__version__}"
    if not args.published:
        return overview(results.rows, lines, written=written, comparisons=comparisons)
    public = public_results()
    return overview(
        results.rows,
        lines,
        written=written,
        public_commit=public.commit,
        n_public=len(public.lines),
        n_mismatches=n_mismatches(public),
        comparisons=comparisons,
    )


def _drawings(
    args: argparse.Namespace, results: Results, lines: Sequence[Line], predictions: Sequence[Predictions]
) -> list[Drawing]:
    kinds = None
    if args.absolute:
        kinds = dict.fromkeys(args.absolute, positions.ABSOLUTE) | dict.fromkeys(
            args.rotary, positions.ROTARY
        )
    return [
        *map(heatmap.draw, heatmap.heatmap_data(lines, args.compare_published)),
        *map(depth.draw, _depths(results, predictions)),
        *map(improvement.draw, improvement.improvement_data(lines)),
        *map(targets.draw, targets.targets_data(lines, args.score, args.bases)),
        *map(tuning.draw, tuning.tuning_data(lines, [tuple(pair) for pair in args.tuned])),
        *map(positions.draw, positions.positions_data(lines, args.score, kinds)),
    ]


def _by_query(results: Results, predictions: Sequence[Predictions]) -> QueryScores:
    """The scores of single queries, for tasks whose data can be loaded."""
    found = {}
    for item in predictions:
        try:
            scores = query_scores(item, results.rows)
        except DataError as error:
            print(f"warning: no intervals from the predictions of {item.model}: {error}", file=sys.stderr)
            continue
        found[item.model, item.revision, item.task] = scores
    return found


def _depths(results: Results, predictions: Sequence[Predictions]) -> list[depth.DepthData]:
    found = []
    by_length = {name for column in COLUMNS if column.is_by_length for name in column.tasks.values()}
    for item in predictions:
        if item.task not in by_length:
            continue
        try:
            points = depth_points(item, results.rows)
        except DataError as error:
            # The published Passkey and Needle data do not say where the answers are. The other maps are drawn.
            print(f"warning: no depth map of {item.model} on {item.task}: {error}", file=sys.stderr)
            continue
        found.append(depth.depth_data(item.model, item.task, points))
    return found


def _write_tables(args: argparse.Namespace, tables: Sequence[Table]) -> None:
    write, suffix = WRITERS[args.format]
    if args.output:
        for table in tables:
            path = args.output / f"{table.key}{suffix}"
            _write_text(path, write([table]))
            print(path)
    elif args.format == "terminal" and sys.stdout.isatty():
        show(tables, Console())
    else:
        print(write(tables), end="")
