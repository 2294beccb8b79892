"""Where a comparison is written: a folder of its own, with links to the other comparisons of the output folder."""

from __future__ import annotations

from pathlib import Path

from mteb_longembed.comparing.comparison import Comparison
from mteb_longembed.errors import DataError
from mteb_longembed.reports.files import make_folder, read_json, slug

#: The folder of all comparisons inside the output folder.
COMPARISONS = "comparisons"
PAGE, MACHINE = "compare.html", "compare.json"


def folder_of(found: Comparison, output: Path) -> Path:
    """The folder of a comparison, made if need be. Its name has a hash of data, candidates and metrics.

    So the same command writes to the same place, and another one never overwrites it.

    Raises:
        InputError: if it cannot be made.
    """
    folder = output / COMPARISONS / slug(f"{'+'.join(found.tasks)[:60]}-{found.identity[:8]}")
    make_folder("the comparison's folder", folder)
    return folder


def siblings(folder: Path) -> list[tuple[str, str]]:
    """Links to the other comparisons, the newest first: the page's address, and data, best candidate and date."""
    found = []
    for path in folder.parent.glob(f"*/{MACHINE}"):
        if path.parent == folder or not path.with_name(PAGE).is_file():
            continue
        try:
            saved = read_json(path)
            written, best = saved["written"], saved["recommendation"]["best"]
            text = f"{', '.join(saved['tasks'])}: {best}, {written}"
        except (DataError, OSError, LookupError, TypeError):
            continue  # another program wrote it
        found.append((str(written), f"../{path.parent.name}/{PAGE}", text))
    return [(address, text) for _, address, text in sorted(found, reverse=True)]
