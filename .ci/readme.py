"""Runs a command of the README exactly as it is written: `python .ci/readme.py {tests,quickstart}`.

`tests` runs here. `quickstart` runs in a fresh clone and must leave a comparison: `tox -e quickstart`.
"""

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
    (match,) = re.findall(rf"<!-- {kind}:[^\n]*-->\n```console\n\$ (.*?)\n```", readme, re.DOTALL)
    print(f"+ {match}", flush=True)
    return match


def main(kind: str) -> int:
    """Run it and return its exit status, or 1 if the quickstart wrote no comparison."""
    if kind == "tests":
        return subprocess.run(command(kind), shell=True, cwd=ROOT).returncode
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "clone", "--quiet", "--no-local", str(ROOT), folder], check=True)
        status = subprocess.run(command(kind), shell=True, cwd=folder).returncode
        pages = list(Path(folder, "results").rglob("compare.html"))
        tables = list(Path(folder, "results").rglob("compare.json"))
        print(*(path.relative_to(folder) for path in (*pages, *tables)), sep="\n")
        return status or int(not (pages and tables))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
