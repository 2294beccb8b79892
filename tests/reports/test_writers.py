import csv
import io
import json
import re

import pytest
from rich.console import Console

from mteb_longembed.reports.scores.scoreboard import score_lines
from mteb_longembed.reports.tables.paper_tables import main_tables
from mteb_longembed.reports.tables.table import Cell, Table
from mteb_longembed.reports.writers import WRITERS, show
from tests.reports.made import rows as rows_of


@pytest.fixture
def table():
    return Table.of(
        "toy",
        "A 100% toy",
        ("Model", "Score", "Average"),
        (
            (Cell("a_b+ntk@4096"), Cell("61.2 (+3.1)", 61.25, is_best=True), Cell("60.0", 60.0)),
            (Cell("c|d"), Cell("50.0 (3/8)", is_partial=True), Cell("(1/6)", is_partial=True)),
        ),
        notes=("other data_1",),
    )


def _write(name, table):
    return WRITERS[name][0]([table])


def test_csv_carries_numbers_with_all_digits_and_partial_ones_as_words(table):
    header, first, second = csv.reader(io.StringIO(_write("csv", table)))
    assert header == ["Model", "Score", "Average"]
    assert first == ["a_b+ntk@4096", "61.25", "60"]
    assert second == ["c|d", "50.0 (3/8)", "(1/6)"]


def test_markdown_aligns_numbers_escapes_names_and_marks_the_best(table):
    lines = [re.sub(" +", " ", line) for line in _write("markdown", table).splitlines()]
    assert lines[2] == "| Model | Score | Average |"
    assert re.fullmatch(r"\|:-+\|-+:\|-+:\|", lines[3])
    assert lines[4:6] == ["| a\\_b+ntk@4096 | **61.2 (+3.1)** | 60.0 |", "| c\\|d | 50.0 (3/8) | (1/6) |"]


def test_latex_escapes_what_latex_would_read(table):
    text = _write("latex", table)
    assert r"\caption{A 100\% toy}" in text
    assert r"a\_b+ntk@4096 & \textbf{61.2 (+3.1)} & 60.0 \\" in text
    assert r"other data\_1" in text
    assert r"\begin{tabular}{lrr}" in text
    assert text.count("{") == text.count("}")


@pytest.mark.parametrize("width", [40, 80, 100, 160])
def test_a_narrow_terminal_loses_nothing(width):
    names = ("intfloat/e5-mistral-7b-instruct+ntk@32768", "mteb-longembed/mini-rope+se@4096,logn=off")
    rows = [row for i, name in enumerate(names) for row in rows_of(name, 0.4 + i / 5)]
    tables = main_tables(score_lines(rows))
    out = io.StringIO()
    show(tables, Console(file=out, width=width, color_system=None))
    lines = out.getvalue().splitlines()
    assert out.getvalue().count("40.0") == 7
    assert out.getvalue().count("[35,45]") == 2  # of Passkey and of Needle
    if width >= 80:
        assert max(map(len, lines)) <= width
    if width >= 100:
        assert any("Average" in line for line in lines)


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_writes_two_tables_apart(name, table):
    assert WRITERS[name][0]([table, table]).count("ntk@4096") == 2


@pytest.fixture
def ranged():
    first = (Cell("a/b"), Cell("60.0", 60.0, interval=(52.25, 67.0)), Cell("no limit", float("inf")))
    second = (Cell("a/c"), Cell("-"), Cell("512", 512.0))
    return Table.of("ranged", "Ranged", ("Model", "Score", "Tokens"), (first, second))


def test_csv_has_the_ends_of_intervals_in_columns_of_their_own(ranged):
    header, first, second = csv.reader(io.StringIO(_write("csv", ranged)))
    assert header == ["Model", "Score", "Score low", "Score high", "Tokens"]
    assert first == ["a/b", "60", "52.25", "67", "no limit"]
    assert second == ["a/c", "", "", "", "512"]


