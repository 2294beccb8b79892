"""The picture and the walk of docs/architecture.md are those of the code."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
#: Rooms inside `encoders`; what lies in `encoders` itself is one more.
INNER = ("attention", "bases", "engine", "families", "store", "strategies")


def room(module: str) -> str | None:
    """The room in which a module lies; None for the package itself."""
    parts = module.split(".")[1:]
    if parts[:1] == ["encoders"] and len(parts) > 1 and parts[1] in INNER:
        return parts[1]
    return parts[0] if parts else None


def test_the_picture_shows_exactly_the_imports_between_rooms() -> None:
    graph = grimp.build_graph("mteb_longembed", exclude_type_checking_imports=True, cache_dir=None)
    pairs = {
        (room(importer), room(imported))
        for importer in graph.modules
        for imported in graph.find_modules_directly_imported_by(importer)
    }
    real = {(a, b) for a, b in pairs if a and b and a != b and b != "errors"}
    picture = re.search(r"```mermaid\n(.*?)```", TEXT, re.DOTALL)
    assert picture is not None
    drawn = set(re.findall(r"(\w+) --> (\w+)", picture[1]))
    assert drawn == real


def test_every_room_says_what_it_is_for() -> None:
    for folder in {path.parent for path in (ROOT / "mteb_longembed").rglob("*.py")}:
        first = (folder / "__init__.py").read_text(encoding="utf-8")
        assert first.startswith('"""'), f"{folder.name} has no docstring"


def test_the_walk_names_at_most_six_functions_and_all_exist() -> None:
    steps = re.findall(r"^\d\. `([\w.]+)`", TEXT, re.MULTILINE)
    assert 0 < len(steps) <= 6
    for step in steps:
        parts = step.split(".")
        for cut in range(len(parts) - 1, 0, -1):
            try:
                found = importlib.import_module(f"mteb_longembed.{'.'.join(parts[:cut])}")
                break
            except ModuleNotFoundError:
                continue
        for name in parts[cut:]:
            found = getattr(found, name)
        assert callable(found), step
