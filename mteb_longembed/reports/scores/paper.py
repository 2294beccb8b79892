"""The numbers of the paper, kept as data.

Source: Zhu et al. 2024, tables 2, 3 and the BM25 table, https://arxiv.org/abs/2404.12096.
"""

from __future__ import annotations

import json
import math
from functools import cache
from importlib.resources import files
from typing import Any

from mteb_longembed.names.grammar import split_model_name
from mteb_longembed.statistics.intervals import Interval

from .columns import PUBLISHED, SCORE_KEYS
from .results import Model
from .scoreboard import Line, Score


@cache
def _data() -> Any:
    path = files("mteb_longembed.reports") / "data" / "published.json"
    return json.loads(path.read_text(encoding="utf-8"))


def source() -> str:
    """Where the paper's numbers stand."""
    return f"Paper: {_data()['paper']['source']}"


def trained_len(base: str) -> int | None:
    """The trained length in tokens of the paper's models, None for others."""
    length: int | None = _data()["trained_len"].get(base)
    return length


@cache
def paper_lines() -> tuple[Line, ...]:
    """All rows of the paper; their models have no revision, and their scores no intervals.

    Differs: the paper prints an average of 36.5 for GTR, but its six columns have an average of 37.6. We change none
        of these numbers.
    """
    lines = []
    for row in _data()["paper"]["rows"]:
        name = split_model_name(row["model"])
        model = Model(name, "", max_tokens=trained_len(name.base))
        scores = {key: Score(Interval(row["scores"][key], math.nan, math.nan), 1, 1) for key in SCORE_KEYS}
        lines.append(Line(model, "", PUBLISHED, scores, {}))
    return tuple(lines)