@pytest.mark.parametrize("text", ['=HYPERLINK("http://x")', "@SUM(A1)", "+cmd|' /C calc'!A0", "-1+2"])
def test_csv_text_is_no_formula_and_numbers_stay_numbers(text):
    row = (Cell(text), Cell("-0.6", -0.6), Cell("+1.2", 1.2), Cell(f"{text} (3/8)", is_partial=True))
    header, cells = csv.reader(
        io.StringIO(_write("csv", Table.of("t", "T", ("Model", text, "b", "c"), (row,))))
    )
    assert header[:2] == ["Model", "'" + text]
    assert cells == ["'" + text, "-0.6", "1.2", f"'{text} (3/8)"]


def test_json_tells_words_numbers_intervals_and_what_is_missing_apart(ranged, table):
    tables = json.loads(WRITERS["json"][0]([ranged, table]))["tables"]
    assert [entry["key"] for entry in tables] == ["ranged", "toy"]
    first, second = tables[0]["rows"]
    assert first == {
        "Model": "a/b",
        "Score": 60.0,
        "Score low": 52.25,
        "Score high": 67.0,
        "Tokens": "no limit",
    }
    assert second["Score"] is None and second["Tokens"] == 512
    assert tables[1]["rows"][1]["Score"] == "50.0 (3/8)"


@pytest.mark.parametrize("name", ["terminal", "markdown", "latex"])
def test_the_other_formats_show_intervals_behind_the_number(name, ranged):
    text = _write(name, ranged).replace("\u00a0", " ").replace("\\[", "[").replace("\\]", "]")
    assert "60.0 [52,67]" in text


HOSTILE = "../a\x1b[31m|b\n# c $x$ \\input{/etc/passwd} [red]<script>alert(1)</script>[/red] *_`~^&%#{}\u202e"


@pytest.fixture
def hostile():
    cells = (Cell(HOSTILE), Cell("1.0", 1.0), Cell("[1]"))
    return Table.of(f"strategies-{HOSTILE}", HOSTILE, (HOSTILE, "Score", "[2]"), (cells,), notes=(HOSTILE,))


@pytest.mark.parametrize("name", WRITERS)
def test_no_format_passes_on_control_characters(name, hostile):
    text = _write(name, hostile)
    assert all(line.isprintable() for line in text.split("\n"))


def test_a_hostile_name_is_shown_whole_in_the_terminal_and_is_no_markup(hostile):
    text = "".join(_write("terminal", hostile).split())
    assert text.count("[red]<script>alert(1)</script>[/red]") == 4  # title, column, cell, note


def test_latex_reads_a_hostile_name_as_text(hostile):
    text = _write("latex", hostile)
    assert "\\input" not in text and "$x$" not in text
    assert r"\textbackslash input\{/etc/passwd\}" in text
    label = next(line for line in text.splitlines() if "label" in line)
    assert re.fullmatch(r"[A-Za-z0-9+@=._-]+", label.partition("tab:")[2].rstrip("}"))
    # After the end of a line, `[1]` would be a length.
    assert "\n[" not in text


def test_markdown_reads_a_hostile_name_as_text(hostile):
    heading, _, header, rule, row, *_ = _write("markdown", hostile).splitlines()
    assert heading.startswith("### ") and r"\<script\>" in heading and r"\[red\]" in heading
    unescaped = [re.sub(r"\\.", "", line) for line in (header, rule, row)]
    assert [line.count("|") for line in unescaped] == [4, 4, 4]
    assert not re.search(r"[*_`<\[]", unescaped[2])


def test_keys_stay_inside_their_folder_and_apart(tmp_path, hostile):
    other = Table.of(f"strategies-{HOSTILE}!", "", (), ())
    assert hostile.key != other.key
    for table in (hostile, other, Table.of("x" * 5000, "", (), ()), Table.of("..", "", (), ())):
        path = tmp_path / f"{table.key}.csv"
        path.write_text("")
        assert path.parent.resolve() == path.resolve().parent
    assert Table.of(hostile.key, "", (), ()).key == hostile.key
