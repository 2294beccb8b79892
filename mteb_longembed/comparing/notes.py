"""Sentences beside the answer: what misleads if nobody says it."""

from typing import Literal, NamedTuple

import pandas as pd

from .summary import is_number
from .verdict import percent

#: A tokenizer with at least this share of unknown tokens is named.
UNKNOWN = 0.05


class Note(NamedTuple):
    """A sentence for people.

    `kind` is `caution` (what the numbers cannot see), `data` (what is not scored), or `left out` (what did not run).
    """

    kind: Literal["caution", "data", "left out"]
    text: str


def cautions(scores: pd.DataFrame, summary: pd.DataFrame) -> list[Note]:
    """Facts about models that would mislead if nobody said them."""
    sentences = []
    for row in summary[summary["is_base"]].itertuples():
        if is_number(row.trained_len) and 0 < row.longest <= row.trained_len:
            sentences.append(
                f"Your documents are short: the longest has {row.longest:,.0f} tokens, and {row.label} reads "
                f"{row.trained_len:,.0f}. A longer window changes nothing."
            )
        if row.share_unknown >= UNKNOWN:
            sentences.append(
                f"{percent(row.share_unknown)} of the documents' tokens are unknown to the tokenizer of {row.label}: "
                "they count as not read."
            )
    n_tied = scores.groupby("candidate")["is_tied"].sum()
    most = n_tied.idxmax()
    if n_tied[most]:
        sentences.append(
            f"{summary.loc[most, 'label']} gives documents equal scores where that decides ({n_tied[most]:,} queries): "
            "each such query counts with its mean over all orders of them."
        )
    return [Note("caution", sentence) for sentence in sentences]
