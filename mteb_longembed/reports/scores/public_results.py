"""The LongEmbed scores of mteb's public results repository, kept as data, and the window as they were evaluated.

Source: https://github.com/embeddings-benchmark/results, CC0. The packed file has the scores of the six published tasks
    that `load_results` finds in a clone, by model and revision, with its commit and the facts of mteb's registry.

After how many tokens were texts cut? A model that reads N tokens finds a passkey only if it is among the first N
tokens. So on longer documents its Passkey accuracy is the share of answers among the first N tokens. This share is the
same for all models. The rule is in docs/reports.md.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

from mteb_longembed.names.grammar import split_model_name
from mteb_longembed.reports.scores.published_numbers import LENGTHS, PUBLISHED
from mteb_longembed.reports.scores.results import Model, Result
from mteb_longembed.reports.scores.scoreboard import Line, score_lines

PATH = Path(__file__).parents[1] / "data" / "public_results.json.gz"
REPOSITORY = "embeddings-benchmark/results"

# In points: two of the fifty queries of a length.
TOLERANCE = 4.0
# In percent. If a model finds fewer at a length that it reads, its scores do not show how much it reads.
GOOD = 90.0
# Advertised lengths of the reference models. A table of 514 rows has only 512 positions.
READ = {512: (512, 514), 2048: (2048,), 4096: (4096,), 8192: (8191, 8192), 16384: (16384,)}
# A model is marked if its advertised length is at least this many times the window, or the window that many times it.
MISMATCH = 2
NO_CUT = "no cut seen"
UNCLEAR = "unclear"


@dataclass(frozen=True)
class PublicLine:
    """The scores of one model revision of the public results, and what mteb's metadata says about it."""

    line: Line
    advertised: float | None  # the longest input in tokens; infinity: no limit; None: mteb does not say
    is_open: bool | None


@dataclass(frozen=True)
class PublicResults:
    """All public rows, and the commit of the results repository that they come from."""

    lines: tuple[PublicLine, ...]
    commit: str


@cache
def public_results() -> PublicResults:
    """Read the packed public results."""
    data = json.loads(gzip.decompress(PATH.read_bytes()))
    facts = {}
    rows: list[Result] = []
    for row in data["rows"]:
        known = row["facts"]
        model = Model(split_model_name(row["model"]), row["revision"], known["n_parameters"])
        max_tokens = known["max_tokens"]
        if known["is_unlimited"]:
            max_tokens = math.inf
        facts[model] = (max_tokens, known["is_open"])
        for task, splits in row["tasks"].items():
            rows += [Result(model, task, split, score, "", PATH) for split, score in splits.items()]
    lines = [line for line in score_lines(rows) if line.data == PUBLISHED]
    return PublicResults(tuple(PublicLine(line, *facts[line.model]) for line in lines), data["commit"])


@dataclass(frozen=True)
class Window:
    """The conclusion from the Passkey scores of one model."""

    near: int | None  # tokens after which texts seem to be cut; None: no cut is seen, or it is unclear
    is_complete: bool = False  # the model finds nearly all answers at every length, so no cut is seen

    @property
    def label(self) -> str:
        """The conclusion in words, such as `near 512`."""
        if self.near:
            return f"near {self.near:,}"
        if self.is_complete:
            return NO_CUT
        return UNCLEAR

    def differs_from(self, advertised: float | None) -> bool:
        """Whether the advertised length is at least twice the window, or at most half of it.

        >>> Window(512).differs_from(8192), Window(512).differs_from(514), Window(512).differs_from(None)
        (True, False, False)
        """
        if advertised is None:
            return False
        if self.near is not None:
            return advertised >= MISMATCH * self.near or MISMATCH * advertised <= self.near
        return self.is_complete and MISMATCH * advertised <= LENGTHS[-1]


def reference_curves(rows: Iterable[PublicLine]) -> dict[int, dict[int, float]]:
    """For each number of tokens read, the median Passkey accuracy in percent by context length.

    The reference models have open weights, advertise exactly this length, and find at least 90 % at every length up
    to it.
    """
    members: dict[int, list[Mapping[int, float]]] = {}
    for row in rows:
        values = row.line.by_length["Passkey"]
        for read, lengths in READ.items():
            is_complete = row.is_open and row.advertised in lengths and set(LENGTHS) <= set(values)
            if is_complete and _finds_all(values, read):
                members.setdefault(read, []).append(values)
    curves = {}
    for read, same in sorted(members.items()):
        curves[read] = _median_curve(same)
    return curves


def _median_curve(curves: Sequence[Mapping[int, float]]) -> dict[int, float]:
    return {length: median(values[length] for values in curves) for length in LENGTHS}


def window(values: Mapping[int, float], curves: Mapping[int, Mapping[int, float]]) -> Window | None:
    """One model's Passkey accuracies in percent against the `reference_curves`; None if a length is missing."""
    if not set(LENGTHS) <= set(values):
        return None
    if _finds_all(values, LENGTHS[-1]):
        return Window(None, is_complete=True)
    # rounded, because scores are multiples of two points
    distances = {}
    for read, curve in curves.items():
        if _finds_all(values, read):
            distances[read] = round(max(abs(values[n] - curve[n]) for n in LENGTHS if n > read), 6)
    nearest = min(distances, key=lambda read: distances[read], default=None)
    if nearest is not None and distances[nearest] > TOLERANCE:
        nearest = None
    return Window(nearest)


def _finds_all(values: Mapping[int, float], read: int) -> bool:
    return all(values[length] >= GOOD for length in LENGTHS if length <= read)
