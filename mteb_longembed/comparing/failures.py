"""The worst failures of the recommended candidate: queries on which another one scores much higher."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from .summary import Row

if TYPE_CHECKING:
    from .comparison import Comparison

#: Number of digits to which scores are compared: smaller differences come from rounding.
_DIGITS = 6


def base_row(comparison: Comparison) -> Row | None:
    """Return the base beside which the recommended candidate is shown: its own, or else the first; None without one."""
    recommended = comparison.recommended
    bases = [row for row in comparison.rows if row.is_base and row is not recommended]
    return min(bases, key=lambda row: row.base != recommended.base, default=None)


def failures(comparison: Comparison) -> pd.DataFrame:
    """Return the queries on which the recommended candidate scores less than the best other one, the worst first.

    The best other one is chosen for each query; of equal ones it is the first of the ranking. Only queries count
    that all candidates have answered. Scores are from 0 to 1.

    Returns:
        One row for each query: task, split, query, recommended, base, best other, by (its id), lost, and what
        `Comparison.queries` says of it.
    """
    place = ["task", "split", "query"]
    ranked = [row.id for row in comparison.rows]
    scores = comparison.scores.pivot(index=place, columns="candidate", values="score")[ranked].dropna()
    own = scores[comparison.recommended.id]
    others = scores.drop(columns=own.name)
    if others.empty:
        return pd.DataFrame()
    best = others.max(axis=1)
    found = pd.DataFrame(
        {
            "recommended": own,
            "best other": best,
            "by": others.idxmax(axis=1),
            "lost": (best - own).round(_DIGITS),
        }
    )
    base = base_row(comparison)
    found["base"] = scores[base.id] if base else None
    found = found[found["lost"] > 0].sort_values(
        ["lost", "recommended"], ascending=[False, True], kind="stable"
    )
    return found.reset_index().merge(comparison.queries, on=place, how="left")
