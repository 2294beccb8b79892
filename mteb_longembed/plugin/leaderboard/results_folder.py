"""Where the results of `mteb run` lie in a folder, and which splits a file of them has."""

from __future__ import annotations

from pathlib import Path

from mteb_longembed.errors import DataError, InputError
from mteb_longembed.reports.safe_files import read_json


def cache_folder(folder: str | Path) -> Path:
    """The folder that was given to `mteb run --output-folder`, from it or from the folder `results` in it."""
    given = Path(folder)
    for candidate in (given, given.resolve().parent):
        is_given = given.resolve() in (candidate.resolve(), (candidate / "results").resolve())
        if is_given and any(candidate.glob("results/*/*/*.json")):
            return candidate
    raise InputError(
        f"{given} must be a folder that `mteb run --output-folder {given}` wrote, with files of the form "
        "results/MODEL/REVISION/TASK.json, got no such file."
    )


def splits_in(file: Path) -> set[str]:
    """The splits with results in a file of mteb's. None of them if there is no such file, or it cannot be read."""
    try:
        scores = read_json(file).get("scores")
    except (OSError, DataError):  # mteb reports files that it cannot read
        return set()
    return set(scores) if isinstance(scores, dict) else set()
