"""Two models compared on each query: the paired interval and test of every split, as a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mteb_longembed.errors import DataError, InputError, UnknownNameError
from mteb_longembed.reports.scores.bases import shortened
from mteb_longembed.reports.scores.columns import COLUMNS
from mteb_longembed.reports.scores.predictions import Predictions, query_scores
from mteb_longembed.reports.scores.results import Result
from mteb_longembed.reports.tables.table import MISSING, Cell, Table, difference_cell, number_cell, text_cell
from mteb_longembed.statistics.bootstrap import BCA_MAX, N_RESAMPLES, difference_interval, mean_of_means
from mteb_longembed.statistics.paired import adjust, pair, randomisation_test

ALL_LENGTHS = "mean"


@dataclass(frozen=True)
class Comparison:
    """Two models on the same queries; means in percent."""

    task: str
    split: str  # or `mean` for the mean over all splits
    n_queries: int
    first: float
    second: float
    low: float  # of the 95 % interval of second - first, in points
    high: float
    p_value: float  # two-sided: the probability of such a large difference if the models were equally good


def compare(
    task: str,
    split: str,
    first: Sequence[Mapping[str, float]],
    second: Sequence[Mapping[str, float]],
    seed: int = 0,
) -> Comparison:
    """Compare the scores of two models on the same queries. The mean is that of the groups' means.

    Raises:
        DataError: If the models do not have the same queries.
    """
    try:
        pairs = [pair(a, b) for a, b in zip(first, second, strict=True)]
    except DataError as error:
        raise DataError(f"{task}, {split}: {error}") from None
    ours, theirs = [a for a, _ in pairs], [b for _, b in pairs]
    interval = difference_interval(ours, theirs, seed=seed)
    return Comparison(
        task,
        split,
        sum(map(len, ours)),
        100 * float(mean_of_means(*ours)),
        100 * float(mean_of_means(*theirs)),
        100 * interval.low,
        100 * interval.high,
        randomisation_test(ours, theirs, seed=seed),
    )


def compare_models(
    predictions: Sequence[Predictions], results: Sequence[Result], models: tuple[str, str], seed: int = 0
) -> list[Comparison]:
    """Compare two models on every task that both have predictions for.

    Raises:
        UnknownNameError: If a model has no predictions.
        DataError: If the models share no task, or their queries differ.
        InputError: If there are predictions of several revisions of a model.
    """
    first, second = (_by_task(predictions, name) for name in models)
    shared = [task for task in first if task in second]
    if not shared:
        raise DataError(
            f"two models need predictions of at least one common task, {models[0]!r} and {models[1]!r} have none."
        )
    found = []
    for task in shared:
        a, b = query_scores(first[task], results), query_scores(second[task], results)
        splits = [split for split in a if split in b]
        for split in splits:
            found.append(compare(task, split, [a[split]], [b[split]], seed))
        whole = next((column.splits for column in COLUMNS if task in column.tasks.values()), ())
        if len(whole) > 1 and set(whole) <= set(splits):
            found.append(compare(task, ALL_LENGTHS, [a[s] for s in whole], [b[s] for s in whole], seed))
    return found


def _by_task(predictions: Sequence[Predictions], name: str) -> dict[str, Predictions]:
    mine = [item for item in predictions if item.model == name]
    if not mine:
        raise UnknownNameError("model with predictions", name, {item.model for item in predictions})
    if len({item.revision for item in mine}) > 1:
        revisions = ", ".join(sorted({item.revision for item in mine}))
        raise InputError(
            f"--predictions must have one revision of a compared model, {name!r} has {revisions}: give one folder."
        )
    return {item.task: item for item in mine}


def significance_table(comparisons: Sequence[Comparison], models: tuple[str, str]) -> Table:
    """The comparisons as a table, with p-values before and after the adjustment for their number."""
    adjusted = adjust([c.p_value for c in comparisons])
    rows = tuple(
        (
            text_cell(c.task),
            text_cell(c.split),
            text_cell(c.n_queries),
            number_cell(c.first),
            number_cell(c.second),
            difference_cell(number_cell(c.second), number_cell(c.first)),
            Cell(MISSING if math.isnan(c.low) else f"{c.low:+.1f} to {c.high:+.1f}"),
            Cell(f"{c.p_value:.4f}", c.p_value),
            Cell(f"{p:.4f}", p),
        )
        for c, p in zip(comparisons, adjusted, strict=True)
    )
    header = (
        "Task",
        "Split",
        "Queries",
        *map(shortened, models),
        "Difference",
        "95 % interval",
        "p",
        "p adjusted",
    )
    notes = (
        f"Interval: paired bootstrap over queries (BCa; percentile for means over lengths and above "
        f"{BCA_MAX:,} queries); p: two-sided paired randomisation test, {N_RESAMPLES:,} resamples; "
        "adjusted: Benjamini-Hochberg over the rows.",
    )
    title = f"Is the difference real? {shortened(models[1])} against {shortened(models[0])}"
    return Table("significance", title, header, rows, notes)
