from __future__ import annotations

import math

import pytest

from mteb_longembed.errors import InputError
from mteb_longembed.reports.scores.public_results import in_range, parse_range, public_results


def test_the_shipped_file_is_that_of_its_commit():
    found = public_results()
    assert found.commit == "f4cc6c8b365a3c779dbc708d6affe0b0355b2ddf"
    assert len(found.lines) == 205
    assert sum(row.line.average.is_whole for row in found.lines) == 166


def test_facts_of_mteb_stand_beside_the_scores():
    rows = {row.line.model.name.full: row for row in public_results().lines}
    assert rows["Qwen/Qwen3-Embedding-0.6B"].advertised == 32768
    assert rows["minishlab/potion-base-8M"].advertised == math.inf
    assert rows["google/gemini-embedding-001"].is_open is False


@pytest.mark.parametrize(
    ("text", "limits"),
    [("100M-1B", (1e8, 1e9)), ("8k-", (8192, math.inf)), ("-512", (0, 512)), ("1.5B-2B", (1.5e9, 2e9))],
)
def test_a_range_has_units(text, limits):
    assert parse_range(text) == limits


@pytest.mark.parametrize("text", ["512", "b-c", "2k-1k", "nan-", "1--2"])
def test_what_is_no_range_is_an_error(text):
    with pytest.raises(InputError, match="MIN-MAX"):
        parse_range(text)


def test_what_is_not_stated_is_in_no_range():
    assert not in_range(None, (0, math.inf))
    assert in_range(512, (512, 512))
