"""The LongEmbed scores of mteb's public results repository, kept as data.

Source: https://github.com/embeddings-benchmark/results, CC0. The packed file has the scores of the six published tasks
    that `load_results` finds in a clone, by model and revision, with its commit and the facts of mteb's registry.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

from mteb_longembed.names.grammar import split_model_name

from .columns import PUBLISHED
from .results import Model, Result
from .scoreboard import Line, score_lines

PATH = Path(__file__).parents[1] / "data" / "public_results.json.gz"


@cache
def _data() -> Any:
    return json.loads(gzip.decompress(PATH.read_bytes()))


def source() -> str:
    """Where the public results come from."""
    return f"Public: github.com/embeddings-benchmark/results at {_data()['commit'][:12]}, CC0."


@cache
def public_lines() -> tuple[Line, ...]:
    """All public rows. The longest input is that of mteb's metadata, None without a limit."""
    rows: list[Result] = []
    for row in _data()["rows"]:
        facts = row["facts"]
        model = Model(
            split_model_name(row["model"]), row["revision"], facts["n_parameters"], facts["max_tokens"]
        )
        for task, splits in row["tasks"].items():
            rows += [Result(model, task, split, score, "", PATH) for split, score in splits.items()]
    return tuple(line for line in score_lines(rows) if line.data == PUBLISHED)
