"""`mteb-longembed report`: makes tables, figures and one page from result folders."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, cast

from rich.console import Console

from mteb_longembed import __version__
from mteb_longembed.commands import Options
from mteb_longembed.errors import DataError, InputError, UnknownNameError
from mteb_longembed.reports import html_page
from mteb_longembed.reports.figures import bars, curves, heat_maps
from mteb_longembed.reports.figures.drawing import Drawing
from mteb_longembed.reports.overview import overview
from mteb_longembed.reports.safe_files import make_folder, write_file
from mteb_longembed.reports.scores.base_groups import group_by_base, shortened
from mteb_longembed.reports.scores.public_results import public_results
from mteb_longembed.reports.scores.published_numbers import COLUMNS, metric_of, split_length
from mteb_longembed.reports.scores.results import (
    DepthPoint,
    Predictions,
    Result,
    load_predictions,
    load_results,
)
from mteb_longembed.reports.scores.scoreboard import AVERAGE, Line, score_lines
from mteb_longembed.reports.tables.paper_tables import (
    comparison_tables,
    length_tables,
    main_tables,
    statistics_table,
    strategy_tables,
    variants_table,
)
from mteb_longembed.reports.tables.public_ranking import public_table
from mteb_longembed.reports.tables.table import Table, sensitivity_table
from mteb_longembed.reports.writers import WRITERS, show
from mteb_longembed.statistics.sensitivity import position_sensitivity

if TYPE_CHECKING:
    from mteb.abstasks import AbsTaskRetrieval

# Result files have five decimals.
_ROUNDING = 2e-5
_SCORES = (AVERAGE, *(column.key for column in COLUMNS))
DESCRIPTION = (
    "Make the tables and figures of the LongEmbed paper from MTEB result folders, also beside mteb's public results. "
    "Write model names (BEFORE, AFTER) as the tables print them, such as intfloat/e5-base-v2+pi@4096."
)
EPILOG = "example: mteb-longembed report results/ --compare-published --html report.html"


def _warn(sentence: str) -> None:
    """Say on standard error what was left out, or must be known about the report."""
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
    "more tables": [
        ("--compare-published", {"action": "store_true"},
         "show the numbers of the paper and of its authors beside these, also in the heat maps"),
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
         "folders of `mteb run --prediction-folder`, one for each model; also gives the places of answers"),
    ],
}  # fmt: skip


@dataclass(frozen=True)
class Request:
    """What a report shows, and where it is written: the options by their names."""

    results: Sequence[Path]
    published: bool
    format: str
    output_folder: Path | None
    figures: Path | None
    html: Path | None
    compare_published: bool
    statistics: bool
    score: str
    tuned: Sequence[Sequence[str]]
    predictions: Sequence[Path]


def main(args: argparse.Namespace) -> int:
    """Read results, then print or write tables, figures and the page.

    Args:
        args: the options, by the names of `Request`.

    Returns:
        The exit status: 0, also if some files were skipped. Each of them is named on standard error.

    Raises:
        InputError: if there are no results of LongEmbed tasks, or a path cannot be written.
        UnknownNameError: if `--tuned` names a model that is not in the results.
    """
    request = Request(**{key: value for key, value in vars(args).items() if key != "command"})
    _check(request)
    rows, problems = load_results(request.results)
    predictions, more_problems = load_predictions(request.predictions)
    problems += more_problems
    for problem in problems:
        _warn(problem)
    if request.results and not rows:
        paths = ", ".join(map(str, request.results))
        raise InputError(f"no results of LongEmbed tasks were found in {paths}; compare writes its own page.")
    rows, depths = _by_query(rows, predictions)
    lines = score_lines(rows)
    names = {shortened(line.model.name.full) for line in lines}
    for name in chain.from_iterable(request.tuned):
        if name not in names:
            raise UnknownNameError("model in the results", name, names)
    for group in group_by_base(lines):
        if group.warning:
            _warn(f"{group.label}: {group.warning}")
    tables = [table.without_empty_columns() for table in _tables(request, rows, lines, depths)]
    drawings = []
    if request.figures or request.html:
        drawings = _drawings(request, lines)
    _write_tables(request, tables)
    # If standard output has tables for other programs, it must have nothing else.
    out = sys.stderr
    if request.output_folder or request.format == "terminal":
        out = sys.stdout
    if request.figures:
        for drawing in drawings:
            print(*drawing.save(request.figures), sep="\n", file=out)
    if request.html:
        written = f"{datetime.now(UTC).date().isoformat()}, by mteb-longembed {__version__}"
        public = None
        if request.published:
            public = public_results()
        facts, conclusions = overview(rows, public)
        page = html_page.Page(
            title="LongEmbed report",
            # one's own models come first; the public rows are folded
            tables=sorted(tables, key=lambda table: table.is_folded),
            drawings=drawings,
            problems=problems,
            facts=[("Written", written), *facts],
            conclusions=conclusions,
        )
        write_file(request.html, html_page.write(page))
        print(request.html, file=out)
    return 0


def _check(request: Request) -> None:
    """Refuse what cannot work, and make the folders, before anything is read."""
    if not request.results and not request.published:
        raise InputError("there is nothing to report: give RESULTS folders, or --published, or both.")
    page_folder = request.html and request.html.parent
    folders = {"--output-folder": request.output_folder, "--figures": request.figures, "--html": page_folder}
    for option, folder in folders.items():
        if folder is not None:
            make_folder(f"what {option} writes into", folder)
    if request.html and request.html.is_dir():
        raise InputError(f"--html writes one file, but {str(request.html)!r} is a folder: give a file in it.")


def _tables(
    request: Request, rows: Sequence[Result], lines: Sequence[Line], depths: Sequence[_AnswerDepths]
) -> list[Table]:
    """All tables that were asked for, in the order in which they are shown."""
    tables = [*main_tables(lines), *strategy_tables(lines), *length_tables(lines)]
    if request.published:
        tables.insert(0, public_table(public_results(), lines))
    variants = variants_table(rows)
    if variants is not None:
        tables.append(variants)
    if request.compare_published:
        tables += comparison_tables(lines)
    if request.statistics:
        tables.append(statistics_table())
    if depths:
        tables.append(_sensitivity_table(depths))
    return tables


def _drawings(request: Request, lines: Sequence[Line]) -> list[Drawing]:
    """All figures for which there are results."""
    return [
        *map(heat_maps.draw, heat_maps.by_model(lines, request.compare_published)),
        *map(bars.draw, bars.improvement(lines)),
        *map(curves.draw_targets, curves.targets(lines, request.score)),
        *map(bars.draw, bars.tuning(lines, request.tuned)),
        *map(curves.draw_positions, curves.positions(lines, request.score)),
    ]


#: The rankings of one model on one task, and the place of each answer.
_AnswerDepths = tuple[Predictions, Sequence[DepthPoint]]


def _sensitivity_table(depths: Sequence[_AnswerDepths]) -> Table:
    """How much each model's scores depend on the place of the answer."""
    rows = []
    for item, points in depths:
        sensitivity = position_sensitivity([p.score for p in points], [p.depth for p in points])
        if sensitivity is not None:
            rows.append((item.model, item.task, len(points), sensitivity))
    return sensitivity_table(rows)


