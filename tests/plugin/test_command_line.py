"""Under the stock `mteb` command our errors are one sentence, and everything else is as it was."""

import functools
import os
import re
import subprocess
import sys
from pathlib import Path

import mteb  # noqa: F401  its registries are looked at
import pytest

from mteb_longembed.errors import InputError, LongEmbedError
from mteb_longembed.plugin.command_line import TRACEBACK_VARIABLE, check_command, main_in_one_sentence

ROOT = str(Path(__file__).parents[2])
#: The stock command, in the form that its console script has.
COMMAND = """
import sys
import mteb_longembed
from mteb.cli import main
hook = sys.excepthook
for wrong in sys.argv[1:]:
    sys.argv = ["mteb", "run", "-m", *wrong.split()]
    try:
        main()
    except SystemExit as stopped:
        assert stopped.code == 2
    assert sys.excepthook is hook
late = {"torch", "sentence_transformers", "mteb_longembed.encoders.bases.checkpoint"} & set(sys.modules)
print("imported:", *sorted(late))
"""


def raising(error: BaseException):
    def main() -> None:
        raise error

    return functools.partial(main_in_one_sentence, main)


def test_an_error_of_ours_is_its_sentence_and_status_two(capsys) -> None:
    with pytest.raises(SystemExit) as stopped:
        raising(InputError("the target must be a number, got 'x'."))()
    assert stopped.value.code == 2
    assert capsys.readouterr().err == "mteb-longembed: the target must be a number, got 'x'.\n"


def test_the_traceback_comes_when_it_is_asked_for(monkeypatch) -> None:
    monkeypatch.setenv(TRACEBACK_VARIABLE, "1")
    with pytest.raises(InputError):
        raising(InputError("x"))()


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


@pytest.mark.parametrize(
    ("name", "task", "message"),
    [
        ("e5-base+ntk:sgima=2", "LongEmbedPasskey", "sgima"),
        ("mini-rpoe+ntk", "LongEmbedPasskey", "'mini-rpoe': did you mean 'mini-rope'"),
        ("mini-rope+ntk", "LongEmbedPaskey", "unknown task 'LongEmbedPaskey': did you mean"),
    ],
)
def test_what_is_misspelt_is_named(name, task, message) -> None:
    with pytest.raises(LongEmbedError, match=re.escape(message)):
        check_command(["run", "-t", task, "-m", name])


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "-m", "sentence-transformers/all-MiniLM-L6-v2", "-t", "NFCropus"],
        ["run", "-m", "mini-rope+ntk", "-t", "LongEmbedPasskey-seed7", "NFCorpus"],
        ["run", "-b", "LongEmbed+"],
        ["run", "-m"],
        ["available-tasks", "-t", "LongEmbedPaskey"],
        [],
    ],
)
def test_what_is_right_or_concerns_mteb_alone_passes(arguments) -> None:
    check_command(arguments)


def test_a_misspelt_name_is_told_before_anything_heavy_is_imported(tmp_path) -> None:
    wrong = {
        "e5-base+nkt -t LongEmbedPasskey": "unknown strategy 'nkt': did you mean 'ntk'?",
        "mini-rope+ntk -t NFCropus": "unknown task 'NFCropus': did you mean 'NFCorpus'?",
    }
    where = {"env": {**os.environ, "PYTHONPATH": ROOT, "OMP_NUM_THREADS": "1"}, "cwd": tmp_path}
    command = [sys.executable, "-c", COMMAND, *wrong]
    done = subprocess.run(command, **where, capture_output=True, text=True, timeout=300, check=True)
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("mteb-longembed: ")]
    assert len(lines) == 2 and all(want in line for want, line in zip(wrong.values(), lines, strict=True))
    assert done.stdout.splitlines()[-1].split() == ["imported:"]
