"""`mteb-longembed diagnose` shows table, verdict, data and figure."""

import json

import pytest

from mteb_longembed import cli
from mteb_longembed.commands import diagnose as diagnosing
from mteb_longembed.statistics.intervals import Interval
from mteb_longembed.tasks.diagnose import Diagnosis


def around(mean: float) -> Interval:
    return Interval(mean, mean - 5, mean + 5)


RESULT = Diagnosis(
    task="Some",
    score="nDCG@10",
    curves={"a": {128: around(40), 512: around(79)}, "b": {128: around(10), 512: around(20)}},
    uncut={"a": around(80), "b": around(60)},
    document_lens=[100, 200, 400, 900],
    counted_by={"a": "tokens of a", "b": "words / 0.75"},
)


def test_table_has_scores_and_the_share_of_longer_documents() -> None:
    table = diagnosing.to_table(RESULT)
    assert table.header == ("tokens read", "a", "b", "longer documents (%)")
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["128", "40.0", "10.0", "75"],
        ["512", "79.0", "20.0", "25"],
        ["all", "80.0", "60.0", "0"],
    ]
    assert table.rows[0][1].interval == (35.0, 45.0)
    assert table.notes == (
        "[low,high]: 95 % interval over queries.",
        "4 documents: median 300, longest 900 tokens (tokens of a).",
        "a needs 512 tokens for 95% of its score on whole documents (80.0).",
        "b needs more than 512 tokens for 95% of its score on whole documents.",
    )


def test_figure_and_data_are_written(tmp_path, monkeypatch, capsys) -> None:
    pytest.importorskip("matplotlib")
    asked = []
    monkeypatch.setattr("mteb_longembed.tasks.diagnose.diagnose", lambda *args: asked.append(args) or RESULT)
    line = ["diagnose", "-t", "Some", "-m", "a", "-m", "b", "--lengths", "128,512", "--figures"]
    line.append(str(tmp_path / "figures"))
    assert cli.main(line) == 0
    assert asked == [("Some", ["a", "b"], [128, 512], None)]
    assert {path.suffix for path in (tmp_path / "figures").iterdir()} == {".png", ".svg"}
    assert "tokens read" in capsys.readouterr().out
    assert cli.main([*line, "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert output["document_lens"] == [100, 200, 400, 900]
    assert output["curves"]["a"]["128"] == {"mean": 40, "low": 35, "high": 45}


def test_lengths_are_numbers_with_commas_between(capsys) -> None:
    with pytest.raises(SystemExit):
        cli.main(["diagnose", "-t", "Some", "--lengths", "128;512"])
    assert "expected whole numbers with commas between them, got '128;512'" in capsys.readouterr().err
