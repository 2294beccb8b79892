from __future__ import annotations

import math
import subprocess

import pytest

from mteb_longembed.errors import InputError, StorageError
from mteb_longembed.reports.scores.public_results import (
    ModelFacts,
    in_range,
    parse_range,
    public_results,
    refresh,
)
from tests.reports.made import write_result


def test_the_shipped_file_is_that_of_its_commit():
    found = public_results()
    assert found.commit == "f4cc6c8b365a3c779dbc708d6affe0b0355b2ddf"
    assert len(found.lines) == 205
    assert sum(row.line.average.is_whole for row in found.lines) == 166


def test_facts_of_mteb_stand_beside_the_scores():
    rows = {row.line.model.name.full: row for row in public_results().lines}
    assert rows["Qwen/Qwen3-Embedding-0.6B"].advertised == 32768
    assert rows["minishlab/potion-base-8M"].advertised == math.inf
    assert rows["google/gemini-embedding-001"].facts.is_open is False


@pytest.fixture
def clone(tmp_path):
    """A git repository with the layout of the public results: results/ORG__NAME/REVISION/TASK.json."""
    folder = tmp_path / "clone"
    folder.mkdir()
    write_result(
        folder / "results", "LEMBQMSumRetrieval", {"test": 0.25}, name="intfloat/e5-base-v2", revision="a1"
    )
    write_result(
        folder / "results",
        "LEMBPasskeyRetrieval",
        {"test_256": 0.5},
        name="intfloat/e5-base-v2",
        revision="a1",
    )
    write_result(folder / "results", "NFCorpus", {"test": 0.9}, name="intfloat/e5-base-v2", revision="a1")
    git = ["git", "-C", str(folder), "-c", "user.name=n", "-c", "user.email=e@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "results"], check=True)
    return folder


@pytest.fixture
def facts(monkeypatch):
    known = ModelFacts(max_tokens=512, n_parameters=109, is_open=True)
    monkeypatch.setattr(
        "mteb_longembed.reports.scores.public_results.model_facts", lambda names: dict.fromkeys(names, known)
    )


def test_refresh_packs_a_clone_with_its_commit(clone, facts, tmp_path):
    path = tmp_path / "packed.json.gz"
    commit = refresh(clone, path)
    assert commit == subprocess.check_output(["git", "-C", clone, "rev-parse", "HEAD"], text=True).strip()
    found = public_results(path)
    assert found.commit == commit
    (row,) = found.lines
    assert (row.line.model.name.full, row.line.model.revision) == ("intfloat/e5-base-v2", "a1")
    assert row.line.scores["QMSum"].value == 25
    assert row.line.by_length["Passkey"] == {256: 50}
    assert (row.advertised, row.facts.is_open) == (512, True)


def test_a_refreshed_file_is_the_same_every_time(clone, facts, tmp_path):
    refresh(clone, tmp_path / "a.gz")
    refresh(clone, tmp_path / "b.gz")
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


def test_a_folder_that_is_no_clone_is_an_error(tmp_path):
    with pytest.raises(InputError, match="is not a git clone"):
        refresh(tmp_path, tmp_path / "packed.gz")


def test_a_clone_without_results_keeps_what_is_packed(clone, facts, tmp_path):
    path = tmp_path / "packed.json.gz"
    path.write_bytes(b"before")
    for file in (clone / "results").rglob("LEMB*.json"):
        file.unlink()
    with pytest.raises(InputError, match="has no results of LongEmbed"):
        refresh(clone, path)
    assert path.read_bytes() == b"before"


def test_a_folder_that_cannot_be_written_is_one_sentence_and_leaves_nothing(clone, facts, tmp_path):
    with pytest.raises(StorageError, match=r"cannot be written: No such file or directory"):
        refresh(clone, tmp_path / "not" / "there.gz")
    assert not list(tmp_path.rglob("*.part"))


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
