"""`mteb-longembed run`: one task that cannot run costs the others nothing, and wrong names are told at once."""

import json
from pathlib import Path
from unittest.mock import Mock

import pytest

from mteb_longembed import cli
from mteb_longembed.tasks import LongEmbedQMSum, LongEmbedSummScreenFD
from mteb_longembed.tasks.real.hub_retrieval import DATA_VARIABLE
from tests import published_data, tiny

pytestmark = pytest.mark.usefixtures("mteb_process")


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a tiny extended model, in a folder where only SummScreenFD's data are at hand."""
    folder = tiny.saved("bert", tmp_path / "tiny", num_hidden_layers=1)
    published_data.save(LongEmbedSummScreenFD, tmp_path / "data")
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / "data"))
    return f"{folder}+rp@64"


def names(folder: Path) -> set[str]:
    return {file.stem for file in folder.rglob("LongEmbed*.json")}


def test_a_task_without_data_is_told_and_the_next_one_runs(model, tmp_path, capsys) -> None:
    tasks = ["LongEmbedNarrativeQA", "LongEmbedQMSum", "LongEmbedSummScreenFD"]
    assert cli.main(["run", "-t", *tasks, "-m", model]) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("mteb-longembed: ")]
    assert [line.split(": ")[1] for line in errors[:2]] == tasks[:2]
    assert "expected narrativeqa/corpus.jsonl or .jsonl.gz in that folder" in errors[0]
    assert errors[2].startswith("mteb-longembed: 2 tasks did not run (LongEmbedNarrativeQA, LongEmbedQMSum)")
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
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("mteb-longembed: ")]
    assert len(errors) == 1 and "expected qmsum/corpus.jsonl" in errors[0]


