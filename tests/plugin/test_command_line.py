"""Under the stock `mteb` command our errors are one sentence."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mteb_longembed.plugin.replacements import main_in_one_sentence

ROOT = str(Path(__file__).parents[2])
#: The stock command, in the form that its console script has.
COMMAND = """
import sys
import mteb_longembed
from mteb.cli import main
hook = sys.excepthook
try:
    main()
except SystemExit as stopped:
    assert stopped.code == 2
assert sys.excepthook is hook
"""


def raising(error: BaseException):
    def main() -> None:
        raise error

    return functools.partial(main_in_one_sentence, main)


def test_an_interrupted_run_says_that_the_same_command_goes_on(monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["mteb", "run", "-m", "bm25"])
    with pytest.raises(SystemExit) as stopped:
        raising(KeyboardInterrupt())()
    assert stopped.value.code == 130
    assert capsys.readouterr().err.endswith("the same command continues from there.\n")


@pytest.mark.parametrize("error", [ValueError("mteb's own"), SystemExit(3), KeyboardInterrupt()])
def test_other_errors_and_interrupts_of_other_commands_pass(error, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["mteb", "available-tasks"])
    with pytest.raises(type(error)) as raised:
        raising(error)()
    assert raised.value is error and capsys.readouterr().err == ""


def test_the_stock_command_names_what_is_misspelt_without_a_traceback(tmp_path) -> None:
    where = {"env": {**os.environ, "PYTHONPATH": ROOT, "OMP_NUM_THREADS": "1"}, "cwd": tmp_path}
    line = ["run", "-m", "e5-base+nkt", "-t", "LongEmbedPasskey"]
    command = [sys.executable, "-c", COMMAND, *line]
    done = subprocess.run(command, **where, capture_output=True, text=True, timeout=300, check=True)
    assert "Traceback" not in done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("mteb-longembed: ")]
    assert "unknown strategy 'nkt': did you mean 'ntk'?" in line
