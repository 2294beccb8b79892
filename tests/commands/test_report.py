import io
import json

import pandas as pd
import pytest

from mteb_longembed import cli
from mteb_longembed.commands.report import FORMATS, main
from mteb_longembed.errors import InputError
from tests.reports.made import BASE, write_result


def _run(*arguments):
    return main(cli._parsed(["report", *map(str, arguments)]))


@pytest.fixture
def results(tmp_path):
    folder = tmp_path / "results"
    for name, score in (("none@512", 0.25), ("ntk@4096", 0.5)):
        splits = {"test_256": 0.5, "test_512": score}
        write_result(folder, "LongEmbedPasskey", splits, name=f"{BASE}+{name}")
    return folder


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_has_the_gain_of_each_strategy(name, results, capsys):
    assert _run(results, "--format", name) == 0
    text = capsys.readouterr().out.replace("\\/", "/")
    assert f"{BASE}+ntk@4096" in text and "50.0" in text and "12.5" in text
    assert not any(missing in text for missing in ("nan", "NA", "None"))  # the base gains nothing over itself


def test_csv_and_json_are_read_back_as_numbers(results, capsys):
    _run(results, "--format", "csv")
    assert pd.read_csv(io.StringIO(capsys.readouterr().out))["gain"].max() == 12.5
    _run(results, "--json")
    gains = {row["model"]: row["gain"] for row in json.loads(capsys.readouterr().out)}
    assert gains == {f"{BASE}+ntk@4096": 12.5, f"{BASE}+none@512": None}


def test_a_table_by_length_has_a_row_for_each_model_and_a_reason_in_each_empty_cell(results, capsys):
    _run(results, "--by-length", "--json")
    base, extended = json.loads(capsys.readouterr().out)
    assert base["model"] == f"{BASE}+none@512" and extended["model"] == f"{BASE}+ntk@4096"
    assert [base[key] for key in ("256", "512", "1024", "32768", "mean")] == [
        50,
        25,
        "> 512",
        "> 512",
        "not all run",
    ]
    assert [extended[key] for key in ("256", "512", "1024", "32768")] == [50, 50, "not run", "> 4096"]
    for name in FORMATS:
        _run(results, "--by-length", "--format", name)
        assert "> 512" in capsys.readouterr().out.replace("\\/", "/")
    write_result(results.parent / "other", "LongEmbedQMSum", {"test": 0.5})
    with pytest.raises(InputError, match="no table by length: no result has splits such as test_1024"):
        _run(results.parent / "other", "--by-length")


def test_public_means_stand_beside_complete_averages_alone(tmp_path, capsys):
    lengths = {f"test_{256 << step}": 0.5 for step in range(8)}
    for task in ("LongEmbedPasskey", "LongEmbedNeedle"):
        write_result(tmp_path, task, lengths)
    for task in ("NarrativeQA", "QMSum", "SummScreenFD"):
        write_result(tmp_path, f"LongEmbed{task}", {"test": 0.5})
    _run(tmp_path)
    assert "Public means" not in capsys.readouterr().out
    path = write_result(tmp_path, "LongEmbed2WikiMultihopQA", {"test": 0.5})
    _run(tmp_path)
    assert "Public means" in capsys.readouterr().out
    write_result(tmp_path, "LongEmbedPasskey", dict(list(lengths.items())[:7]))
    _run(tmp_path)
    assert path.exists() and "Public means" not in capsys.readouterr().out


def test_the_figure_has_a_line_for_each_model(results, capsys):
    path = results.parent / "new" / "figure.svg"
    _run(results, "--figure", path)
    assert f"{BASE}+ntk@4096" in path.read_text()
    _run(results, "--figure", path.with_suffix(".pdf"))
    assert path.with_suffix(".pdf").read_bytes().startswith(b"%PDF")


def test_files_that_are_skipped_are_named_on_standard_error(results, capsys):
    (next(results.iterdir()) / "r1" / "LongEmbedQMSum.json").write_text("[" * 100_000)
    assert _run(results) == 0
    printed = capsys.readouterr()
    assert printed.err.count("warning: skipped") == 1 and "nested too deeply" in printed.err


def test_names_of_strangers_neither_move_a_cursor_nor_make_markup_of_a_figure(results, capsys):
    path = write_result(results, "LongEmbedPasskey", {"test_256": 0.5}, name="m")
    (path.parent / "model_meta.json").write_text(
        json.dumps({"name": "a/$b$\x1b[31m\n# <c>\ud800", "revision": "r"})
    )
    _run(results, "--figure", results / "figure.svg")
    for name in FORMATS:
        _run(results, "--format", name)
    printed = capsys.readouterr()
    assert all(line.isprintable() for line in (printed.out + printed.err).splitlines())
    assert "<c>" not in (results / "figure.svg").read_text()


def test_what_cannot_work_is_one_sentence(results, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no results of LongEmbed tasks were found"):
        _run(tmp_path / "empty")
    with pytest.raises(InputError, match=r"a figure is a .svg, .png or .pdf file, got 'figure.txt'"):
        _run(results, "--figure", tmp_path / "figure.txt")
    with pytest.raises(InputError, match=r"the folder of --figure is a folder, but .* is a file"):
        _run(results, "--figure", next(results.rglob("*.json")) / "figure.svg")


def test_an_average_says_what_it_is_of(results, capsys):
    _run(results)
    sentence = (
        "average: the mean over 1 task, each the mean of its splits: LongEmbedPasskey (test_256, test_512)."
    )
    assert sentence in capsys.readouterr().out
