"""Damaged JSON-lines files are named with file, line and what was expected."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mteb_longembed.errors import DataError
from mteb_longembed.tasks.jsonl import read_rows

COLUMNS = ("qid", "text")
GOOD = b'{"qid": "q1", "text": "one"}\n{"qid": "q2", "text": "two"}\n'
ROWS = [(1, {"qid": "q1", "text": "one"}), (2, {"qid": "q2", "text": "two"})]


def read(tmp_path: Path, content: bytes, name: str = "queries.jsonl") -> list[tuple[int, dict[str, str]]]:
    path = tmp_path / name
    path.write_bytes(content)
    return list(read_rows(path, COLUMNS, shown=name))


@pytest.mark.parametrize(
    "content",
    [
        GOOD,
        GOOD.rstrip(b"\n"),
        GOOD.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + GOOD,
        GOOD + b"\n  \n",
        GOOD.replace(b'"two"', b'"two", "context_length": 256'),
        gzip.compress(GOOD, mtime=0),
    ],
    ids=["plain", "no last newline", "windows", "byte order mark", "blank lines", "more columns", "gzip"],
)
def test_what_people_s_files_look_like_is_accepted(tmp_path: Path, content: bytes) -> None:
    assert read(tmp_path, content) == ROWS


def test_ids_may_be_whole_numbers(tmp_path: Path) -> None:
    assert read(tmp_path, b'{"qid": 7, "text": "one"}') == [(1, {"qid": "7", "text": "one"})]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip), min_size=1))
def test_any_text_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    for plain in (True, False):  # also U+2028, which is no line end in JSON lines
        lines = [json.dumps({"qid": "q", "text": text}, ensure_ascii=plain) for text in texts]
        found = read(tmp_path_factory.mktemp("any"), "\n".join(lines).encode())
        assert [row["text"] for _, row in found] == texts


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (GOOD + b'{"qid": "q3"}\n', "line 3: expected .* qid, text, text is missing (found: qid)"),
        (GOOD + b"{}\n", "line 3: expected .* qid is missing (found: nothing)"),
        (b'{"\\n": null}\n', "line 1: .* qid is missing (found: '\\n')"),
        (GOOD + b'["q3"]\n', "line 3: expected one JSON object .* got a JSON list"),
        (GOOD + b'{"qid": "q3", "text": null}\n', "line 3: .* text is null"),
        (GOOD + b'{"qid": true, "text": "x"}\n', "line 3: .* qid is true"),
        (GOOD + b'{"qid": "q3", "text": " "}\n', "line 3: .* text is empty"),
        (GOOD + b'{"qid": "q3", "text": "\\ud800"}\n', "line 3: .* text has half a surrogate pair"),
        (GOOD + b"not json\n", "line 3: .* invalid JSON: Expecting value (character 1)."),
        (GOOD[:-20], "line 2: .* invalid JSON: .* (the file ends inside this line: download it again)"),
        (GOOD + b'{"qid": "q3", "text": "caf\xe9"}\n', "line 3: expected UTF-8 text"),
        (b"", "queries.jsonl: expected JSON lines with qid, text, got an empty file"),
        (
            gzip.compress(GOOD * 500, mtime=0)[:-30],
            "expected more text, but the gzip file is cut off or damaged",
        ),
        (
            gzip.compress(GOOD, mtime=0)[:-8] + b"damaged.",
            "the gzip file is cut off or damaged",
        ),
    ],
)
def test_damage_is_named_with_file_and_line(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message).replace(r"\.\*", ".*")) as error:
        read(tmp_path, content)
    assert str(error.value).startswith("queries.jsonl")
    assert "\n" not in str(error.value)
