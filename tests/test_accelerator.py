"""The kit for accelerators runs as a whole on a CPU, without mteb and datasets, and keeps its form."""

from __future__ import annotations

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
runpy.run_path("benchmarks/accelerator.py", run_name="__main__")
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict:
    folder = tmp_path_factory.mktemp("kit")
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-c", BARE, str(folder)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert (folder / "accelerator.md").read_text(encoding="utf-8").startswith("# Accelerator\n")
    return json.loads((folder / "accelerator.json").read_text(encoding="utf-8"))


def rows(report: dict, part: str, title: str) -> list[dict]:
    made = report["parts"][part]["tables"][title]
    return [dict(zip(made["head"], row, strict=True)) for row in made["rows"]]


def test_every_part_ran(report: dict) -> None:
    assert list(report["parts"]) == [
        "correctness", "end to end", "strategies", "utilisation", "memory", "recipe",
    ]  # fmt: skip
    for name, part in report["parts"].items():
        assert "said" not in part, f"{name}: {part.get('said')}"
        for title, made in part["tables"].items():
            assert made["rows"], title
            assert all(len(row) == len(made["head"]) for row in made["rows"])


def test_packed_documents_equal_documents_alone(report: dict) -> None:
    found = rows(report, "correctness", "kernels")
    full = [row for row in found if row["type"] == "float32"]
    assert len({row["path"] for row in full}) == len(full) == 36
    assert max(row["largest difference"] for row in full) < 1e-5
    assert max(row["largest difference"] for row in found) < 0.05


def test_models_in_half_precision_stay_close_to_full_precision(report: dict) -> None:
    key = "smallest cosine to fp32 on the CPU"
    found = rows(report, "correctness", "models")
    assert {row["model"].split("+")[0] for row in found} == {"absolute", "rotary", "causal"}
    assert min(row[key] for row in found if row["type"] == "float32") > 1 - 1e-5
    assert min(row[key] for row in found) > 0.99


def test_the_engine_gives_what_sentence_transformers_gives(report: dict) -> None:
    assert max(row["largest difference"] for row in rows(report, "end to end", "encoding")) < 0.1


def test_the_recipe_trains_both_models(report: dict) -> None:
    found = rows(report, "recipe", "recipe")
    assert [row["positions"] for row in found] == ["ape", "rope"]
    assert all(row["steps"] >= 1 and row["last loss"] > 0 for row in found)