def test_an_error_that_is_not_ours_is_not_swallowed(model, monkeypatch) -> None:
    monkeypatch.setattr(LongEmbedQMSum, "load_data", Mock(side_effect=ZeroDivisionError("a bug")))
    with pytest.raises(ZeroDivisionError):
        cli.main(["run", "-t", "LongEmbedQMSum", "LongEmbedSummScreenFD", "-m", model])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-b", "LongEmbd+", "-m", "bm25"], "unknown benchmark 'LongEmbd+': did you mean 'LongEmbed+'?"),
        (["-t", "LongEmbedPaskey", "-m", "bm25"], "unknown task 'LongEmbedPaskey': did you mean"),
        (["-t", "LongEmbedPasskey-docs20", "-m", "bm25"], "n_documents of LongEmbedPasskey must be from 50"),
        (["-t", "LongEmbedPasskey"], "run needs a model, got none: -m e5-base+ntk"),
    ],
)
def test_a_wrong_command_line_is_one_sentence(arguments, message, capsys) -> None:
    assert cli.main(["run", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"mteb-longembed: {message}")


def scores(folder: Path, task: str = "LongEmbedSummScreenFD") -> dict[str, dict]:
    files = folder.rglob(f"{task}.json")
    return {file.parts[-3]: json.loads(file.read_text())["scores"] for file in files}


def test_a_trained_model_collapses_beyond_its_length_and_extension_helps(tmp_path, monkeypatch) -> None:
    """The README's main job in short: a model that ships with the package, offline, before and after extension."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    # without a store: equal scores at 256 tokens must come from equal embeddings, not from shared rows
    monkeypatch.setenv("MTEB_LONGEMBED_STORE", "0")
    line = ["run", "-t", "LongEmbedPasskey-docs50", "-m", "mini-rope", "mini-rope+pi"]
    assert cli.main([*line, "--eval-splits", "test_256", "test_1024"]) == 0
    results = scores(tmp_path / "results", "LongEmbedPasskey-docs50")
    name = "mteb-longembed__mini-rope+"
    splits = [results[name + tail] for tail in ("none@512", "pi@4096")]
    base, extended = ([one[f"test_{n}"][0]["ndcg_at_1"] for n in (256, 1024)] for one in splits)
    # chance is 1 in 50; experiments/findings.md has what was measured
    assert base[0] == extended[0] > 0.8 and base[1] < base[0] - 0.3 and extended[1] > base[1] + 0.3


def test_several_models_all_run_and_end_in_one_table(model, tmp_path, capsys) -> None:
    other = model.replace("rp@64", "pcw@64")
    several = ["-m", model, "-v", "1", f"--model={other}", "-m", model]
    assert cli.main(["run", "-t", "LongEmbedSummScreenFD", *several]) == 0
    shown = capsys.readouterr().out
    results = scores(tmp_path / "results")
    assert {name.partition("+")[2] for name in results} == {"rp@64", "pcw@64"}
    rows = [line.split() for line in shown.splitlines() if "LongEmbedSummScreenFD" in line and "+" in line]
    main = [round(100 * values["validation"][0]["main_score"], 1) for values in results.values()]
    assert sorted(float(row[-1]) for row in rows if row[-2] == "validation") == sorted(main)
    assert "on LongEmbedSummScreenFD: read " in shown
    assert shown.splitlines()[-1] == "Next: mteb-longembed report results"


def test_a_model_that_cannot_run_does_not_cost_the_others(model, tmp_path, capsys) -> None:
    absent = f"{tmp_path}/nowhere/model+rp@64"
    assert cli.main(["run", "-t", "LongEmbedSummScreenFD", "-m", absent, "-m", model]) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("mteb-longembed: ")]
    assert absent in errors[0] and errors[1].startswith("mteb-longembed: 1 task did not run")
    assert names(tmp_path / "results") == {"LongEmbedSummScreenFD"}


def test_a_misspelt_model_among_several_is_told_before_any_runs(model, tmp_path, capsys) -> None:
    assert cli.main(["run", "-t", "LongEmbedSummScreenFD", "-m", model, "-m", "e5-base+nkt"]) == 2
    assert "unknown strategy 'nkt': did you mean 'ntk'?" in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def test_what_was_cut_stands_beside_the_results_and_is_told_again(model, tmp_path, capsys) -> None:
    command = ["run", "-t", "LongEmbedSummScreenFD", "-m", model]
    assert cli.main(command) == 0
    [file] = (tmp_path / "results").rglob("*.read.txt")
    first = file.read_text()
    assert first.startswith("validation: read ") and file.name == "LongEmbedSummScreenFD.read.txt"
    assert first.removeprefix("validation: ").strip() in capsys.readouterr().out
    assert cli.main(command) == 0  # nothing is encoded again
    assert file.read_text() == first
    assert first.removeprefix("validation: ").strip() in capsys.readouterr().out


def test_json_is_all_that_stands_on_standard_output(model, tmp_path, capfd) -> None:
    assert cli.main(["run", "-t", "LongEmbedSummScreenFD", "LongEmbedQMSum", "-m", model, "--json"]) == 2
    output = json.loads(capfd.readouterr().out)
    [(_, stored)] = scores(tmp_path / "results").items()
    [row] = output["scores"]
    assert (row["task"], row["split"]) == ("LongEmbedSummScreenFD", "validation")
    assert row["score"] == stored["validation"][0]["main_score"]
    assert list(output["failed"]) == ["LongEmbedQMSum"] and output["results"] == "results"


def test_quiet_leaves_the_table_alone(model, capfd, recwarn) -> None:
    assert cli.main(["run", "-t", "LongEmbedSummScreenFD", "-m", model, "-v", "0"]) == 0
    captured = capfd.readouterr()
    assert captured.err == ""
    lines = [line for line in captured.out.splitlines() if line.strip()]
    assert len(lines) == 4 and "LongEmbedSummScreenFD" in lines[-1]  # title, header, rule, scores
    assert not [warning for warning in recwarn if issubclass(warning.category, FutureWarning)]


def test_an_interrupt_says_that_the_same_command_goes_on(model, monkeypatch, capsys) -> None:
    monkeypatch.setattr(LongEmbedSummScreenFD, "load_data", Mock(side_effect=KeyboardInterrupt))
    assert cli.main(["run", "-t", "LongEmbedSummScreenFD", "-m", model]) == 130
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("mteb-longembed: interrupted; finished work is kept, and the same command")


def test_help_shows_mtebs_options_and_ours(capsys) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["run", "--help"])
    shown = capsys.readouterr().out
    assert stopped.value.code == 0
    assert "--eval-splits" in shown and "several models, one after the other" in shown
