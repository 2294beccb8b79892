"""`mteb-longembed doctor`: what is there, what is wrong, and an exit status that says so."""

import json
from importlib import metadata

import pytest

from mteb_longembed import cli
from mteb_longembed.commands import doctor


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """No network, and small folders."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("MTEB_CACHE", str(tmp_path / "mteb"))
    monkeypatch.setenv("MTEB_LONGEMBED_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_everything_is_in_the_json_and_a_hub_that_does_not_answer_is_a_problem_unless_that_is_wanted(
    offline, capsys, monkeypatch
) -> None:
    found = {**doctor.versions(), "mteb finds this package": True}
    monkeypatch.setattr(doctor, "versions", lambda: found)
    assert cli.main(["doctor", "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert output["versions"]["torch"] == metadata.version("torch")
    assert output["hub"]["answers"] is False and output["hub"]["offline (HF_HUB_OFFLINE)"] is True
    assert output["caches"]["embeddings"] == str(offline / "cache")
    assert output["devices"]["cpu"].endswith("threads")
    assert not any("times" in text for text in output["devices"].values())  # nothing is measured
    assert output["problems"] == []
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("mteb_longembed.hub.hub_answers", lambda: False)
    assert cli.main(["doctor"]) == 1
    assert "problem: the hub at https://" in capsys.readouterr().out


def test_a_problem_is_a_sentence_and_status_one(offline, capsys, monkeypatch) -> None:
    monkeypatch.setenv("MTEB_LONGEMBED_AUTOLOAD", "0")
    assert cli.main(["doctor"]) == 1
    shown = capsys.readouterr().out
    assert "problem: the mteb command does not find our tasks" in shown and "_AUTOLOAD=0" in shown
