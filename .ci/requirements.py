"""Writes the requirements in setup.cfg to a requirements file, for tools that cannot read setup.cfg.

python .ci/requirements.py FILE
"""

from __future__ import annotations

import configparser
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: Extras whose packages the package itself imports.
EXTRAS = ("api", "leaderboard", "peft", "train")


def declared() -> list[str]:
    """The requirements of the package and of its extras, one a line."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    blocks = [setup["options"]["install_requires"]]
    blocks += [setup["options.extras_require"][extra] for extra in EXTRAS]
    lines = (line.strip() for block in blocks for line in block.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


if __name__ == "__main__":
    Path(sys.argv[1]).write_text("\n".join(declared()) + "\n", encoding="utf-8")
