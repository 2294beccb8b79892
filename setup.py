"""Puts the two startup files into wheels and makes the README's links absolute; all else is in setup.cfg.

setuptools has no setting for a `.pth` file, so it is added to the finished wheel, whose RECORD names it: `pip
uninstall` removes it.
"""

import base64
import configparser
import hashlib
import re
import shutil
import zipfile
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.editable_wheel import editable_wheel

ROOT = Path(__file__).parent
STARTUP_FILES = ("mteb_longembed.pth", "mteb_longembed.start")


def add_startup_files(wheel: Path) -> None:
    """Add the startup files to the root of a wheel, which pip unpacks into site-packages."""
    with zipfile.ZipFile(wheel) as archive:
        members = {info: archive.read(info) for info in archive.infolist()}
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        record = ""
        for name in STARTUP_FILES:
            content = Path(__file__).with_name(name).read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record += f"{name},sha256={digest},{len(content)}\n"
            archive.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), content)
        for info, content in members.items():
            if info.filename.endswith(".dist-info/RECORD"):
                content = record.encode() + content
            archive.writestr(info, content)


class BdistWheel(bdist_wheel):
    """A wheel with the `.pth` file."""

    def run(self) -> None:
        # what an earlier build left there would come along, modules that are gone since included
        shutil.rmtree(self.get_finalized_command("build").build_lib, ignore_errors=True)
        super().run()
        add_startup_files(Path(self.distribution.dist_files[-1][2]))


class EditableWheel(editable_wheel):
    """An editable wheel with the `.pth` file."""

    def run(self) -> None:
        super().run()
        (wheel,) = Path(self.dist_dir).glob("*.whl")
        add_startup_files(wheel)


def repository() -> str:
    """The repository's address, from setup.cfg."""
    settings = configparser.RawConfigParser()
    settings.read(ROOT / "setup.cfg", encoding="utf-8")
    return settings["metadata"]["url"]


def long_description(url: str) -> str:
    """The README as package indexes show it: its links to files lead to the repository."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"!\[([^]]*)\]\((?!https?:)([^)]+)\)", rf"![\1]({url}/raw/main/\2)", text)
    return re.sub(r"\]\((?!https?:|#)([^)]+)\)", rf"]({url}/blob/main/\1)", text)


URL = repository()
setup(
    cmdclass={"bdist_wheel": BdistWheel, "editable_wheel": EditableWheel},
    long_description=long_description(URL),
    project_urls={
        "Documentation": f"{URL}/tree/main/docs",
        "Changelog": f"{URL}/blob/main/CHANGELOG.md",
        "Issues": f"{URL}/issues",
    },
)
