"""The README's main job in short: a model that ships with the package, offline, before and after extension."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def accuracies(models: list[str], folder: Path) -> dict[str, dict[str, float]]:
    """Model -> Acc@1 by split, from the result files that the command left."""
    command = [
        sys.executable,
        "-m",
        "mteb_longembed",
        "run",
        "-t",
        "LongEmbedPasskey-docs50",
        "-m",
        *models,
    ]
    command += ["--eval-splits", "test_256", "test_1024", "--output-folder", str(folder)]
    # without a store: equal scores at 256 tokens must come from equal embeddings, not from shared rows
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "hf"), "MTEB_LONGEMBED_STORE": "0"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    found = {}
    for file in folder.rglob("LongEmbedPasskey-docs50.json"):
        scores = json.loads(file.read_text(encoding="utf-8")).get("scores")
        if scores is not None:
            model = file.parts[-3].rpartition("__")[2].partition("@")[0]
            found[model] = {split: rows[0]["ndcg_at_1"] for split, rows in scores.items()}
    return found


def test_a_trained_model_collapses_beyond_its_length_and_extension_helps(tmp_path: Path) -> None:
    found = accuracies(["mini-rope", "mini-rope+pi"], tmp_path)
    base, extended = found["mini-rope+none"], found["mini-rope+pi"]
    # chance is 1 in 50; experiments/findings.md has what was measured
    assert base["test_256"] > 0.8
    assert base["test_1024"] < base["test_256"] - 0.3
    assert extended["test_256"] == base["test_256"]
    assert extended["test_1024"] > base["test_1024"] + 0.3
