"""Texts on disk: what runs that were killed have left goes, and what another process uses stays."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from mteb_longembed.data import text_table
from mteb_longembed.data.text_table import stored_table

KEEP = """
import os, sys
from mteb_longembed.data.text_table import stored_table
table = stored_table([("a", "text")])
print("ready", flush=True)
sys.stdin.read()
"""


def folders(root: Path) -> list[Path]:
    return sorted(root.glob("mteb-longembed-texts-*"))


def test_a_killed_runs_texts_are_cleared_at_the_next_start(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(text_table, "_YOUNG", 0.0)
    env = {**os.environ, "TMPDIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", KEEP], env=env, **pipes) as other:
        assert other.stdout is not None and other.stdout.readline() == b"ready\n"
        (of_other,) = folders(tmp_path)
        own = stored_table([("b", "mine")])
        assert of_other in folders(tmp_path) and len(folders(tmp_path)) == 2
        other.kill()
    further = stored_table([("c", "more")])
    assert of_other not in folders(tmp_path) and len(folders(tmp_path)) == 2
    assert own["text"][0] == "mine" and further["text"][0] == "more"
    del own, further
    assert folders(tmp_path) == []
