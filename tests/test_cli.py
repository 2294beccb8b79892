"""The front door."""

import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
from functools import cache
from unittest.mock import Mock

import pytest

import mteb_longembed
from mteb_longembed import cli
from mteb_longembed.commands import list as listing
from mteb_longembed.encoders.method import SETTINGS
from mteb_longembed.encoders.strategies import STRATEGIES
from mteb_longembed.errors import InputError
from mteb_longembed.tasks import TASKS
from mteb_longembed.zoo import ZOO


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_help_and_json_and_spells_its_arguments_alike(name, capsys) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main([name, "--help"])
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    assert f"mteb-longembed {name}" in text and not re.search(r"(?m)^  (model|models|folder|query)  ", text)
    assert "--json" in text or name == "leaderboard"  # which does not end


def test_help_names_every_command_and_imports_none(capsys, monkeypatch) -> None:
    monkeypatch.setattr(importlib, "import_module", lambda name: pytest.fail(f"{name} was imported"))
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    shown = capsys.readouterr().out
    assert all(re.search(rf"\n    {name}\s", shown) for name in cli.COMMANDS)


@pytest.mark.parametrize("arguments", [[], ["lst"], ["list", "everything"]])
def test_a_wrong_command_line_is_a_usage_error(arguments, capsys) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(arguments)
    assert stopped.value.code == 2
    assert "usage: mteb-longembed" in capsys.readouterr().err


def test_an_error_of_ours_or_an_interrupt_is_one_sentence_and_a_status(monkeypatch, capsys) -> None:
    text = "the target must be a number, got 'x'."
    refused = "the system refuses a: Not a directory."
    for error, status, line in (
        (InputError(text), 2, text),
        (KeyboardInterrupt(), 130, "interrupted."),
        (OSError(20, "Not a directory", "a"), 2, refused),  # such as a cache of mteb's that cannot be made
    ):
        monkeypatch.setattr(listing, "main", Mock(side_effect=error))
        assert cli.main(["list"]) == status
        assert capsys.readouterr().err == f"mteb-longembed: {line}\n"


def test_list_shows_every_strategy_parameter_alias_and_task(capsys) -> None:
    assert cli.main(["list"]) == 0
    shown = capsys.readouterr().out
    for key, kind in STRATEGIES.items():
        assert f"\n  {key}" in shown
        assert all(f" {name}=" in shown for name in kind.declared())
    assert all(f" {name}=" in shown for name in SETTINGS)
    assert all(f"\n  {alias} " in shown and entry.hub_id in shown for alias, entry in ZOO.items())
    assert all(f"\n  {task.metadata.name} " in shown for task in TASKS)
    assert cli.main(["list", "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert [row["strategy"] for row in output["strategies"]] == list(STRATEGIES)
    assert {row["alias"]: row["model"] for row in output["models"]} == {a: e.hub_id for a, e in ZOO.items()}
    assert cli.main(["list", "tasks", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"tasks": output["tasks"]}


LISTING = """
import gc, sys
from mteb_longembed import cli
for what in ("models", "strategies"):
    cli.main(["list", what])
kept = [[] for _ in range(1_000_000)]  # as imports make them
print(sum(generation["collections"] for generation in gc.get_stats()), *sys.modules, file=sys.stderr)
"""


def test_listings_import_neither_torch_nor_mteb_and_a_million_objects_are_seldom_searched_for_garbage() -> (
    None
):
    done = subprocess.run([sys.executable, "-c", LISTING], capture_output=True, text=True, check=True)
    n_searches, *modules = done.stderr.split()
    assert not {"torch", "transformers", "mteb", "numpy"} & set(modules)
    assert int(n_searches) <= 50  # 1,500 with Python's own limit


def test_a_closed_pipe_ends_the_listing_quietly() -> None:
    code = "import sys; from mteb_longembed import cli; sys.exit(cli.main(['list', 'models']))"
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as closed:
        done = subprocess.run([sys.executable, "-c", code], stdout=closed, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@cache
def run_in_shell(command: str, redirected: str = "") -> subprocess.CompletedProcess[str]:
    """Run one of our commands in an empty folder, once for each redirection."""
    line = f'"$0" -m mteb_longembed {command} {redirected}'
    with tempfile.TemporaryDirectory() as folder:
        words = ["sh", "-c", line, sys.executable]
        return subprocess.run(words, check=False, capture_output=True, text=True, cwd=folder)


@pytest.mark.parametrize("closed", ["0", "1", "2", "0 1 2"])
@pytest.mark.parametrize("command", ["list models", "export", "search mini-apee word --corpus x"])
def test_a_closed_standard_stream_changes_no_status(command, closed) -> None:
    expected = run_in_shell(command)
    ran = run_in_shell(command, " ".join(f"{n}{'<' if n == '0' else '>'}&-" for n in closed.split()))
    assert ran.returncode == expected.returncode and "Traceback" not in ran.stderr
    if "1" not in closed:
        assert ran.stdout == expected.stdout
    if "2" not in closed:
        assert ran.stderr == expected.stderr


def test_a_comparison_in_python_needs_no_standard_stream(monkeypatch, tmp_path) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    result = mteb_longembed.compare(
        "bm25", tasks=["LongEmbedPasskey"], eval_splits=["test_256"], output_folder=tmp_path
    )
    assert len(result.summary) > 0
