"""submit-check says what mteb's public results repository would refuse."""

import json
import re
from pathlib import Path

import mteb
import pytest
from mteb.models import model_implementations
from mteb.models.model_meta import ModelMeta

from mteb_longembed import cli
from mteb_longembed.errors import InputError
from mteb_longembed.plugin import submission
from mteb_longembed.plugin.submission import check_submission

from .results import write_results

NAME = "org/base+pi@4096"
ALL = {task.metadata.name: 0.5 for task in mteb.get_benchmark("LongEmbed").tasks}


@pytest.fixture
def registered(monkeypatch) -> None:
    """mteb's registry, with an entry for the model."""
    registry = model_implementations.MODEL_REGISTRY
    monkeypatch.setitem(registry, NAME, ModelMeta.create_empty({"name": NAME}))


def only(folder: Path) -> submission.Checked:
    [checked] = check_submission(folder)
    return checked


@pytest.mark.parametrize("name", [NAME, "me/trained"])
def test_whole_results_of_a_registered_model_lack_nothing(name, monkeypatch, tmp_path, capsys) -> None:
    """An extended model, and a trained one that was pushed under a name of its own."""
    registry = model_implementations.MODEL_REGISTRY
    monkeypatch.setitem(registry, name, ModelMeta.create_empty({"name": name}))
    write_results(tmp_path, name, ALL)
    checked = only(tmp_path)
    assert (checked.missing, checked.asked, checked.local) == ([], [], [])
    assert checked.ready == sorted(ALL)
    assert only(tmp_path / "results") == checked
    assert cli.main(["submit-check", str(tmp_path)]) == 0
    assert f"can be sent: mteb submit-results --output-folder {tmp_path} -m {name}" in capsys.readouterr().out


def test_a_model_without_an_entry_is_told_its_name_and_revision(tmp_path, capsys) -> None:
    write_results(tmp_path, NAME, ALL, revision="abc-le2")
    [sentence] = only(tmp_path).missing
    assert "an entry in mteb's registry" in sentence and f"{NAME} and the revision abc-le2" in sentence
    assert cli.main(["submit-check", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert f"missing: {sentence}" in out and "can be sent" not in out
    assert cli.main(["submit-check", str(tmp_path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)[0]["missing"] == [sentence]


OWN, PASSKEY = "LongEmbedPasskey", "LEMBPasskeyRetrieval"
WITHOUT_NEEDLE = {name: 0.5 for name in ALL if name != "LEMBNeedleRetrieval"}


@pytest.mark.parametrize(
    ("scores", "options", "missing", "asked"),
    [
        ({**ALL, OWN: 0.5}, {}, None, None),
        ({OWN: 0.5}, {}, "a result of one of mteb's tasks.*mteb run -b LongEmbed", None),
        (ALL, {"version": "1.38.0"}, "newer than 2.0.0, got 1.38.0", None),
        (WITHOUT_NEEDLE, {}, None, "^these tasks of .* LongEmbed have no results: LEMBNeedleRetrieval.$"),
        ({PASSKEY: 0.5}, {"splits": ["test_256"]}, None, rf"{PASSKEY} \(test_1024, test_16384"),
        (ALL, {"training_datasets": None, "languages": None}, None, "^model_meta.json does not have lang"),
    ],
)
def test_what_results_lack_is_told(registered, tmp_path, scores, options, missing, asked) -> None:
    write_results(tmp_path, NAME, scores, **options)
    checked = only(tmp_path)
    assert checked.local == [OWN] * (OWN in scores)
    for sentences, pattern in ((checked.missing, missing), (checked.asked, asked)):
        assert bool(sentences) == (pattern is not None), sentences
        assert all(re.search(pattern, sentence) for sentence in sentences), sentences


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"n_embedding_parameters": None}, "n_embedding_parameters: mteb's test requires it"),
        ({"adapted_from": NAME}, "adapted_from must be another model"),
        ({"revision": None}, "a revision: model_meta.json must name the commit"),
        ({"revision": "other"}, "the folder of the revision must be called other"),
        ({"name": "org/other"}, "the folder of org/other must be called org__other, got org__base+pi@4096"),
        ({"name": 3}, "must hold the model's name"),
        ({"name": "local/mine+pi@4096"}, "a public model: a name with local/ means nothing to others"),
    ],
)
def test_a_wrong_description_is_told(registered, tmp_path, fields, message) -> None:
    folder = write_results(tmp_path, NAME, ALL)
    described = json.loads((folder / "model_meta.json").read_text())
    (folder / "model_meta.json").write_text(json.dumps({**described, **fields}))
    assert any(message in sentence for sentence in only(tmp_path).missing), only(tmp_path).missing


