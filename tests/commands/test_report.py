import csv
import json
from pathlib import Path
from unittest.mock import Mock

import pytest

from mteb_longembed import __version__, cli
from mteb_longembed.commands.report import main
from mteb_longembed.errors import InputError, StorageError
from mteb_longembed.reports.writers import WRITERS
from tests.reports.made import write_result

DATA = Path(__file__).parents[1] / "reports" / "data"
GOLDEN = DATA / "golden.md"


def _run(*arguments):
    return main(cli._parsed(["report", *map(str, arguments)]))


def test_stored_result_files_give_the_golden_report(capsys):
    assert _run(DATA / "results", "--format", "markdown", "--compare-published") == 0
    # After a wanted change: mteb-longembed report tests/reports/data/results --format markdown
    # --compare-published > tests/reports/data/golden.md
    assert capsys.readouterr().out == GOLDEN.read_text(encoding="utf-8")


def test_tables_go_into_files_of_their_own(tmp_path, capsys):
    _run(DATA / "results", "--format", "csv", "--output-folder", tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert {"main-generated.csv", "main-published.csv", "passkey-generated.csv"} <= names
    with (tmp_path / "main-published.csv").open(encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header[:4] == ["Model", "Size", "Tokens", "Passkey"]
    numbers = header.index("Average") + 1
    assert all(float(cell) >= 0 for row in rows for cell in row[1:numbers] if cell)
    assert "109482240" in {row[1] for row in rows}


def test_figures_and_page_are_written(tmp_path, capsys):
    folders = ["--figures", tmp_path / "figures", "--html", tmp_path / "report.html"]
    _run(DATA / "results", "--format", "json", *folders)
    printed = capsys.readouterr()
    tables = json.loads(printed.out)["tables"]  # and nothing else
    assert {table["key"] for table in tables} >= {"main-generated", "passkey-generated"}
    assert printed.err.count("warning: skipped") == 1 and "LongEmbedNeedle.json" in printed.err
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert {"heatmap-passkey-generated.png", "heatmap-passkey-published.svg"} <= names
    assert "improvement-intfloat__e5-base-v2-generated.svg" in names
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "LongEmbedNeedle.json" in page
    assert f", by mteb-longembed {__version__}" in page


def test_the_page_shows_ones_own_models_first_and_folds_the_public_ones(tmp_path, capsys):
    _run(DATA / "results", "--published", "--format", "csv", "--html", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    generated, public = page.index('<section id="main-generated"'), page.index('<section id="published"')
    assert generated < public
    assert "<details>" in page[public : page.index("<table", public)]
    assert capsys.readouterr().out.startswith("#,Model,Numbers")  # other formats rank all in the first table


def test_files_of_strangers_neither_end_a_report_nor_leave_its_folder(tmp_path, capsys):
    results, out = tmp_path / "results", tmp_path / "out"
    names = ("../../x+none@512", "../../x+pi@4096", "a/$b$\x1b[31m\n# c\ud800+ntk@1k", "a" * 200)
    for i, name in enumerate(names):
        path = write_result(results / str(i), "LongEmbedPasskey", {"test_256": 0.5}, name="m")
        (path.parent / "model_meta.json").write_text(json.dumps({"name": name, "revision": "r"}))
    (path.parent / "LongEmbedQMSum.json").write_text("[" * 100_000)
    for format_ in WRITERS:
        _run(results, "--format", format_, "--output-folder", out)
    _run(results, "--figures", out, "--html", out / "report.html")
    suffixes = {suffix for _, suffix in WRITERS.values()}
    assert {path.suffix for path in out.iterdir()} >= {*suffixes, ".svg", ".png", ".html"}
    printed = capsys.readouterr()
    assert "nested too deeply" in printed.err
    assert all(line.isprintable() for line in (printed.out + printed.err).splitlines())
    assert {path.name for path in tmp_path.iterdir()} == {"results", "out"}


@pytest.mark.parametrize("option", ["--output-folder", "--figures", "--html"])
def test_a_folder_that_cannot_be_is_one_sentence(option, monkeypatch, tmp_path):
    file = tmp_path / "there"
    file.write_text("kept")
    target = file / "report.html" if option == "--html" else file
    message = f"^what {option} writes into is a folder, but .*there' is a file: give another folder.$"
    with pytest.raises(InputError, match=message):
        _run(DATA / "results", option, target)
    assert file.read_text() == "kept"
    below_proc = FileNotFoundError(2, "No such file or directory")  # what Linux answers there
    monkeypatch.setattr(Path, "mkdir", Mock(side_effect=below_proc))
    message = f"^what {option} writes into cannot be made at .*: No such file or directory.$"
    with pytest.raises(InputError, match=message):
        _run(DATA / "results", option, tmp_path / "x" / "y")


def test_a_full_disk_is_one_sentence_and_leaves_no_part_of_a_page(tmp_path, monkeypatch):
    def write_bytes(self, content):
        with self.open("wb") as file:
            file.write(content[:100])
        raise OSError(28, "No space left on device")

    (tmp_path / "report.html").write_text("the page of yesterday")
    monkeypatch.setattr(Path, "write_bytes", write_bytes)
    with pytest.raises(StorageError, match=r"report.html' cannot be written: No space left on device\.$"):
        _run(DATA / "results", "--format", "csv", "--html", tmp_path / "report.html")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert (tmp_path / "report.html").read_text() == "the page of yesterday"


def test_the_public_table_needs_no_results(capsys):
    _run("--published", "--format", "csv")
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert "GritLM/GritLM-7B" in {row["Model"] for row in rows}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "give RESULTS folders, or --published"),
        (["."], "no results of LongEmbed tasks were found"),
        ([DATA / "results", "--html", "."], "--html writes one file, but .* is a folder"),
    ],
)
def test_options_that_cannot_work_are_one_sentence(options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        _run(*options)
