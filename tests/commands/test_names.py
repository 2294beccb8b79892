"""Every command with every kind of model name: it runs, or refuses the name in one sentence."""

from pathlib import Path

import pytest

import mteb_longembed as longembed
from mteb_longembed import cli
from tests import tiny
from tests.own_data import beir

KINDS = {
    "hub id": "mteb/named",
    "folder": "FOLDER",
    "saved": "SAVED",
    "vectors": "FOLDER+pi@64:vectors=8",
    "extended": "mteb/named+pi@64",
}
COMMANDS = {
    "compare": "compare NAME --data DATA --no-bm25 --output-folder OUT --json",
    "export": "export NAME OUT",
}
#: What a command does not take, and words of the sentence that says so.
REFUSED = {
    ("compare", "saved"): "saved is extended already",
    ("export", "vectors"): "several vectors a document cannot be a plain checkpoint",
}


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model in a folder, a saved extended one, and data."""
    folder = tmp_path_factory.mktemp("shelf")
    base = tiny.saved("bert", folder / "base", tiny.CARD, num_hidden_layers=1)
    longembed.load(f"{base}+pi@64").save_pretrained(str(folder / "saved"))
    texts = [tiny.text(40, i) for i in range(6)]
    beir(folder / "data", texts, [texts[0][:40], texts[1][-40:]])
    return folder


@pytest.mark.usefixtures("mteb_process")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_takes_a_kind_of_name_or_refuses_it_in_one_sentence(
    command, kind, shelf, empty_hub, tmp_path, monkeypatch, capsys
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    empty_hub.add("mteb/named", shelf / "base/model")
    paths = {"FOLDER": "base/model", "SAVED": "saved", "DATA": "data"}
    line = COMMANDS[command].replace("NAME", KINDS[kind]).replace("OUT", str(tmp_path / "out"))
    for word, path in paths.items():
        line = line.replace(word, str(shelf / path))
    status, output = cli.main(line.split()), capsys.readouterr().err
    sentences = [text for text in output.splitlines() if text.startswith("mteb-longembed: ")]
    if (command, kind) in REFUSED:
        assert status == 2 and REFUSED[command, kind] in sentences[-1]
    else:
        assert status == 0, sentences
