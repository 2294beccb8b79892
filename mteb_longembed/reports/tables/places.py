"""The table of the place of the answer: scores by third of the document, and the position sensitivity."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mteb_longembed.reports.scores.bases import shortened
from mteb_longembed.reports.scores.predictions import DepthPoint, Predictions
from mteb_longembed.reports.tables.table import Table, number_cell, score_table, text_cell
from mteb_longembed.statistics.sensitivity import position_sensitivity

_NOTES = (
    "Answer in the first, middle and last third of the document, Acc@1 in percent, all lengths together. Sensitivity: "
    "1 - lowest / highest third, in percent (arXiv:2505.13950); up to `noise` it may be chance (95 %).",
)


def places_table(found: Iterable[tuple[Predictions, Sequence[DepthPoint]]]) -> Table:
    """One row for each model and task whose documents say the depth of their answers."""
    rows = []
    for item, points in found:
        made = position_sensitivity([point.score for point in points], [point.depth for point in points])
        if made is not None:
            cells = [number_cell(100 * third) for third in made.thirds]
            index = number_cell(100 * made.index.mean, interval=made.index.scaled(100))
            names = text_cell(shortened(item.model)), text_cell(item.task), text_cell(len(points))
            rows.append([*names, *cells, index, number_cell(100 * made.noise)])
    header = ("Model", "Task", "Queries", "First", "Middle", "Last", "Sensitivity", "Noise")
    return score_table("places", "Place of the answer", header, rows, _NOTES)
