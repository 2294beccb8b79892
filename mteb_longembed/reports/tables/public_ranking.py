"""One ranked table of the public results, our results and the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mteb_longembed.reports.scores import paper, public_results
from mteb_longembed.reports.scores.columns import PUBLISHED, SCORE_KEYS
from mteb_longembed.reports.scores.scoreboard import Line

from .scores import model_cells, score_cells, score_table
from .table import Cell, Table, text_cell

_TOKENS_NOTE = (
    "Tokens: the longest input by mteb's model metadata; the target length; the paper's trained length."
)


def public_table(lines: Sequence[Line]) -> Table:
    """All rows sorted by average, the best first. Incomplete rows are last and have no rank.

    Args:
        lines: one's own results. Those on generated data are not on the data of all others, and say so.
    """
    generated = [line for line in lines if line.data != PUBLISHED]
    published = [line for line in lines if line.data == PUBLISHED]
    unranked = _rows(public_results.public_lines(), "public")
    unranked += _rows(published, "ours")
    unranked += _rows(generated, "ours, generated data")
    unranked += _rows(paper.paper_lines(), "paper")
    unranked.sort(key=lambda row: -(row[-1].number or 0))
    rows = []
    for rank, row in enumerate(unranked, start=1):
        place = text_cell(rank)
        if row[-1].number is None:
            place = text_cell(None)
        rows.append([place, *row])
    title = "LongEmbed, public results, ours and the paper's"
    header = ("#", "Model", "Numbers", "Size", "Tokens", *SCORE_KEYS)
    notes = [public_results.source(), _TOKENS_NOTE, paper.source()]
    return replace(score_table("published", title, header, rows, notes, best_from=5), is_folded=True)


def _rows(lines: Sequence[Line], origin: str) -> list[list[Cell]]:
    """The model, whose numbers they are, and the scores."""
    rows = []
    for line in lines:
        name, size, tokens = model_cells(line)
        rows.append([name, text_cell(origin), size, tokens, *score_cells(line)])
    return rows
