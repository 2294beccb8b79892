"""What `mteb run` writes: results as plain rows, one model on one split of one task, and the rankings of documents.

Results are files `<org>__<name>/<revision>/<Task>.json` with `model_meta.json` beside them, at any depth, also in
copies of the public results repository. mteb is not used, so a report over thousands of files needs no torch and no
registry of mteb.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import NamedTuple

from mteb_longembed.errors import DataError
from mteb_longembed.names.grammar import StoredName, split_model_name
from mteb_longembed.reports.safe_files import printable, read_folders, read_json
from mteb_longembed.reports.scores.published_numbers import column_of, metric_of

_RANKINGS_SUFFIX = "_predictions.json"
_HEADER = "mteb_model_meta"


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
    """One model's main score on one split, from 0 to 1; an unknown text is empty."""

    model: Model
    task: str
    split: str
    score: float  # in the task's metric (`metric_of`)
    dataset_revision: str
    path: Path
    mteb_version: str = ""
    date: str = ""  # the day of the run, such as 2026-01-31
    queries: tuple[float, ...] = ()  # the scores of single queries, if their rankings are known

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What a score belongs to: the model's full name, its revision, the task and the split."""
        return (self.model.name.full, self.model.revision, self.task, self.split)


def load_results(folders: Sequence[Path | str]) -> tuple[list[Result], list[str]]:
    """Every result file below the folders, sorted by path, and one sentence for each file that was skipped.

    Args:
        folders: results of mteb, with any folders in them.

    Raises:
        InputError: if a folder does not exist.
    """
    results, problems = read_folders("results", folders, "*.json", _read_results)
    rows: dict[tuple[str, str, str, str], Result] = {}
    for row in results:
        first = rows.setdefault(row.key, row)
        if first.score != row.score:
            problem = f"skipped {row.path}, split {row.split}: {first.path} has another score for it."
            problems.append(printable(problem))
    return list(rows.values()), problems


def _read_results(path: Path) -> list[Result]:
    # the public repository has a hundred thousand files of other tasks; predictions have a suffix after the task
    """The scores of a result file, one for each split; none for a task of others."""
    if column_of(path.stem) is None:
        return []
    data = read_json(path)
    if data.get("task_name") != path.stem:
        raise DataError(
            f"its 'task_name' must be {path.stem!r}, got {data.get('task_name')!r} (None: of mteb before 1.11)."
        )
    scores = data.get("scores")
    if not isinstance(scores, dict):
        raise DataError("its 'scores' is not an object with one entry for each split.")
    task = path.stem
    model = _read_model(path.parent)
    day = _day(data.get("date"))
    revision, version = (printable(str(data.get(key) or "")) for key in ("dataset_revision", "mteb_version"))
    return [
        Result(model, task, printable(split), _score(task, split, subsets), revision, path, version, day)
        for split, subsets in scores.items()
    ]


def _score(task: str, split: str, subsets: object) -> float:
    """The score of the subset `default` in the task's metric."""
    entries = []
    if isinstance(subsets, list):
        entries = subsets
    default = [s for s in entries if isinstance(s, dict) and s.get("hf_subset") == "default"]
    if len(default) != 1:
        raise DataError(f"its split {split!r} has {len(default)} subsets named 'default' instead of one.")
    name = metric_of(task)
    value = default[0].get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DataError(f"its split {split!r} has no number {name!r}.")
    if not 0 <= value <= 1:
        raise DataError(f"its {name!r} of split {split!r} must be from 0 to 1, got {str(value)[:20]}.")
    return float(value)


def _day(value: object) -> str:
    """The day of a run: mteb writes seconds since 1970 or a text in ISO 8601."""
    try:
        if isinstance(value, str):
            return date.fromisoformat(value[:10]).isoformat()
        if isinstance(value, int | float):
            return datetime.fromtimestamp(value, UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        pass
    return ""


def _read_model(folder: Path) -> Model:
    """The model of a revision folder; without `model_meta.json` the folders' names are used, as in mteb."""
    meta_path = folder / "model_meta.json"
    meta: dict[str, object] = {}
    if meta_path.is_file():
        try:
            meta = read_json(meta_path)
        except DataError as error:
            raise DataError(f"{meta_path.name} beside it: {error}") from None
        if not isinstance(meta.get("name", ""), str | None):
            raise DataError(f"{meta_path.name} beside it does not name a model.")
    name = meta.get("name") or folder.parent.name.replace("__", "/", 1)
    return Model(
        split_model_name(printable(str(name))),
        printable(str(meta.get("revision") or folder.name)),
        _finite_int(meta.get("n_parameters")),
        _finite_int(meta.get("max_tokens")),
    )


def _finite_int(value: object) -> int | None:
    # For an input length without limit, mteb writes infinity; no number of parameters or tokens has 300 digits.
    if isinstance(value, int | float) and 0 < value < 1e300:
        return int(value)
    return None


@dataclass(frozen=True)
class Predictions:
    """One model's rankings on one task: by split and query id, the score of each document id. They are not checked."""

    model: str  # its full name
    revision: str
    task: str
    rankings: Mapping[str, Mapping[str, Mapping[str, float]]] = field(hash=False, repr=False)
    path: Path


class DepthPoint(NamedTuple):
    """One query's outcome."""

    length: int  # of the context, in tokens
    depth: float  # the place of its answer, from 0 (first sentence) to 1 (last sentence)
    score: float  # 1 if the right document came first, otherwise 0


def load_predictions(folders: Sequence[Path | str]) -> tuple[list[Predictions], list[str]]:
    """Every `<Task>_predictions.json` below the folders, and one sentence for each file that was skipped.

    mteb names a predictions file only after its task. If a second model overwrites the file, the first model's name
    stays in it. So every model needs its own folder, and the report checks the scores against the result files.
    """
    return read_folders("predictions", folders, f"*{_RANKINGS_SUFFIX}", _read_predictions)


def _read_predictions(path: Path) -> list[Predictions]:
    data = read_json(path)
    header = data.get(_HEADER)
    if not isinstance(header, dict) or not isinstance(header.get("model_name"), str):
        raise DataError(f"it is not an MTEB predictions file (no {_HEADER!r} with a model's name).")
    rankings = data.get("default")
    if not isinstance(rankings, dict):
        raise DataError("it has no rankings for the subset 'default'.")
    name, revision = printable(header["model_name"]), printable(str(header.get("revision")))
    return [Predictions(name, revision, path.name.removesuffix(_RANKINGS_SUFFIX), rankings, path)]
