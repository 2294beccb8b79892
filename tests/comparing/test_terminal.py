"""Tables in terminals of any width, and texts of strangers in them."""

import io

import pytest
from rich.console import Console

from mteb_longembed.comparing.table import Cell, Table
from mteb_longembed.comparing.terminal import show

HOSTILE = "../a\x1b[31m|b\n# c $x$ \\input{/etc/passwd} [red]<script>alert(1)</script>[/red] *_`~^&%#{}\u202e"


def _shown(table: Table, width: int = 160) -> str:
    out = io.StringIO()
    show([table], Console(file=out, width=width, color_system=None))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


@pytest.mark.parametrize("width", [40, 80, 100, 160])
def test_a_narrow_terminal_loses_nothing(width):
    rows = []
    for name in ("intfloat/e5-mistral-7b-instruct+ntk@32768", "mteb-longembed/mini-rope+se@4096,logn=off"):
        cells = [Cell("40.0", 40.0, interval=(35.0, 45.0)) for _ in range(3)]
        rows.append((Cell(name), *cells))
    text = _shown(Table.of("t", "T", ("Model", "Passkey", "SummScreenFD", "Average"), rows), width)
    assert text.count("40.0") == text.count("[35,45]") == 6
    if width >= 80:
        assert max(map(len, text.splitlines())) <= width


@pytest.fixture
def hostile():
    cells = (Cell(HOSTILE), Cell("1.0", 1.0), Cell("[1]"))
    return Table.of(f"strategies-{HOSTILE}", HOSTILE, (HOSTILE, "Score", "[2]"), (cells,), notes=(HOSTILE,))


def test_no_control_characters_are_passed_on(hostile):
    assert all(line.isprintable() for line in _shown(hostile).split("\n"))


def test_a_hostile_name_is_shown_whole_and_is_no_markup(hostile):
    text = "".join(_shown(hostile).split())
    assert text.count("[red]<script>alert(1)</script>[/red]") == 4  # title, column, cell, note


def test_keys_stay_inside_their_folder_and_apart(tmp_path, hostile):
    other = Table.of(f"strategies-{HOSTILE}!", "", (), ())
    assert hostile.key != other.key
    for table in (hostile, other, Table.of("x" * 5000, "", (), ()), Table.of("..", "", (), ())):
        path = tmp_path / f"{table.key}.csv"
        path.write_text("")
        assert path.parent.resolve() == path.resolve().parent
    assert Table.of(hostile.key, "", (), ()).key == hostile.key
