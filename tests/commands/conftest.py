import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.comparing.conftest import base, data, files  # noqa: F401 (fixtures)
from tests.retrieval.conftest import encoded  # noqa: F401 (fixture)


@pytest.fixture
def mteb_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty folder; what mteb's command changes in this process goes back."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", sys.argv)
    handlers = logging.getLogger().handlers[:]
    yield
    logging.getLogger().handlers[:] = handlers
