"""Texts on disk: a file without a name, so that a run leaves nothing behind, however it ends."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mteb_longembed.data.text_table import stored_table


def test_texts_on_disk_leave_no_file_behind(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    rows = [(f"d{number}", f"text {number}") for number in range(700)]
    table = stored_table(iter(rows))
    assert list(tmp_path.iterdir()) == []
    assert list(zip(table["id"], table["text"], strict=True)) == rows and len(stored_table([])) == 0


def test_what_goes_wrong_while_rows_are_read_is_not_called_a_full_disk() -> None:
    def rows() -> Iterator[tuple[str, str]]:
        yield "a", "text"
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError, match="gone"):
        stored_table(rows())
