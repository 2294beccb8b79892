"""`mteb-longembed run`: one task that cannot run costs the others nothing, and wrong names are told at once."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mteb_longembed import cli
from mteb_longembed.tasks import LongEmbedQMSum, LongEmbedSummScreenFD
from mteb_longembed.tasks.hub import DATA_VARIABLE
from tests import published_data, tiny


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a tiny extended model, in a folder where only SummScreenFD's data are at hand."""
    tiny.sentence_transformer("bert", tmp_path / "tiny", num_hidden_layers=1)
    published_data.save(LongEmbedSummScreenFD, tmp_path / "data")
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", sys.argv)
    handlers = logging.getLogger().handlers[:]
    yield f"{tmp_path}/tiny/model+rp@64"
    logging.getLogger().handlers[:] = handlers


def names(folder: Path) -> set[str]:
    return {file.stem for file in folder.rglob("LongEmbed*.json")}


def test_a_task_without_data_is_told_and_the_next_one_runs(model, tmp_path, capsys) -> None:
    tasks = ["LongEmbedNarrativeQA", "LongEmbedQMSum", "LongEmbedSummScreenFD"]
    assert cli.main(["run", "-t", *tasks, "-m", model]) == 2
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("mteb-longembed: ")]
    assert [line.split(": ")[1] for line in told[:2]] == tasks[:2]
    assert "expected narrativeqa/corpus.jsonl or .jsonl.gz in that folder" in told[0]
    assert told[2].startswith("mteb-longembed: 2 tasks did not run (LongEmbedNarrativeQA, LongEmbedQMSum)")
    assert names(tmp_path / "results") == {"LongEmbedSummScreenFD"}


def test_the_same_command_runs_only_what_is_missing(model, tmp_path, monkeypatch) -> None:
    command = ["run", "-t", "LongEmbedQMSum", "LongEmbedSummScreenFD", "-m", model]
    assert cli.main(command) == 2
    published_data.save(LongEmbedQMSum, tmp_path / "data")
    monkeypatch.setattr(LongEmbedSummScreenFD, "load_data", lambda *a, **k: pytest.fail("ran again"))
    assert cli.main(command) == 0
    assert names(tmp_path / "results") == {"LongEmbedQMSum", "LongEmbedSummScreenFD"}


def test_the_only_task_fails_with_its_own_sentence(model, capsys) -> None:
    assert cli.main(["run", "-t", "LongEmbedQMSum", "-m", model]) == 2
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("mteb-longembed: ")]
    assert len(told) == 1 and "expected qmsum/corpus.jsonl" in told[0]


def test_an_error_that_is_not_ours_is_not_swallowed(model, monkeypatch) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(LongEmbedQMSum, "load_data", fail)
    with pytest.raises(ZeroDivisionError):
        cli.main(["run", "-t", "LongEmbedQMSum", "LongEmbedSummScreenFD", "-m", model])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["-b", "LongEmbd+", "-m", "bm25"], "unknown benchmark 'LongEmbd+': did you mean 'LongEmbed+'?"),
        (["-t", "LongEmbedPaskey", "-m", "bm25"], "unknown task 'LongEmbedPaskey': did you mean"),
        (["-t", "LongEmbedPasskey-docs20", "-m", "bm25"], "n_documents of LongEmbedPasskey must be 50 to"),
        (["-t", "LongEmbedPasskey"], "run needs a model, got none: -m e5-base+ntk"),
    ],
)
def test_a_wrong_command_line_is_one_sentence(arguments, told, capsys) -> None:
    assert cli.main(["run", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"mteb-longembed: {told}")
