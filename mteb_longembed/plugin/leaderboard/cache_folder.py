"""A folder of results in the form that mteb's `ResultCache` needs."""

from __future__ import annotations

from pathlib import Path

from mteb_longembed.errors import InputError


def cache_folder(folder: str | Path) -> Path:
    """The folder that was given to `mteb run --output-folder`. It has files `results/MODEL/REVISION/TASK.json`.

    Args:
        folder: this folder, or the folder `results` in it.

    Raises:
        InputError: if it is neither of them.
    """
    given = Path(folder)
    for found in (given, given.resolve().parent):
        inner = found / "results"
        if (
            inner.is_dir()
            and (found == given or inner.resolve() == given.resolve())
            and any(inner.glob("*/*/*.json"))
        ):
            return found
    raise InputError(
        f"{given} must be a folder that `mteb run --output-folder {given}` wrote, with files of the form "
        "results/MODEL/REVISION/TASK.json, got no such file."
    )
