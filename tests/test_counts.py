"""Limits of cost: how often a name is parsed and a file is opened, and how many of our functions a call runs.

Python's own counts, not times, so that a busy machine changes nothing. No file of the package is named here: code may
move, but must not do the same work twice.
"""

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mteb
import pytest
from mteb.cli.build_cli import main as mteb_main

import mteb_longembed as longembed
from mteb_longembed import names
from mteb_longembed.comparing.candidates import candidates_of
from tests import tiny
from tests.counts import LIMITS, PACKAGE, of_load, profiled

_opened: list[Counter[str]] = []


def _note_open(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _opened:
        _opened[0][str(arguments[0])] += 1


sys.addaudithook(_note_open)


def cost(call: Callable[[], Any], folder: Path | str = PACKAGE) -> SimpleNamespace:
    """How often each function of the package ran, and how often each file below a folder was opened."""
    _opened.append(Counter())
    try:
        with profiled() as ran:
            call()
    finally:
        opened = _opened.pop()
    below = {path: n for path, n in opened.items() if path.startswith(str(folder)) and not path.endswith("c")}
    return SimpleNamespace(calls=ran.calls, opened=Counter(below))


@pytest.fixture(scope="module", autouse=True)
def everything_is_imported() -> None:
    for name in ("mini-ape", "mini-rope"):
        longembed.load(name).encode(["a"])
        mteb.get_model(name)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tiny.saved("bert", tmp_path / "base", max_position_embeddings=512)


@pytest.mark.parametrize("name", ["mini-ape+pcw@4k", "mini-rope+ntk@4k"])
def test_a_reader_of_load_follows_few_functions_through_few_files(name: str) -> None:
    for what, n in of_load(name).items():
        assert n <= LIMITS[what], what


@pytest.mark.parametrize("call", [longembed.load, mteb.get_model], ids=["load", "get_model"])
def test_a_name_is_parsed_once_and_weights_are_hashed_at_most_once(call, base: Path) -> None:
    first, second = (cost(lambda: call(f"{base}+gp@1024"), base) for _ in range(2))
    assert first.calls["Method.parse"] == second.calls["Method.parse"] == 1
    weights = str(base / "model.safetensors")  # which other code than Python's opens to load them
    assert max(first.opened[weights], second.opened[weights]) <= 1


def test_one_run_hashes_the_weights_of_a_local_model_once(base: Path, tmp_path: Path, monkeypatch) -> None:
    line = ["mteb", "run", "-t", "LongEmbedPasskey", "-m", f"{base}+gp@1024", "--eval-splits", "test_256"]
    monkeypatch.setattr(sys, "argv", [*line, "--output-folder", str(tmp_path / "results"), "-v", "0"])
    run = cost(mteb_main, base)
    assert list((tmp_path / "results").rglob("LongEmbedPasskey.json")), "nothing was run"
    assert run.calls["Files.hashed"] == 1 and 1 <= run.calls["Method.parse"] <= 2
    assert max(run.opened.values()) <= 8


def test_a_changed_folder_is_described_again(base: Path) -> None:
    first = mteb.get_model_meta(f"{base}+gp@1024")
    assert mteb.get_model_meta(f"{base}+gp@1024").revision == first.revision
    (base / "config.json").write_text((base / "config.json").read_text() + "\n")
    assert mteb.get_model_meta(f"{base}+gp@1024").revision != first.revision


@pytest.fixture
def parsed(monkeypatch) -> Counter[str]:
    """How often each name was parsed."""
    found: Counter[str] = Counter()

    def split_settings(text: str, settings: str) -> dict[str, str]:
        found[text] += 1
        return split(text, settings)

    split = names.split_settings
    monkeypatch.setattr(names, "split_settings", split_settings)
    return found


def test_candidates_of_a_base_parse_each_name_once_and_read_the_base_once(base: Path, parsed) -> None:
    listed = []
    first = cost(lambda: listed.append(candidates_of(str(base))), base)
    [(candidates, _)] = listed
    assert {candidate.base for candidate in candidates} == {str(base)} and len(candidates) > 10
    assert len(parsed) > 10 and set(parsed.values()) == {1}
    # transformers reads config.json again
    assert first.calls["_base_in"] == 1 and sorted(first.opened.values()) == [1, 1, 1, 1, 1, 2]
    # not every field of every specification
    assert first.calls["read"] <= 25 * len(candidates)
    assert not cost(lambda: candidates_of(str(base)), base).opened


def test_a_comparison_reads_the_files_of_a_base_once_and_parses_each_name_once(
    base: Path, tmp_path, parsed
) -> None:
    documents = {f"d{i}": tiny.text(100, i) for i in range(3)}
    data = {"corpus": documents, "queries": {"q": tiny.text(5)}, "qrels": {"q": {"d1": 1}}}
    options = {"quick": True, "show": False, "output_folder": tmp_path / "results"}
    run = cost(lambda: longembed.compare(str(base), **data, **options), base)
    assert run.calls["_base_in"] == 1 and run.calls["read_base"] >= 3
    assert len(parsed) > 2 and set(parsed.values()) == {1}
