"""Texts on disk: no run leaves them behind, however it ends."""

import tempfile
from pathlib import Path

import pytest

from mteb_longembed.data.text_table import stored_table


def test_the_file_of_a_table_has_no_name_from_the_start(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    table = stored_table([("a", "text"), ("b", "mine")])
    assert not list(tmp_path.iterdir()) and table["text"][:] == ["text", "mine"]
    assert table.select([1])["text"][0] == "mine"

    def failing():
        yield "a", "text"
        raise ValueError("a row is wrong")

    with pytest.raises(ValueError, match="a row is wrong"):
        stored_table(failing())
    assert not list(tmp_path.iterdir())
