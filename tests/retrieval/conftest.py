from pathlib import Path

import pytest

from tests import tiny


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with prompts."""
    return tiny.saved("bert", tmp_path_factory.mktemp("base"), prompts=tiny.PROMPTS)


@pytest.fixture(autouse=True)
def no_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MTEB_LONGEMBED_STORE", "0")
