"""The picture and the walk of docs/architecture.md are those of the code."""

import importlib
import importlib.util
import re
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
_SPEC = importlib.util.spec_from_file_location("pictures", ROOT / "docs" / "pictures.py")
pictures = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(pictures)


def texts(svg: str) -> list[str]:
    return re.findall(r">([^<>]+)</text>", svg)


@pytest.mark.parametrize("name", ["rooms", "by_length"])
def test_a_picture_says_what_is_drawn_today(name) -> None:
    svg = (ROOT / "docs" / "images" / f"{name.replace('_', '-')}.svg").read_text(encoding="utf-8")
    assert texts(svg) and texts(svg) == texts(getattr(pictures, name)()), "run python docs/pictures.py"


def test_the_picture_has_every_room_and_every_module_of_encoders() -> None:
    for contract, folder in (("floors", "mteb_longembed"), ("encoders", "mteb_longembed/encoders")):
        drawn = [room for row in pictures.floors(contract) for room in row]
        code = {path.stem for path in (ROOT / folder).glob("*.py")} - {"__init__"}
        code |= {path.parent.name for path in (ROOT / folder).glob("*/__init__.py")}
        assert sorted(drawn) == sorted(code - {"models"})


def test_every_arrow_of_the_picture_is_an_import_that_goes_down() -> None:
    graph = grimp.build_graph("mteb_longembed", exclude_type_checking_imports=True, cache_dir=None)
    rows = {room: place for place, row in enumerate(pictures.floors("floors")) for room in row}
    for place, row in enumerate(pictures.floors("encoders")):
        rows |= {f"encoders.{room}": place for room in row}
    for importer, imported in pictures.ARROWS:
        assert rows[importer] < rows[imported], (importer, imported)
        names = (f"mteb_longembed.{importer}", f"mteb_longembed.{imported}")
        assert graph.direct_import_exists(importer=names[0], imported=names[1], as_packages=True), names


def test_the_table_of_rooms_names_every_room() -> None:
    rooms = set(re.findall(r"^\| `([\w/]+)/` \|", TEXT, re.MULTILINE))
    folders = {path.parent for path in (ROOT / "mteb_longembed").glob("**/__init__.py")}
    top = {path.name for path in folders if path.parent.name == "mteb_longembed"}
    inside = {f"encoders/{path.name}" for path in folders if path.parent.name == "encoders"}
    assert rooms == top | inside


def test_every_step_of_the_walk_exists() -> None:
    steps = re.findall(r"^\d\. `((?:plugin|encoders)\.[\w.]+)`", TEXT, re.MULTILINE)
    assert steps
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
