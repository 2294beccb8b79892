"""Where a tuning run keeps its state, and whether a new run may resume from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mteb_longembed.errors import InputError

SETTINGS_FILE = "settings.json"


def checkpoints_in(out: Path) -> Path:
    """The folder of the checkpoints of a run that writes its model to `out`."""
    return out / "checkpoints"


def last_complete(out: Path) -> Path | None:
    """The newest complete checkpoint. The trainer writes its state file last, so a checkpoint with it is complete."""
    found = []
    for folder in checkpoints_in(out).glob("checkpoint-*"):
        try:
            state = json.loads((folder / "trainer_state.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        found.append((int(state["global_step"]), folder))
    return max(found)[1] if found else None


def claim(out: Path, settings: dict[str, Any]) -> Path | None:
    """Prepare `out` for a run with these settings, and return the checkpoint to resume from, if there is one.

    Raises:
        InputError: if `out` has a finished model, or a run with other settings.
    """
    if (out / "modules.json").exists():
        raise InputError(f"the output folder must not have a model yet, got {out}: give another folder.")
    file = checkpoints_in(out) / SETTINGS_FILE
    if file.exists():
        before = json.loads(file.read_text(encoding="utf-8"))
        differing = sorted(k for k in before.keys() | settings.keys() if before.get(k) != settings.get(k))
        if differing:
            said = ", ".join(f"{k} {before.get(k)!r} before and {settings.get(k)!r} now" for k in differing)
            raise InputError(
                f"{out} has an unfinished run with other settings ({said}): give another folder."
            )
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    return last_complete(out)
