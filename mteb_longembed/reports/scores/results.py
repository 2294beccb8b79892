"""What `mteb run` writes, as plain rows: one model on one split of one task.

Results are files `<org>__<name>/<revision>/<Task>.json` with `model_meta.json` beside them, at any depth, also in
copies of the public results repository. mteb is not used, so a report over thousands of files needs no torch and no
registry of mteb.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mteb_longembed.errors import DataError, InputError
from mteb_longembed.names.grammar import StoredName, split_model_name
from mteb_longembed.reports.safe_files import printable, read_json

from .columns import COLUMNS, GENERATED, Column, column_of


@dataclass(frozen=True)
class Model:
    """The model of a result folder; numbers are None if they are unknown."""

    name: StoredName
    revision: str  # as in `model_meta.json`
    n_parameters: int | None = field(default=None, compare=False)
    max_tokens: int | None = field(default=None, compare=False)  # the longest input

    @property
    def tokens(self) -> int | None:
        """The target length, or else the longest input, in tokens."""
        return self.name.target_len or self.max_tokens


@dataclass(frozen=True)
class Result:
    """One model's score on one split, from 0 to 1, in the metric of the task's column."""

    model: Model
    task: str
    split: str
    score: float
    dataset_revision: str  # empty if it is unknown
    path: Path


def load_results(folders: Sequence[Path]) -> tuple[list[Result], list[str]]:
    """Every result file below the folders, sorted by path, and one sentence for each file that was skipped.

    Args:
        folders: results of mteb, with any folders in them.

    Raises:
        InputError: if a folder does not exist.
    """
    rows: dict[tuple[Model, str, str], Result] = {}
    problems = []
    for path in _paths(folders):
        column = column_of(path.stem)
        if column is None:  # the public repository has a hundred thousand files of other tasks
            continue
        try:
            for row in _read_results(path, column):
                first = rows.setdefault((row.model, row.task, row.split), row)
                if first.score != row.score:
                    problems.append(
                        f"skipped {path}, split {row.split}: {first.path} has another score for it."
                    )
        except (DataError, OSError) as error:
            problems.append(f"skipped {path}: {error}")
    results, others = _of_one_revision(rows.values())
    for row in others:
        problems.append(f"skipped {row.path}: most results are on another revision of the generated data.")
    return results, list(dict.fromkeys(map(printable, problems)))


def _paths(folders: Iterable[Path]) -> list[Path]:
    """All JSON files in the folders."""
    paths: list[Path] = []
    for folder in folders:
        if not folder.exists():
            raise InputError(f"there is no results folder {str(folder)!r}: give one that `mteb run` wrote.")
        if folder.is_dir():
            paths += sorted(folder.rglob("*.json"))
        else:
            paths.append(folder)
    return paths


def _of_one_revision(results: Iterable[Result]) -> tuple[list[Result], list[Result]]:
    """The results on the most common revision of each generated task, and the others: one table never has both."""
    generated = {column.tasks[GENERATED] for column in COLUMNS if column.is_by_length}
    counts: dict[str, Counter[str]] = {}
    for row in results:
        counts.setdefault(row.task, Counter())[row.dataset_revision] += 1
    usual = {task: counter.most_common(1)[0][0] for task, counter in counts.items()}
    kept = []
    others = []
    for row in results:
        if row.task in generated and row.dataset_revision != usual[row.task]:
            others.append(row)
        else:
            kept.append(row)
    return kept, others


def _read_results(path: Path, column: Column) -> list[Result]:
    """The scores of a result file, one for each split."""
    data = read_json(path)
    if data.get("task_name") != path.stem:
        raise DataError(
            f"its 'task_name' must be {path.stem!r}, got {data.get('task_name')!r} (None: of mteb before 1.11)."
        )
    scores = data.get("scores")
    if not isinstance(scores, dict):
        raise DataError("its 'scores' is not an object with one entry for each split.")
    model = _read_model(path.parent)
    revision = printable(str(data.get("dataset_revision") or ""))
    results = []
    for split, subsets in scores.items():
        score = _score(column, split, subsets)
        results.append(Result(model, path.stem, printable(split), score, revision, path))
    return results


def _score(column: Column, split: str, subsets: object) -> float:
    """The score of the subset `default` in the column's metric."""
    entries = []
    if isinstance(subsets, list):
        entries = subsets
    default = [s for s in entries if isinstance(s, dict) and s.get("hf_subset") == "default"]
    if len(default) != 1:
        raise DataError(f"its split {split!r} has {len(default)} subsets named 'default' instead of one.")
    value = default[0].get(column.metric)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DataError(f"its split {split!r} has no number {column.metric!r}.")
    if not 0 <= value <= 1:
        raise DataError(
            f"its {column.metric!r} of split {split!r} must be from 0 to 1, got {str(value)[:20]}."
        )
    return float(value)


def _read_model(folder: Path) -> Model:
    """The model of a revision folder."""
    try:
        meta = read_json(folder / "model_meta.json")
    except DataError as error:
        raise DataError(f"model_meta.json beside it: {error}") from None
    name = meta.get("name")
    if not isinstance(name, str):
        raise DataError("model_meta.json beside it does not name a model.")
    return Model(
        split_model_name(printable(name)),
        printable(str(meta.get("revision") or folder.name)),
        _finite_int(meta.get("n_parameters")),
        _finite_int(meta.get("max_tokens")),
    )


def _finite_int(value: object) -> int | None:
    # For an input length without limit, mteb writes infinity; no number of parameters or tokens has 300 digits.
    if isinstance(value, int | float) and 0 < value < 1e300:
        return int(value)
    return None


def short_revision(revision: str) -> str:
    """A revision with only the first characters of its commit.

    >>> short_revision("0123456789abcdef0123456789abcdef01234567-le2")
    '01234567-le2'
    """
    return re.sub("^([0-9a-f]{8})[0-9a-f]{32}", r"\1", revision)
