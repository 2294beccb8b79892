"""The way of a name through the house is short: what runs, and how often, is counted."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mteb
import pytest
from mteb.cli.build_cli import main as mteb_main
from mteb.models import model_implementations

import mteb_longembed as longembed
from mteb_longembed.comparing.candidates import candidates_of
from tests import tiny

ROOT = Path(longembed.__file__).parent


def ran(call: Callable[[], Any]) -> Counter[tuple[str, str]]:
    """How often each function of ours runs: (file, name) -> calls."""
    calls: Counter[tuple[str, str]] = Counter()

    def note(frame: Any, event: str, _: Any) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(str(ROOT)):
            calls[Path(file).relative_to(ROOT).as_posix(), frame.f_code.co_qualname] += 1

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return calls


def files(calls: Counter[tuple[str, str]]) -> set[str]:
    return {file for file, _ in calls}


@pytest.fixture(scope="module", autouse=True)
def everything_is_imported() -> None:
    for name in ("mini-ape", "mini-rope"):
        longembed.load(name).encode(["a"])
        mteb.get_model(name)


def test_a_name_runs_code_of_few_files() -> None:
    assert len(files(ran(lambda: longembed.load("mini-rope+ntk@2k")))) <= 25
    assert len(files(ran(lambda: mteb.get_model("mini-rope+ntk@2k")))) <= 32
    model = longembed.load("mini-rope+ntk@2k")
    assert len(files(ran(lambda: model.encode(["a", "b c"])))) <= 14


@pytest.mark.parametrize("call", [longembed.load, mteb.get_model], ids=["load", "get_model"])
def test_a_name_is_parsed_once_and_its_base_is_read_once(call: Callable[[str], Any], tmp_path: Path) -> None:
    tiny.sentence_transformer("bert", tmp_path / "base")
    name = f"{tmp_path / 'base' / 'model'}+gp@64"
    calls = ran(lambda: call(name))
    assert calls["encoders/bases/spec.py", "ModelSpec.parse"] == 1
    assert (
        calls["encoders/bases/checkpoint.py", "_read"]
        == calls["encoders/bases/model_files.py", "Files.revision"]
        == 1
    )
    calls = ran(lambda: call(name))
    assert (
        calls["encoders/bases/checkpoint.py", "_read"]
        == calls["encoders/bases/model_files.py", "Files.revision"]
        == 0
    )


def test_one_run_resolves_a_local_model_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny.sentence_transformer("bert", tmp_path / "base", max_position_embeddings=512)
    name = f"{tmp_path / 'base' / 'model'}+gp@1024"
    line = ["mteb", "run", "-t", "LongEmbedPasskey", "-m", name, "--eval-splits", "test_256"]
    monkeypatch.setattr(sys, "argv", [*line, "--output-folder", str(tmp_path / "results"), "-v", "0"])
    monkeypatch.setattr(model_implementations.MODEL_REGISTRY, "_made", {})
    calls = ran(mteb_main)
    assert list((tmp_path / "results").rglob("LongEmbedPasskey.json")), "nothing was run"
    assert (
        calls["encoders/bases/checkpoint.py", "_read"] == calls["encoders/bases/resolve.py", "resolve"] == 1
    )
    assert calls["encoders/bases/model_files.py", "Files.revision"] == 1


def test_a_changed_folder_is_described_again(tmp_path: Path) -> None:
    tiny.sentence_transformer("bert", tmp_path / "base")
    folder = tmp_path / "base" / "model"
    first = mteb.get_model_meta(f"{folder}+gp@64")
    assert mteb.get_model_meta(f"{folder}+gp@64") is first
    (folder / "config.json").write_text((folder / "config.json").read_text() + "\n")
    assert mteb.get_model_meta(f"{folder}+gp@64").revision != first.revision


def test_listing_candidates_again_reads_no_file_and_prints_each_name_once() -> None:
    found = candidates_of("mini-rope")
    calls = ran(lambda: candidates_of("mini-rope"))
    assert calls["encoders/bases/checkpoint.py", "_read"] == 0
    assert calls["encoders/bases/spec.py", "ModelSpec.parse"] == len(found)
