"""Wheel, editable install and uninstall, in environments made for it."""

import configparser
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import mteb_longembed
from tests import environments

ROOT = Path(__file__).parents[1]
STARTUP = ("mteb_longembed.pth", "mteb_longembed.start")
#: What the stock library knows where nobody has imported ours.
LOOK = """
import mteb, sys
mteb.get_task("LongEmbedPasskey")
assert "torch" not in sys.modules
assert mteb.cli.main.before_longembed
"""


@pytest.fixture(scope="module")
def described(wheel) -> Iterator[metadata.PathDistribution]:
    """The metadata of the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        yield metadata.PathDistribution(zipfile.Path(archive, name.removesuffix("METADATA")))


def test_stock_mteb_knows_us_without_an_import_even_if_isolated_unless_autoload_is_off(stock) -> None:
    stock.run("-I", "-c", LOOK)
    off = {**os.environ, "MTEB_LONGEMBED_AUTOLOAD": "0"}
    stock.run("-c", "import sys; assert 'mteb_longembed' not in sys.modules", env=off)


@pytest.mark.parametrize("kind", ["wheel", "editable"])
def test_an_installation_starts_with_python_has_both_front_doors_and_goes_as_a_whole(kind, wheel, tmp_path):
    environment = environments.create(tmp_path / "env")
    original = set(environment.site_packages.rglob("*"))
    if kind == "wheel":
        environment.install(wheel)
    else:
        environment.install("-e", environments.copy_sources(tmp_path / "sources"))
    for name in STARTUP:
        assert (environment.site_packages / name).read_bytes() == (ROOT / name).read_bytes()
    # an editable install has a startup file of its own, which must come before ours
    environment.run("-I", "-c", "import sys; assert 'mteb_longembed.autoload' in sys.modules")
    assert "compare" in environment.run(environment.executable.with_name("mteb-longembed"), "--help")
    assert environment.run("-m", "mteb_longembed", "--version").strip() == mteb_longembed.__version__
    environment.pip("uninstall", "--yes", "mteb-longembed")
    left = {path for path in environment.site_packages.rglob("*") if "__pycache__" not in path.parts}
    assert left <= original
    assert environment.attempt("-c", "import mteb_longembed").returncode != 0


def test_the_wheel_holds_every_file_of_the_package_and_nothing_that_an_earlier_build_left(wheel) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())
    sources = wheel.parent / "sources"
    files = [path for path in (sources / "mteb_longembed").rglob("*") if path.is_file()]
    wanted = {path.relative_to(sources).as_posix() for path in files}
    assert wanted <= held and "mteb_longembed/gone.py" not in held
    described = next(name for name in held if name.endswith("/RECORD")).split("/")[0]
    assert {name.split("/")[0] for name in held} == {"mteb_longembed", *STARTUP, described}


def test_the_sdist_holds_the_tests_with_their_data_and_all_that_they_read(tmp_path) -> None:
    sources = environments.copy_sources(tmp_path / "sources")
    rooms = ("tests", "experiments", "docs", "examples", ".ci")
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
    for room in rooms:
        shutil.copytree(ROOT / room, sources / room, ignore=ignored)
    wanted = {path for room in rooms for path in (sources / room).rglob("*") if path.is_file()}
    build = f"from setuptools import build_meta; build_meta.build_sdist({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=sources, check=True, capture_output=True, timeout=600)
    (made,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(made) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert {path.relative_to(sources).as_posix() for path in wanted} | {"README.md", "LICENSE"} <= held


def test_the_tested_set_lies_within_the_ranges(described) -> None:
    requirements = [Requirement(text) for text in described.requires or ()]
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [Requirement(line) for line in lines if line[0] != "#"]
    pinned = {pin.name.lower().replace("_", "-"): next(iter(pin.specifier)).version for pin in pins}
    # PyStemmer 2 and 3 give BM25 different scores
    assert pinned["torch"] == "2.13.0" and pinned["pystemmer"].startswith("3.")
    for requirement in requirements:
        name = requirement.name.lower().replace("_", "-")
        if name not in ("mteb-longembed", "pip"):
            assert requirement.specifier.contains(pinned[name]), requirement


def test_version_and_address_are_the_same_everywhere() -> None:
    settings = configparser.RawConfigParser()
    settings.read(ROOT / "setup.cfg")
    url = settings["metadata"]["url"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {mteb_longembed.__version__}\n" in citation
    assert f"\nrepository-code: {url}\n" in citation
    releases = re.findall(r"^## \[(\d[\d.]*)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert releases[0] == mteb_longembed.__version__


def test_the_page_on_the_package_index_has_no_link_into_nowhere(described) -> None:
    text = described.read_text("METADATA")
    assert "Author: The mteb-longembed developers" in text and "Project-URL: Issues, https://" in text
    page = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    assert not re.findall(r"\]\((?!https://|#)[^)]*\)", page)
