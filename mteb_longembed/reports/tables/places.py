"""The table of the place of the answer: scores by third of the document, and the position sensitivity."""

from __future__ import annotations

from collections.abc import Iterable

from mteb_longembed.reports.scores.bases import shortened
from mteb_longembed.reports.tables.table import Table, number_cell, text_cell
from mteb_longembed.statistics.sensitivity import Sensitivity

_NOTES = (
    "Answer in the first, middle and last third of the document, Acc@1 in percent, all lengths together. Sensitivity: "
    "1 - lowest / highest third, in percent, with its 95 % interval (arXiv:2505.13950); up to `noise` maybe chance.",
)


def places_table(found: Iterable[tuple[str, str, int, Sensitivity]]) -> Table:
    """One row for each model and task whose documents say the depth of their answers, with the number of queries."""
    rows = []
    for model, task, n_queries, made in found:
        cells = [number_cell(100 * third) for third in made.thirds]
        index = number_cell(100 * made.index.mean, interval=made.index.scaled(100))
        names = text_cell(shortened(model)), text_cell(task), text_cell(n_queries)
        rows.append((*names, *cells, index, number_cell(100 * made.noise)))
    header = ("Model", "Task", "Queries", "First", "Middle", "Last", "Sensitivity", "Noise")
    return Table("places", "Place of the answer", header, tuple(rows), _NOTES)
