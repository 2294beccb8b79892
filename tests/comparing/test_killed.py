"""A comparison that is killed without warning loses nothing that it had finished."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PATIENCE = 240.0  # seconds until the first evaluations must be there, on a busy machine


def command(base: str, files: list[str], out: Path) -> list[str]:
    options = ["--strategies", "gp,rp,pcw", "--no-bm25", "--json", "--output-folder", str(out)]
    return [sys.executable, "-m", "mteb_longembed", "compare", base, *files, *options]


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "MTEB_LONGEMBED_STORE": str(folder / "store")}


def finished(out: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in out.rglob("rankings/**/*_predictions.json")}


@pytest.mark.long
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_after_a_kill_the_same_command_runs_only_what_is_missing(base, files, tmp_path) -> None:
    out = tmp_path / "killed"
    unread = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    killed = subprocess.Popen(command(base, files, out), env=environment(tmp_path), **unread)
    until = time.monotonic() + PATIENCE
    while len(finished(out)) < 2 and killed.poll() is None and time.monotonic() < until:
        time.sleep(0.002)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    kept = finished(out)
    assert killed.returncode == -signal.SIGKILL and len(kept) >= 2

    scores = {}
    for folder in (out, tmp_path / "whole"):
        run = command(base, files, folder)
        done = subprocess.run(run, env=environment(folder), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        scores[folder.name] = {c["name"]: c["score"] for c in json.loads(done.stdout)["candidates"]}
    assert scores["killed"] == scores["whole"] and len(scores["whole"]) == 5
    assert {path: time for path, time in finished(out).items() if path in kept} == kept
    assert len(finished(out)) > len(kept)
