"""Do results that `mteb run` writes pass the tests of mteb's public repository of results?

    git clone https://github.com/embeddings-benchmark/results
    python -m experiments.public_checks results -m e5-base+ntk@1k

The clone stays as it is: its commit is checked out beside it, the results are committed there, and its own tests run.
Our tests have the same checks written anew (`tests/plugin/test_experiments.py`), for machines without a clone.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

#: One task and one split take seconds.
TASK = ["-t", "LongEmbedPasskey", "--eval-splits", "test_256"]

#: Who commits, on a machine where git knows nobody.
AUTHOR = ["-c", "user.name=mteb-longembed", "-c", "user.email=none"]


def run(*command: object, cwd: Path | None = None) -> int:
    """Run a command, show it, and return its exit status."""
    words = list(map(str, command))
    print("$", *words, flush=True)
    return subprocess.run(words, cwd=cwd, check=False).returncode


def main() -> int:
    """Write results with the stock command and return the status of the repository's tests on them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clone", type=Path, help="a clone of the repository of results")
    parser.add_argument(
        "-m", "--model", default="e5-base+ntk@1k", help="a name on a base that mteb has registered"
    )
    args = parser.parse_args()
    clone = args.clone.resolve()
    with tempfile.TemporaryDirectory() as temporary:
        written = Path(temporary, "written")
        copy = Path(temporary, "copy")
        mteb = [sys.executable, "-m", "mteb", "run", "-m", args.model, *TASK, "--output-folder", written]
        if run(*mteb) or run("git", "worktree", "add", "--detach", copy, "HEAD", cwd=clone):
            return 2
        try:
            shutil.copytree(written / "results", copy / "results", dirs_exist_ok=True)
            run("git", "add", "results", cwd=copy)
            run("git", *AUTHOR, "commit", "--quiet", "--message", "results", cwd=copy)
            return run(sys.executable, "-m", "pytest", "-q", "tests", cwd=copy)
        finally:
            run("git", "worktree", "remove", "--force", copy, cwd=clone)


if __name__ == "__main__":
    sys.exit(main())
