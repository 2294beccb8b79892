"""The LongEmbed scores of mteb's public results repository, kept here as data with their commit.

Source: https://github.com/embeddings-benchmark/results, CC0.
"""

from __future__ import annotations

import gzip
import json
import math
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mteb_longembed.errors import InputError
from mteb_longembed.names.grammar import split_model_name
from mteb_longembed.reports.scores.columns import COLUMNS, PUBLISHED, TASK_NAMES
from mteb_longembed.reports.scores.mteb_tasks import ModelFacts, model_facts
from mteb_longembed.reports.scores.results import Model, Result, load_results
from mteb_longembed.reports.scores.scoreboard import Line, score_lines

PATH = Path(__file__).parent / "data" / "public_results.json.gz"
REPOSITORY = "embeddings-benchmark/results"


@dataclass(frozen=True)
class PublicLine:
    """One model revision of the public results.

    Args:
        line: Its scores, and its model with the number of parameters.
        advertised: The longest input in tokens according to mteb's model metadata; infinity for a model without a
            limit, None if mteb does not say.
        is_open: Whether its weights are public, None if mteb does not say.
    """

    line: Line
    advertised: float | None
    is_open: bool | None


@dataclass(frozen=True)
class PublicResults:
    """All public rows, and the commit of the results repository that they come from."""

    lines: tuple[PublicLine, ...]
    commit: str


@cache
def public_results(path: Path = PATH) -> PublicResults:
    """Read the packed public results.

    Args:
        path: The packed file.
    """
    data = json.loads(gzip.decompress(path.read_bytes()))
    facts = {row["model"]: ModelFacts(**row["facts"]) for row in data["rows"]}
    rows = [result for row in data["rows"] for result in _results(row, path)]
    lines = (line for line in score_lines(rows) if line.data == PUBLISHED)
    return PublicResults(
        tuple(_public_line(line, facts[line.model.name.full]) for line in lines), data["commit"]
    )


def _results(row: Mapping[str, Any], path: Path) -> list[Result]:
    facts = row["facts"]
    model = Model(split_model_name(row["model"]), row["revision"], facts["n_parameters"])
    metrics = {column.tasks[PUBLISHED]: column.metric for column in COLUMNS}
    return [
        Result(model, task, split, {metrics[task]: score}, "", path)
        for task, splits in row["tasks"].items()
        for split, score in splits.items()
    ]


def _public_line(line: Line, facts: ModelFacts) -> PublicLine:
    advertised = math.inf if facts.is_unlimited else facts.max_tokens
    return PublicLine(line, advertised, facts.is_open)


def refresh(clone: Path, path: Path = PATH) -> str:
    """Replace the packed file with the LongEmbed scores of a clone of the public results repository.

    The facts about models (longest input, parameters, open weights) come from the installed mteb.

    Args:
        clone: The clone's folder.
        path: The packed file to write.

    Returns:
        The clone's commit.

    Raises:
        InputError: If the folder is not a git clone, has no LongEmbed results, or the file cannot be written.
    """
    commit = _commit(clone)
    published = {name for name in TASK_NAMES if name.startswith("LEMB")}
    tasks: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    metrics = {column.tasks[PUBLISHED]: column.metric for column in COLUMNS}
    for row in load_results([clone]).rows:
        if row.task in published:
            splits = tasks.setdefault((row.model.name.full, row.model.revision), {}).setdefault(row.task, {})
            splits[row.split] = row.metrics[metrics[row.task]]
    if not tasks:
        raise InputError(
            f"{str(clone)!r} has no results of LongEmbed: --refresh needs a clone of {REPOSITORY}."
        )
    write_packed(commit, tasks, path)
    public_results.cache_clear()
    return commit


def write_packed(
    commit: str, tasks: Mapping[tuple[str, str], Mapping[str, Mapping[str, float]]], path: Path
) -> None:
    """Write scores (0 to 1, by model and revision, then task and split) and mteb's facts about the models."""
    facts = model_facts(sorted({model for model, _ in tasks}))
    rows = [
        {"model": model, "revision": revision, "facts": vars(facts[model]), "tasks": scores}
        for (model, revision), scores in sorted(tasks.items())
    ]
    data = {
        "source": f"https://github.com/{REPOSITORY}",
        "licence": "CC0-1.0",
        "commit": commit,
        "rows": rows,
    }
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    part = path.with_name(path.name + ".part")
    try:
        # Without the time of writing, so that equal contents give equal files.
        part.write_bytes(gzip.compress(text.encode("utf-8"), mtime=0))
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise InputError(
            f"the public results cannot be written to {str(path)!r}: {error.strerror}."
        ) from None


def _commit(clone: Path) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(clone), "rev-parse", "--verify", "HEAD"],
            capture_output=True,
            text=True,
            check=True,
        )
    except FileNotFoundError:
        raise InputError("--refresh needs git, which is not installed: install git.") from None
    except subprocess.CalledProcessError:
        raise InputError(
            f"{str(clone)!r} is not a git clone: --refresh needs a clone of {REPOSITORY}."
        ) from None
    return done.stdout.strip()


def in_range(value: float | None, limits: tuple[float, float]) -> bool:
    """Whether a number is known and within the limits; the limits are included."""
    return value is not None and limits[0] <= value <= limits[1]


def parse_range(text: str) -> tuple[float, float]:
    """Read a range such as `100M-1B`, `8k-` or `-512`; k is 1,024, M is 10^6 and B is 10^9.

    Raises:
        InputError: If the text is not such a range.

    >>> parse_range("100M-1B"), parse_range("8k-")
    ((100000000.0, 1000000000.0), (8192.0, inf))
    """
    low, dash, high = text.partition("-")
    try:
        limits = (_number(low, 0.0), _number(high, math.inf))
    except ValueError:
        limits = (1.0, 0.0)
    if not dash or not limits[0] <= limits[1]:
        raise InputError(
            f"a range must be MIN-MAX, MIN- or -MAX with units k, M or B, such as 100M-1B or 8k-, got {text!r}."
        )
    return limits


def _number(text: str, default: float) -> float:
    if not text:
        return default
    unit = {"k": 1024, "M": 1e6, "B": 1e9}.get(text[-1])
    return float(text) if unit is None else float(text[:-1]) * unit
