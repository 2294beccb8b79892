"""Settings and environments that all tests share."""

from __future__ import annotations

import pytest
from hypothesis import settings

from tests import environments

# tests never assert times, so hypothesis must not do it either
settings.register_profile("longembed", deadline=None)
settings.load_profile("longembed")


@pytest.fixture(scope="session")
def stock(tmp_path_factory: pytest.TempPathFactory) -> environments.Environment:
    """An environment in which our package is installed, without any other change."""
    environment = environments.create(tmp_path_factory.mktemp("stock") / "env")
    environment.install(environments.copy_sources(environment.folder / "sources"))
    return environment
