"""Temporary virtual environments with our package installed. They also see the packages of this environment."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
_SOURCES = ("setup.py", "setup.cfg", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE")
CAPTURED = {"capture_output": True, "text": True, "timeout": 600}


@dataclass(frozen=True)
class Environment:
    """A virtual environment. `pip` and `python` run in it, without the PYTHON* variables of this process."""

    folder: Path

    @property
    def executable(self) -> Path:
        return self.folder / ("Scripts" if os.name == "nt" else "bin") / "python"

    @property
    def site_packages(self) -> Path:
        return Path(sysconfig.get_path("purelib", vars={"base": str(self.folder)}))

    def run(self, *arguments: str | Path, env: dict[str, str] | None = None, cwd: Path | None = None) -> str:
        """Run Python with these arguments and return its standard output. A failure shows its standard error."""
        done = self.attempt(*arguments, env=env, cwd=cwd)
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout

    def attempt(self, *arguments: str | Path, env=None, cwd=None) -> subprocess.CompletedProcess[str]:
        kept = {k: v for k, v in (env or os.environ).items() if not k.startswith("PYTHON")}
        return subprocess.run([self.executable, *arguments], env=kept, cwd=cwd or self.folder, **CAPTURED)

    def pip(self, *arguments: str | Path) -> None:
        command = [sys.executable, "-m", "pip", "--python", self.executable, *arguments, "--quiet"]
        done = subprocess.run(command, **CAPTURED)
        assert done.returncode == 0, done.stderr[-4000:]

    def install(self, *arguments: str | Path) -> None:
        """Install our package from a folder or wheel, with the dependencies that are installed already.

        The parent environment may have our package too (as in tox). That installation must have no effect.
        """
        options = ("--no-index", "--no-deps", "--no-build-isolation", "--ignore-installed", "--no-compile")
        self.pip("install", *options, *arguments)


def create(folder: Path) -> Environment:
    """A new environment that sees the packages of this environment, but not its startup files."""
    venv.create(folder, symlinks=os.name != "nt", with_pip=False)
    environment = Environment(folder)
    # Python searches a folder that a .pth file names for packages, but not for further .pth files
    seen = [path for path in sys.path if Path(path).name == "site-packages"]
    (environment.site_packages / "parent.pth").write_text("\n".join(seen) + "\n")
    return environment


def build(sources: Path, folder: Path) -> Path:
    """The wheel of some sources, in a folder."""
    options = ("--no-index", "--no-deps", "--no-build-isolation", "--quiet")
    command = [sys.executable, "-m", "pip", "wheel", *options, "-w", folder, sources]
    done = subprocess.run(command, **CAPTURED)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


def copy_sources(folder: Path) -> Path:
    """A copy of the files that a build needs, so that the build leaves no files in the working tree."""
    folder.mkdir()
    for name in (*_SOURCES, "mteb_longembed.pth", "mteb_longembed.start"):
        shutil.copy(ROOT / name, folder)
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
    shutil.copytree(ROOT / "mteb_longembed", folder / "mteb_longembed", ignore=ignored)
    return folder
