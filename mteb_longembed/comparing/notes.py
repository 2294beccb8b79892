"""Sentences beside the answer: what else follows from the numbers, and what misleads if nobody says it."""

from typing import Literal, NamedTuple

import pandas as pd

from .labels import short_ends
from .summary import is_number
from .verdict import listed, percent

#: A tokenizer with at least this share of unknown tokens is named.
UNKNOWN = 0.05


class Note(NamedTuple):
    """A sentence for people.

    `kind` is `caution` (what the numbers cannot see), `finding` (what else follows), `data` (what is not scored),
    `untried` (not among the candidates) or `left out` (could not run).
    """

    kind: Literal["caution", "finding", "data", "untried", "left out"]
    text: str


def cautions(scores: pd.DataFrame, summary: pd.DataFrame) -> list[Note]:
    """Facts about models that would mislead if nobody said them, each of them once."""
    sentences = [*short_documents(summary), *ties(scores, summary), *unknown_tokens(summary)]
    return [Note("caution", sentence) for sentence in sentences]


def short_documents(summary: pd.DataFrame) -> list[str]:
    """That all documents fit into the window of a base, so that nothing can be gained by a longer one."""
    return [
        f"Your documents are short: the longest has {row.longest:,.0f} tokens, and {row.label} reads "
        f"{row.trained_len:,.0f}. A longer window changes nothing, so candidates that only extend it are all equal."
        for row in summary[summary["is_base"]].itertuples()
        if is_number(row.trained_len) and 0 < row.longest <= row.trained_len
    ]


def ties(scores: pd.DataFrame, summary: pd.DataFrame) -> list[str]:
    """That equal scores of documents decided queries, with the candidate for which they decided most."""
    n_tied = scores.groupby("candidate")["is_tied"].sum()
    most = n_tied.idxmax()
    if not n_tied[most]:
        return []
    n_queries = int((scores["candidate"] == most).sum())
    reason = "they have equal vectors or words"
    if summary.loc[most, "kind"] == "own":
        reason = "they are equal as it gives them"
    return [
        f"{summary.loc[most, 'label']} gives documents equal scores where that decides ({n_tied[most]:,} of "
        f"{n_queries:,} queries): {reason}, and each such query counts with its mean over all orders of them."
    ]


def unknown_tokens(summary: pd.DataFrame) -> list[str]:
    """That tokenizers do not know the documents' words. Candidates of one base have one tokenizer."""
    shares = summary[summary["base"] != ""].groupby("base", sort=False)["share_unknown"].max()
    found = shares[shares >= UNKNOWN]
    if found.empty:
        return []
    ends = short_ends(list(found.index))
    named = listed(f"{ends[base]} ({percent(share)})" for base, share in found.items())
    return [f"Some of the documents' tokens are unknown to the tokenizer of {named}: they count as not read."]
