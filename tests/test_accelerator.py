"""The kit for accelerators runs as a whole on a CPU, without mteb and datasets, and keeps its form."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: A bare machine has neither: no module and no record of an installation. `runpy` runs the script as the command does.
BARE = """
import importlib.metadata, runpy, sys

HIDDEN = ("mteb", "datasets")
sys.modules.update(dict.fromkeys(HIDDEN))
installed = importlib.metadata.Distribution.from_name

def from_name(name):
    if name in HIDDEN:
        raise importlib.metadata.PackageNotFoundError(name)
    return installed(name)

importlib.metadata.Distribution.from_name = from_name
sys.argv = ["accelerator.py", "--tiny", "--out", sys.argv[1]]
runpy.run_path("experiments/accelerator.py", run_name="__main__")
"""
#: Half a minute for a kit that is made for machines with an accelerator.
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict:
    folder = tmp_path_factory.mktemp("kit")
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-c", BARE, str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert (folder / "accelerator.md").read_text(encoding="utf-8").startswith("# Accelerator\n")
    return json.loads((folder / "accelerator.json").read_text(encoding="utf-8"))


def rows(report: dict, part: str, title: str) -> list[dict]:
    made = report["parts"][part]["tables"][title]
    return [dict(zip(made["head"], row, strict=True)) for row in made["rows"]]


def test_every_part_ran(report: dict) -> None:
    names = ["correctness", "end to end", "strategies", "utilisation", "memory"]
    assert list(report["parts"]) == names
    for name, part in report["parts"].items():
        assert "skipped" not in part and not part["notes"], f"{name}: {part}"
        for title, made in part["tables"].items():
            assert made["rows"], title
            assert all(len(row) == len(made["head"]) for row in made["rows"])


def test_numbers_are_those_of_documents_alone_of_full_precision_and_of_sentence_transformers(report) -> None:
    kernels = rows(report, "correctness", "kernels")
    full = [row for row in kernels if row["type"] == "float32"]
    assert len({row["path"] for row in full}) == len(full) == 36
    assert max(row["largest difference"] for row in full) < 1e-5
    assert max(row["largest difference"] for row in kernels) < 0.05
    key = "smallest cosine to fp32 on the CPU"
    models = rows(report, "correctness", "models")
    assert {row["model"].split("+")[0] for row in models} == {"absolute", "rotary", "causal"}
    assert min(row[key] for row in models if row["type"] == "float32") > 1 - 1e-5
    assert min(row[key] for row in models) > 0.99
    assert max(row["largest difference"] for row in rows(report, "end to end", "encoding")) < 0.1


def test_each_row_says_what_both_sides_used(report: dict) -> None:
    (used,) = {(row["stock used"], row["ours used"]) for row in rows(report, "end to end", "encoding")}
    assert used[0] == "sdpa, padded" and used[1].startswith("bfloat16, padded batches")
    assert {row["strategy"] for row in rows(report, "strategies", "strategies")} >= {"se"}


def test_finished_rows_stay_when_a_later_one_fails_or_the_time_is_over(tmp_path: Path) -> None:
    code = """
import sys, time
sys.path.insert(0, "experiments")
import accelerator as kit
def rows():
    yield [1]
    raise RuntimeError("CUDA out of memory")
saved = []
sheet = kit.Sheet(time.monotonic() + 60, lambda: saved.append(1))
sheet.fill("a", ["x"], rows())
sheet.fill("b", ["x"], iter([[2], [3]]))
sheet.end = 0
try:
    sheet.fill("c", ["x"], iter([[4]]))
except kit.NoTimeError:
    print(sheet.tables, sheet.notes, len(saved), sep="\\n")
versions = {**kit.NEEDED, "sentence-transformers": "6.0.1", "torch": "2.13.0+cpu"}
print(kit.missing_packages(versions.__getitem__))
"""
    done = subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True)
    assert done.splitlines() == [
        "{'a': {'head': ['x'], 'rows': [[1]]}, 'b': {'head': ['x'], 'rows': [[2], [3]]}, "
        "'c': {'head': ['x'], 'rows': []}}",
        "['a: failed after 1 rows: RuntimeError: CUDA out of memory', "
        "'c: skipped after 0 rows: no time was left.']",
        "3",
        "this kit needs at least sentence-transformers 6.2 (got 6.0.1): python -m pip install --no-deps "
        "'sentence-transformers>=6.2'.",
    ]
