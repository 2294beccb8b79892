"""One `mteb run` reads a name once, describes its base once and hashes a local folder once."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import mteb
import pytest
from mteb.cli.build_cli import main as mteb_main
from mteb.models import model_implementations

from mteb_longembed.encoders.bases import describe, resolve
from mteb_longembed.plugin import models
from tests import tiny


@pytest.fixture
def counted(monkeypatch) -> Counter[str]:
    """How often our own functions are called."""
    calls: Counter[str] = Counter()

    def counting(module, name: str) -> None:
        call = getattr(module, name)

        def counted_call(*args, **kwargs):
            calls[name] += 1
            return call(*args, **kwargs)

        monkeypatch.setattr(module, name, counted_call)

    counting(models, "parse_name")
    counting(resolve, "describe")
    counting(describe, "hash_of_folder")
    monkeypatch.setattr(model_implementations.MODEL_REGISTRY, "_made", {})
    return calls


def test_one_run_resolves_a_local_model_once(counted, tmp_path, monkeypatch) -> None:
    tiny.sentence_transformer("bert", tmp_path / "base", max_position_embeddings=512)
    name = f"{tmp_path / 'base' / 'model'}+gp@1024"
    line = ["mteb", "run", "-t", "LongEmbedPasskey", "-m", name, "--eval-splits", "test_256"]
    monkeypatch.setattr(sys, "argv", [*line, "--output-folder", str(tmp_path / "results"), "-v", "0"])
    mteb_main()
    assert list((tmp_path / "results").rglob("LongEmbedPasskey.json")), "nothing was run"
    assert counted == {"parse_name": 1, "describe": 1, "hash_of_folder": 1}


def test_a_changed_folder_is_described_again(counted, tmp_path) -> None:
    tiny.sentence_transformer("bert", tmp_path / "base")
    folder = Path(tmp_path / "base" / "model")
    first = mteb.get_model_meta(f"{folder}+gp@64")
    assert mteb.get_model_meta(f"{folder}+gp@64") is first
    (folder / "config.json").write_text((folder / "config.json").read_text() + "\n")
    again = mteb.get_model_meta(f"{folder}+gp@64")
    assert counted["describe"] == 2 and again.revision != first.revision
