"""Texts on disk: a file without a name, so that a run leaves nothing behind, however it ends."""

import tempfile
from pathlib import Path

from mteb_longembed.data.text_table import stored_table


def test_texts_on_disk_leave_no_file_behind(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    rows = [(f"d{number}", f"text {number}") for number in range(700)]
    table = stored_table(iter(rows))
    assert list(tmp_path.iterdir()) == []
    assert list(zip(table["id"], table["text"], strict=True)) == rows and len(stored_table([])) == 0
