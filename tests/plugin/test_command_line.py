"""Under the stock `mteb` command our errors are one sentence."""

import functools
import sys

import pytest
from mteb.cli import main as stock_main

from mteb_longembed.plugin.replacements import main_in_one_sentence


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


def test_the_stock_command_names_what_is_misspelt_without_a_traceback(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["mteb", "run", "-m", "e5-base+nkt", "-t", "LongEmbedPasskey"])
    hook = sys.excepthook
    with pytest.raises(SystemExit) as stopped:
        stock_main()
    said = capsys.readouterr().err
    assert stopped.value.code == 2 and sys.excepthook is hook and "Traceback" not in said
    assert "mteb-longembed: unknown strategy 'nkt': did you mean 'ntk'?" in said
