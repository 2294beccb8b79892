"""Runs the README's first command exactly as it is written, in a fresh clone: `tox -e quickstart`."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def command(kind: str) -> str:
    """The command in the README under the comment that starts with `kind`."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (found,) = re.findall(rf"<!-- {kind}:[^\n]*-->\n```console\n\$ (.*?)\n```", readme, re.DOTALL)
    return found


def main() -> int:
    """Run it and return its exit status, or 1 if it wrote no result."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "clone", "--quiet", "--no-local", str(ROOT), folder], check=True)
        done = subprocess.run(command("quickstart"), shell=True, cwd=folder)
        results = list(Path(folder, "results").rglob("LongEmbedPasskey.json"))
        print(*(path.relative_to(folder) for path in results), sep="\n")
        return done.returncode or int(not results)


if __name__ == "__main__":
    sys.exit(main())
