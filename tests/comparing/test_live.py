"""What a running comparison shows on a terminal and in a log."""

import io
import logging
import re
import sys

import pytest

from mteb_longembed.comparing import live
from mteb_longembed.comparing.live import Display
from mteb_longembed.comparing.summary import Row
from mteb_longembed.evaluation.resampling import Interval

ROWS = [
    Row(id=name, kind="strategy", label=f"+{name}[red]", score=Interval(score, 1, 99))
    for name, score in (("a", 50), ("b", 9))
]


class Terminal(io.StringIO):
    """A terminal that applies the escape codes that move up and erase a line."""

    def isatty(self) -> bool:
        return True

    def screen(self) -> list[str]:
        lines, row = [""], 0
        for part in re.split(r"(\x1b\[[0-9;?]*[a-zA-Z]|\r|\n)", self.getvalue()):
            if part == "\n":
                row += 1
                lines += [""] * (row == len(lines))
            elif part == "\x1b[1A":
                row -= 1
            elif part == "\x1b[2K":
                lines[row] = ""
            elif part != "\r" and not part.startswith("\x1b"):
                lines[row] += part
        return [line.rstrip() for line in lines if line.strip()]


@pytest.fixture
def log():
    handler = logging.StreamHandler(sys.stderr)
    logger = logging.getLogger("some library")
    logger.addHandler(handler)
    yield logger
    logger.removeHandler(handler)


def test_a_terminal_shows_the_table_once_and_everything_else_above_it(monkeypatch, request) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    log = request.getfixturevalue("log")
    display = Display(2000, show=True)

    def interrupted() -> None:
        with display.shown():
            for number in (1, 2):
                display.begin(ROWS[number - 1].label)
                display.update(1000)
                display.show_rows(ROWS[:number], ROWS[number - 1].id, 2)
                print(f"print {number}", file=sys.stderr)
                log.warning("log %d", number)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    *above, bar, heading, first, second = terminal.screen()
    assert above == ["print 1", "log 1", "print 2", "log 2"]
    assert bar.startswith("Comparing, +b[red] ━") and " 2.00k/2.00k [" in bar
    assert heading.split("  ")[0].strip() == "2 of 2 candidates"
    assert first.split() == ["+a[red]", "50.0", "[1,99]", "not", "separated"] and "+b[red]" in second
    assert terminal.getvalue().endswith("\x1b[?25h"), "the cursor is back"
    log.warning("after")
    assert terminal.screen()[-1] == "after"


def test_a_log_has_a_line_for_each_candidate_and_the_bar_now_and_then(monkeypatch, capsys) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(live, "_SECONDS", -1)
    display = Display(3000, show=True)
    with display.shown():
        display.update(1000)
        display.show_rows(ROWS[:1], "a", 2)
    first, second, last = capsys.readouterr().err.splitlines()
    assert second == "1 of 2: +a[red] 50.0 [1,99]" and all(" 1.00k/3.00k [" in bar for bar in (first, last))


@pytest.mark.parametrize("has_stderr", [True, False])
def test_nothing_is_shown_without_show_or_standard_error(monkeypatch, capsys, has_stderr) -> None:
    if not has_stderr:
        monkeypatch.setattr(sys, "stderr", None)
    display = Display(3000, show=not has_stderr)
    with display.shown():
        display.update(1000)
    assert not display.is_shown and display.n == 1000 and capsys.readouterr() == ("", "")


def test_a_bar_has_a_total_even_where_fewer_tokens_were_expected(monkeypatch, capsys) -> None:
    monkeypatch.setattr(live, "_SECONDS", -1)
    display = Display(1000, show=True)
    with display.shown():
        display.update(1200)
    assert all(" 1.20k/1.20k [" in bar for bar in capsys.readouterr().err.splitlines())


def test_what_is_printed_to_a_file_stays_there(monkeypatch, capsys) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    display = Display(2000, show=True)
    with display.shown():
        print("printed by a scorer")
    assert capsys.readouterr().out == "printed by a scorer\n" and "printed" not in terminal.getvalue()