def test_files_that_are_missing_or_broken_are_told(registered, tmp_path) -> None:
    folder = write_results(tmp_path, NAME, ALL)
    (folder / "run_settings.jsonl").unlink()
    (folder / "model_meta.json").write_text("{")
    (folder / "LEMBNeedleRetrieval.json").write_text("[]")
    (folder / "LEMBPasskeyRetrieval.json").rename(folder / "Passkey.json")
    missing = " ".join(only(tmp_path).missing)
    assert "run_settings.jsonl: mteb writes it" in missing
    assert "model_meta.json must be JSON" in missing
    assert "LEMBNeedleRetrieval.json must be a result that mteb reads" in missing
    assert "Passkey.json must be called LEMBPasskeyRetrieval.json" in missing


def test_runs_without_settings_are_named(registered, tmp_path) -> None:
    folder = write_results(tmp_path, NAME, ALL)
    lines = (folder / "run_settings.jsonl").read_text().splitlines()
    kept = [line for line in lines if "LEMBQMSumRetrieval" not in line]
    (folder / "run_settings.jsonl").write_text("\n".join(kept))
    [sentence] = only(tmp_path).missing
    assert sentence == "run_settings.jsonl must say how LEMBQMSumRetrieval was run on test of default."
    (folder / "run_settings.jsonl").write_text("{")
    assert any("must have one JSON object in each line" in sentence for sentence in only(tmp_path).missing)


def test_large_files_and_results_at_two_revisions_are_refused(registered, tmp_path, monkeypatch) -> None:
    write_results(tmp_path, NAME, ALL, revision="a-le1")
    write_results(tmp_path, NAME, {"LEMBQMSumRetrieval": 0.5}, revision="b-le2")
    message = "LEMBQMSumRetrieval must have results at only one revision, got results at {} too."
    first, second = check_submission(tmp_path)
    assert message.format("b-le2") in first.missing and message.format("a-le1") in second.missing
    monkeypatch.setattr(submission, "MAX_BYTES", 100)
    assert any("at most 100 bytes" in sentence for sentence in check_submission(tmp_path)[1].missing)


def test_another_folder_is_told_in_one_sentence(tmp_path, capsys) -> None:
    with pytest.raises(InputError, match=r"must be a folder that `mteb run --output-folder .*` wrote"):
        check_submission(tmp_path)
    assert cli.main(["submit-check", str(tmp_path / "nothing")]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_what_mteb_itself_writes_is_accepted_but_for_the_entry(tmp_path) -> None:
    """A real run of a stock model: nothing in the form of its files is refused."""
    from tests import tiny

    model = tiny.sentence_transformer("bert", tmp_path / "base")
    model.model_card_data.model_name, model.model_card_data.base_model_revision = "org/tiny", "abc"
    task = mteb.get_task("LongEmbedPasskey", eval_splits=["test_256"])
    mteb.evaluate(model, task, cache=mteb.ResultCache(tmp_path / "out"), show_progress_bar=False)
    checked = only(tmp_path / "out")
    assert checked.local == ["LongEmbedPasskey"]
    assert not any("run_settings" in sentence or "JSON" in sentence for sentence in checked.missing)


@pytest.mark.parametrize("name", ["model_meta.json", "run_settings.jsonl", "LEMBQMSumRetrieval.json"])
def test_json_that_is_nested_too_deeply_is_one_sentence(name, registered, tmp_path, capsys) -> None:
    folder = write_results(tmp_path, NAME, {"LEMBQMSumRetrieval": 0.5})
    (folder / name).write_text("[" * 100_000)
    assert cli.main(["submit-check", str(tmp_path)]) == 1
    assert f"missing: {name} " in capsys.readouterr().out


def test_a_name_without_letters_of_unicode_is_one_sentence(tmp_path, capsys) -> None:
    folder = write_results(tmp_path, NAME, {"LEMBQMSumRetrieval": 0.5})
    meta = folder / "model_meta.json"
    hostile = {"name": "org/a\ud800", "revision": "\ud800"}
    meta.write_text(json.dumps({**json.loads(meta.read_bytes()), **hostile}))
    assert cli.main(["submit-check", str(tmp_path)]) == 1
    output = capsys.readouterr()
    assert r"the model's name in printable characters, got 'org/a\ud800'." in output.out and output.err == ""
