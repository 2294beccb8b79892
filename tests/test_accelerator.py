"""The kit for accelerators runs as a whole on a CPU, without sentence-transformers, mteb and datasets."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: A bare machine has none of them. `runpy` runs the script as the command does.
BARE = """
import runpy, sys

sys.modules.update(dict.fromkeys(("mteb", "datasets", "sentence_transformers")))
sys.argv = ["accelerator.py", "--tiny"]
runpy.run_path("experiments/accelerator.py", run_name="__main__")
"""
#: A kit that is made for machines with an accelerator.
pytestmark = pytest.mark.long


def test_every_number_is_near_that_of_documents_alone_in_full_precision() -> None:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-c", BARE]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    about, *rows = map(json.loads, done.stdout.splitlines())
    assert about["device"] == "cpu"
    parts: dict[str, list[dict]] = {"attention": [], "models": [], "time": []}
    for row in rows:
        parts[row["part"]].append(row)
    assert [len(rows) for rows in parts.values()] == [15, 36, 12]
    gaps = {"torch.float32": 1e-5, "torch.float16": 1e-2, "torch.bfloat16": 0.06}
    for row in parts["attention"]:
        assert row["largest difference"] < gaps[row["dtype"]], row
    for row in parts["models"]:
        assert row["smallest cosine"] > (1 - 1e-5 if row["dtype"] == "torch.float32" else 0.99), row
    assert all(row["tokens a second"] > 0 for row in parts["time"])
