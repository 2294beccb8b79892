"""Is a difference real? Paired bootstrap intervals and randomisation tests over queries, by scipy.

Source: Smucker, Allan & Carterette 2007, A comparison of statistical significance tests for information
    retrieval evaluation, https://doi.org/10.1145/1321440.1321528; Efron 1987 for the BCa interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from mteb_longembed.errors import DataError, UnknownNameError
from mteb_longembed.reports.columns import COLUMNS
from mteb_longembed.reports.predictions import Predictions, query_scores
from mteb_longembed.reports.results import Result
from mteb_longembed.reports.tables.table import Cell, Table, difference_cell, number_cell, text_cell

CONFIDENCE = 0.95
ALL_LENGTHS = "mean"
N_RESAMPLES = 9999
# Resamples held in memory at once: with NarrativeQA's 10,449 queries about 40 MB.
_BATCH = 500
# BCa leaves out every query once, which is quadratic, and corrects a bias that vanishes with many.
_BCA_MAX = 1000


@dataclass(frozen=True)
class Comparison:
    """Two models on the same queries.

    Args:
        task: The MTEB task's name.
        split: The split, or `mean` for the mean over all splits.
        n_queries: Number of pairs.
        first: The first model's mean, in percent.
        second: The second model's mean, in percent.
        low: Lower end of the 95 % interval of second - first, in points.
        high: Its upper end.
        p_value: Two-sided probability of such a difference if the models were alike.
    """

    task: str
    split: str
    n_queries: int
    first: float
    second: float
    low: float
    high: float
    p_value: float


def compare(
    task: str,
    split: str,
    first: Sequence[Mapping[str, float]],
    second: Sequence[Mapping[str, float]],
    seed: int = 0,
) -> Comparison:
    """Compare two models' scores per query, the mean taken within each group and then over the groups.

    Args:
        task: The task's name, for the answer.
        split: The split's name, for the answer.
        first: For each group (one split each), scores from 0 to 1 by query id.
        second: The same of the other model.
        seed: Where the resampling starts; the answer is the same every time.

    Raises:
        DataError: If the two have not the same queries.
    """
    pairs = [_paired(task, split, a, b) for a, b in zip(first, second, strict=True)]
    differences = [b - a for a, b in pairs]
    rng = np.random.default_rng(seed)
    low, high = _interval(differences, rng)
    return Comparison(
        task,
        split,
        sum(map(len, differences)),
        100 * float(np.mean([a.mean() for a, _ in pairs])),
        100 * float(np.mean([b.mean() for _, b in pairs])),
        100 * low,
        100 * high,
        _p_value(differences, rng),
    )


def _paired(
    task: str, split: str, a: Mapping[str, float], b: Mapping[str, float]
) -> tuple[np.ndarray, np.ndarray]:
    if a.keys() != b.keys() or not a:
        raise DataError(
            f"{task}, {split}: a paired test needs the same queries on both sides, "
            f"the models have {len(a)} and {len(b)}, {len(a.keys() & b.keys())} of them shared."
        )
    queries = sorted(a)
    return np.array([a[q] for q in queries]), np.array([b[q] for q in queries])


def _mean_of_means(*groups: Any, axis: int = -1) -> Any:
    return sum(np.mean(group, axis=axis) for group in groups) / len(groups)


def _interval(differences: Sequence[np.ndarray], rng: np.random.Generator) -> tuple[float, float]:
    if all(np.ptp(group) == 0 for group in differences) or min(map(len, differences)) < 2:
        # No spread to resample: BCa would divide by zero.
        mean = float(_mean_of_means(*differences))
        return mean, mean
    # Each group is resampled by itself: a length keeps its number of queries.
    result = stats.bootstrap(
        tuple(differences),
        _mean_of_means,
        vectorized=True,
        n_resamples=N_RESAMPLES,
        batch=_BATCH,
        confidence_level=CONFIDENCE,
        method="BCa" if len(differences) == 1 and len(differences[0]) <= _BCA_MAX else "percentile",
        rng=rng,
    )
    return float(result.confidence_interval.low), float(result.confidence_interval.high)


def _p_value(differences: Sequence[np.ndarray], rng: np.random.Generator) -> float:
    if all(not group.any() for group in differences):
        return 1.0
    # One row of weighted differences: their sum is the mean of the groups' means.
    weighted = np.concatenate([group / (len(group) * len(differences)) for group in differences])
    result = stats.permutation_test(
        (weighted,),
        lambda sample, axis: np.sum(sample, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=N_RESAMPLES,
        batch=_BATCH,
        rng=rng,
    )
    return float(result.pvalue)


def compare_models(
    predictions: Sequence[Predictions], results: Sequence[Result], models: tuple[str, str], seed: int = 0
) -> list[Comparison]:
    """Compare two models on every task that both have predictions for.

    Args:
        predictions: What was loaded.
        results: Rows of result files that the predictions are checked against.
        models: The two models' full names.
        seed: Where the resampling starts.

    Raises:
        UnknownNameError: If there are no predictions of a model.
        DataError: If the two share no task, or their queries differ.
    """
    known = {item.model for item in predictions}
    for name in models:
        if name not in known:
            raise UnknownNameError("model with predictions", name, known)
    first, second = ({item.task: item for item in predictions if item.model == name} for name in models)
    shared = [task for task in first if task in second]
    if not shared:
        raise DataError(f"{models[0]!r} and {models[1]!r} have predictions of no task in common.")
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


def significance_table(comparisons: Sequence[Comparison], models: tuple[str, str]) -> Table:
    """The comparisons as a table; p-values once as they are and once adjusted for their number."""
    adjusted = stats.false_discovery_control([c.p_value for c in comparisons]) if comparisons else []
    rows = tuple(
        (
            text_cell(c.task),
            text_cell(c.split),
            text_cell(c.n_queries),
            number_cell(c.first),
            number_cell(c.second),
            difference_cell(c.second, c.first),
            Cell(f"{c.low:+.1f} to {c.high:+.1f}"),
            Cell(f"{c.p_value:.4f}", c.p_value),
            Cell(f"{p:.4f}", float(p)),
        )
        for c, p in zip(comparisons, adjusted, strict=True)
    )
    header = ("Task", "Split", "Queries", *models, "Difference", "95 % interval", "p", "p adjusted")
    notes = (
        f"Interval: paired bootstrap over queries (BCa; percentile for means over lengths and above "
        f"{_BCA_MAX:,} queries); p: two-sided paired randomisation test, {N_RESAMPLES:,} resamples; "
        "adjusted: Benjamini-Hochberg over the rows.",
    )
    return Table(
        "significance", f"Is the difference real? {models[1]} against {models[0]}", header, rows, notes
    )
