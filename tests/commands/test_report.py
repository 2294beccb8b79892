from __future__ import annotations

import argparse
import csv
from pathlib import Path

import pytest

from mteb_longembed.commands.report import add_arguments, main
from mteb_longembed.errors import InputError

DATA = Path(__file__).parents[1] / "reports" / "data"
GOLDEN = DATA / "golden.md"


def _run(*arguments):
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return main(parser.parse_args([str(argument) for argument in arguments]))


def test_stored_result_files_give_the_golden_report(capsys):
    assert _run(DATA / "results", "--format", "markdown", "--compare-published", "--statistics") == 0
    # After a wanted change: mteb-longembed report tests/reports/data/results --format markdown
    # --compare-published --statistics > tests/reports/data/golden.md
    assert capsys.readouterr().out == GOLDEN.read_text(encoding="utf-8")


def test_skipped_files_are_named_on_standard_error(capsys):
    _run(DATA / "results", "--format", "csv")
    errors = capsys.readouterr().err
    assert errors.count("warning: skipped") == 2
    assert "LongEmbedNeedle.json" in errors
    assert "notes.json" in errors


def test_tables_go_into_files_of_their_own(tmp_path, capsys):
    _run(DATA / "results", "--format", "csv", "--output", tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert {"main-generated.csv", "main-published.csv", "passkey-generated.csv"} <= names
    with (tmp_path / "main-published.csv").open(encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header[:4] == ["Model", "Size", "Tokens", "Passkey"]
    numbers = header.index("Average") + 1
    assert all(float(cell) >= 0 for row in rows for cell in row[1:numbers] if cell)
    assert "109482240" in {row[1] for row in rows}


def test_figures_and_page_are_written(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    _run(DATA / "results", "--figures", tmp_path / "figures", "--html", tmp_path / "report.html")
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert {"heatmap-passkey-generated.png", "heatmap-passkey-published.svg"} <= names
    assert "improvement-intfloat__e5-base-v2-generated.svg" in names
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "notes.json" in page


def test_predictions_give_depth_maps_and_a_significance_table(toy_run, toy_task, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    folders = ["--predictions", toy_run.good, toy_run.poor]
    models = ["--significance", "toy/poor", "toy/good+pi@512"]
    _run(toy_run.results, *folders, *models, "--figures", tmp_path, "--format", "csv")
    out = capsys.readouterr().out
    assert "LongEmbedPasskey,test_256,20," in out
    assert "depth-LongEmbedPasskey-toy_good+pi_512.png" in {path.name for path in tmp_path.iterdir()}


def test_a_folder_without_results_is_an_error(tmp_path):
    with pytest.raises(InputError, match="no results of LongEmbed or BEIR tasks were found"):
        _run(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--significance", "a/b", "a/c"], "give --predictions DIR"),
        (["--absolute", "a/b"], "give both"),
    ],
)
def test_options_that_need_another_say_so(options, message):
    with pytest.raises(InputError, match=message):
        _run(DATA / "results", *options)