@lru_cache(maxsize=4)
def load_task(name: str, splits: tuple[str, ...]) -> AbsTaskRetrieval:
    """An mteb retrieval task with its data.

    Args:
        name: of the task.
        splits: those to load.

    Raises:
        DataError: if mteb cannot load it.
    """
    import mteb

    try:
        task = cast("AbsTaskRetrieval", mteb.get_task(name, eval_splits=list(splits)))
        task.load_data()
        task.convert_v1_dataset_format_to_v2(None)
    except Exception as error:  # mteb, datasets and the hub raise many kinds of errors: all mean no data.
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"the data of task {name!r} could not be loaded through mteb: {reason}") from error
    return task


def _by_query(
    rows: Sequence[Result], rankings: Sequence[Predictions]
) -> tuple[list[Result], list[_AnswerDepths]]:
    """The scores of each query, and the places of answers, as far as the tasks' data say them.

    Args:
        rows: results, one for each model, task and split.
        rankings: the documents that models ranked. Those that do not fit their results are named and left out.

    Returns:
        The rows with the scores of their queries, and the places of answers by model and task.
    """
    if not rankings:
        return list(rows), []
    # To import mteb takes seconds, and most reports do not need it.
    from mteb_longembed.tasks.scoring import answer_depths

    by_row: dict[tuple[str, str, str, str], tuple[float, ...]] = {}
    depths: list[_AnswerDepths] = []
    for item in rankings:
        try:
            task = load_task(item.task, tuple(item.rankings))
            points: list[DepthPoint] = []
            for split in item.rankings:
                scores = _query_scores(item, task, split, rows)
                by_row[item.model, item.revision, item.task, split] = tuple(scores.values())
                depth_of = answer_depths(task, split, "default")
                length = split_length(split) or 0
                points += [DepthPoint(length, depth, scores[query]) for query, depth in depth_of.items()]
            if metric_of(item.task) == "ndcg_at_1":
                if not points:
                    raise DataError("the task does not keep the depth of its answers.")
                depths.append((item, points))
        except DataError as error:
            _warn(f"the predictions of {item.model} on {item.task}: {error}")
    return [replace(row, queries=by_row.get(row.key, ())) for row in rows], depths


def _query_scores(
    item: Predictions, task: AbsTaskRetrieval, split: str, rows: Sequence[Result]
) -> dict[str, float]:
    """The score of every query, from 0 to 1.

    Raises:
        DataError: if a score is missing, or if their mean is not that of the model's results.
    """
    from mteb_longembed.tasks.scoring import is_complete, read_metric, score_queries

    rankings = {"default": item.rankings[split]}
    if split not in task.dataset["default"] or not is_complete(task, split, rankings):
        raise DataError(
            f"{item.path}: split {split!r} must have a finite score for each ranked document of each of the task's "
            "queries, but it does not."
        )
    scores = score_queries(task, split, rankings, read_metric(metric_of(item.task)))
    mean = fmean(scores.values())
    key = (item.model, item.revision, item.task, split)
    for row in rows:
        if row.key == key and abs(row.score - mean) > _ROUNDING:
            raise DataError(
                f"{item.path}: split {split!r} has a mean of {mean:.5f}, but {row.path} says {row.score:.5f}: another "
                "run has overwritten it; give every model its own folder."
            )
    return scores


def _write_tables(request: Request, tables: Sequence[Table]) -> None:
    """Write one file for each table, or print them all."""
    write, suffix = WRITERS[request.format]
    if request.output_folder:
        for table in tables:
            path = request.output_folder / f"{table.key}{suffix}"
            write_file(path, write([table]))
            print(path)
    elif request.format == "terminal" and sys.stdout.isatty():
        show(tables, Console())
    else:
        print(write(tables), end="")
