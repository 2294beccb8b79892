"""The rankings that `mteb run --prediction-folder` saves, and the place of each answer.

mteb names a predictions file only after its task. If a second model overwrites the file, the first model's name stays
in it. So every model needs its own folder, and the report checks the scores against the result files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from mteb_longembed.errors import DataError
from mteb_longembed.reports.safe_files import printable, read_folders, read_json

_SUFFIX = "_predictions.json"
_HEADER = "mteb_model_meta"


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
    """Every `<Task>_predictions.json` below the folders, and one sentence for each file that was skipped."""
    return read_folders("predictions", folders, f"*{_SUFFIX}", _read_file)


def _read_file(path: Path) -> list[Predictions]:
    data = read_json(path)
    header = data.get(_HEADER)
    if not isinstance(header, dict) or not isinstance(header.get("model_name"), str):
        raise DataError(f"it is not an MTEB predictions file (no {_HEADER!r} with a model's name).")
    rankings = data.get("default")
    if not isinstance(rankings, dict):
        raise DataError("it has no rankings for the subset 'default'.")
    name, revision = printable(header["model_name"]), printable(str(header.get("revision")))
    return [Predictions(name, revision, path.name.removesuffix(_SUFFIX), rankings, path)]
