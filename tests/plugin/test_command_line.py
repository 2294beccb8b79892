"""Under the stock `mteb` command our errors are one sentence, and a run ends with our scores; all else is as it was."""

import functools
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import mteb
import pytest

from mteb_longembed.errors import InputError
from mteb_longembed.plugin.replacements import TRACEBACK_VARIABLE, main_in_one_sentence, run_and_say

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


def run_of(*tasks: str) -> SimpleNamespace:
    """What `mteb run` evaluates: tasks with 50 % and 75 % on two splits."""
    scores = {"a": [{"main_score": 0.5}], "b": [{"main_score": 0.75}]}
    results = [SimpleNamespace(task_name=task, scores=scores, get_score=lambda: 0.625) for task in tasks]
    return SimpleNamespace(task_results=results)


@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        (["LongEmbedPasskey", "NFCorpus"], "LongEmbedPasskey 62.50 (splits: 2)"),
        (["NFCorpus"], None),
        ([], None),
    ],
)
def test_a_run_ends_with_the_scores_on_longembed_and_how_to_see_the_table(tasks, said, monkeypatch, capsys):
    evaluate = Mock(return_value=run_of(*tasks))
    monkeypatch.setattr(mteb, "evaluate", evaluate)
    run_and_say(
        lambda args: mteb.evaluate("model", args.tasks),
        SimpleNamespace(tasks=tasks, model="e5-base+ntk", output_folder="my runs"),
    )
    line = f"e5-base+ntk: {said}. Table: mteb-longembed report 'my runs'\n"
    assert capsys.readouterr() == ("", line if said else "")
    assert mteb.evaluate is evaluate
    evaluate.assert_called_once_with("model", tasks)


def test_a_run_that_fails_says_no_score_and_leaves_mteb_as_it_was(monkeypatch, capsys) -> None:
    evaluate = mteb.evaluate
    with pytest.raises(ValueError, match="no model"):
        run_and_say(Mock(side_effect=ValueError("no model")), SimpleNamespace(output_folder="results"))
    assert mteb.evaluate is evaluate and capsys.readouterr().err == ""


def test_the_stock_command_names_what_is_misspelt_without_a_traceback(tmp_path) -> None:
    where = {"env": {**os.environ, "PYTHONPATH": ROOT, "OMP_NUM_THREADS": "1"}, "cwd": tmp_path}
    line = ["run", "-m", "e5-base+nkt", "-t", "LongEmbedPasskey"]
    command = [sys.executable, "-c", COMMAND, *line]
    done = subprocess.run(command, **where, capture_output=True, text=True, timeout=300, check=True)
    assert "Traceback" not in done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("mteb-longembed: ")]
    assert "unknown strategy 'nkt': did you mean 'ntk'?" in line
