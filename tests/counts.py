"""Count what a reader of the package has to follow, and compare it with its limits: `python -m tests.counts`.

Modules that run are counted by Python's profiler with everything imported before, on mini-ape and six documents.
"""

import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import mteb_longembed as longembed

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "mteb_longembed"
#: What is counted -> the most that it may be.
LIMITS = {
    "lines of the package": 23_200,
    "files of the package": 162,
    "lines of the tests": 22_500,
    "modules that run in `mteb run`": 33,
    "modules that run in `search`": 55,
    "modules that run in `compare`": 80,
    "functions of `load`": 72,
    "files of `load`": 17,
    "changes of file of `load`": 48,
    "files that name a setting of a search, at most": 3,
    "lines with Any": 66,
    "lines with cast": 3,
    "lines with getattr": 22,
    "Pooling.of in a small `compare`": 2,
    "resolve in a small `compare`": 3,
    "Method.__post_init__ in a small `compare`": 50,
}
#: A text for each document.
DOCUMENTS = {f"d{number}": f"Document {number} tells of a key. " * 40 for number in range(6)}
QUERIES = {f"q{number}": f"Where is key {number}?" for number in range(6)}
QRELS = {f"q{number}": {f"d{number}": 1} for number in range(6)}


class Ran:
    """The functions of the package that ran, in their order: file and qualified name."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, str]] = []

    def note(self, frame: FrameType, event: str, _: object) -> None:
        """Note a call."""
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            self.steps.append((frame.f_code.co_filename, frame.f_code.co_qualname))

    @property
    def calls(self) -> Counter[str]:
        """How often each function ran."""
        return Counter(name for _, name in self.steps)

    @property
    def path(self) -> list[tuple[str, str]]:
        """The functions that a reader follows, in their order: no comprehensions, and not the watcher of imports."""
        return [
            step for step in self.steps if "<" not in step[1].rpartition(".")[2] and "Watcher" not in step[1]
        ]

    @property
    def modules(self) -> set[str]:
        """The files whose functions ran. What only declares (`<module>`, class bodies) is not counted."""
        return {file for file, name in self.steps if "<" not in name}


@contextmanager
def profiled() -> Iterator[Ran]:
    """Note which functions of the package run."""
    ran = Ran()
    sys.setprofile(ran.note)
    try:
        yield ran
    finally:
        sys.setprofile(None)


def counted(call: Callable[[], Any]) -> Ran:
    """Run a call twice, and return which functions ran the second time: the first one imports."""
    call()
    with profiled() as ran:
        call()
    return ran


def search() -> None:
    """Search six documents by the recommended method."""
    searcher = longembed.search("mini-ape+hybrid@1k", device="cpu")
    searcher.add(DOCUMENTS, DOCUMENTS.values())
    searcher.search("Where is key 3?")


def compare() -> None:
    """Compare the methods for a base on six documents."""
    with tempfile.TemporaryDirectory() as folder:
        data = {"corpus": DOCUMENTS, "queries": QUERIES, "qrels": QRELS}
        longembed.compare(["mini-ape"], **data, output_folder=folder, device="cpu", show=False, quick=True)


def mteb_run() -> None:
    """Run a task with an extended model, as `mteb run` does."""
    import mteb

    task = mteb.get_task("LongEmbedPasskey", eval_splits=["test_256"])
    with tempfile.TemporaryDirectory() as folder:
        cache = mteb.ResultCache(folder)
        mteb.evaluate(
            mteb.get_model("mini-ape+ntk", device="cpu"), task, cache=cache, show_progress_bar=False
        )


def of_load(name: str) -> dict[str, int]:
    """Count what a reader of `load` follows for a name: functions, files and changes of file."""
    with profiled() as ran:
        longembed.load(name)
    path = ran.path
    files = [file for file, _ in path]
    return {
        "functions of `load`": len(set(path)),
        "files of `load`": len(set(files)),
        "changes of file of `load`": sum(one != other for one, other in pairwise(files)),
    }


def lines_of(folder: Path) -> tuple[int, int]:
    """Return the number of lines and of files of Python below a folder."""
    files = list(folder.rglob("*.py"))
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files), len(files)


def counts() -> dict[str, int]:
    """Return everything that `LIMITS` has a limit for."""
    from mteb_longembed.encoders.method import SEARCH_SETTINGS

    found = {}
    found["lines of the package"], found["files of the package"] = lines_of(PACKAGE)
    found["lines of the tests"], _ = lines_of(ROOT / "tests")
    found["modules that run in `mteb run`"] = len(counted(mteb_run).modules)
    found["modules that run in `search`"] = len(counted(search).modules)
    of_compare = counted(compare)
    found["modules that run in `compare`"] = len(of_compare.modules)
    longembed.load("mini-ape")
    found.update(of_load("mini-ape+pcw@4k"))
    texts = [file.read_text(encoding="utf-8") for file in sorted(PACKAGE.rglob("*.py"))]
    of_settings = [
        sum(bool(re.search(rf"\b{setting}\b", text)) for text in texts)
        for setting in SEARCH_SETTINGS
        if "_" in setting  # the others are words too
    ]
    found["files that name a setting of a search, at most"] = max(of_settings)
    lines = [line for text in texts for line in text.splitlines()]
    for word in ("Any", "cast", "getattr"):
        pattern = re.compile(rf"\b{word}\b(?!.*import)" if word == "Any" else rf"\b{word}\(")
        found[f"lines with {word}"] = sum(bool(pattern.search(line)) for line in lines)
    for name in ("Pooling.of", "resolve", "Method.__post_init__"):
        found[f"{name} in a small `compare`"] = of_compare.calls[name]
    return found


def main() -> int:
    """Print each count with its limit; return 1 if one is above it."""
    found = counts()
    width = max(map(len, LIMITS))
    for name, limit in LIMITS.items():
        print(
            f"{name:<{width}}  {found[name]:>7,}  at most {limit:>7,}{'  <- above' if found[name] > limit else ''}"
        )
    return int(any(found[name] > limit for name, limit in LIMITS.items()))


if __name__ == "__main__":
    sys.exit(main())
