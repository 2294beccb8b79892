"""Settings and environments that all tests share."""

import copy
import gc
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from filelock import FileLock
from hypothesis import settings
from sentence_transformers.util import environment as packages

from mteb_longembed.encoders import build
from mteb_longembed.encoders.base import Base
from tests import environments, tiny
from tests.loopback_hub import LoopbackHub

# tests never assert times, so hypothesis must not do it either; the same code gets the same cases, and the nightly
# run looks for new ones (`--hypothesis-profile new-cases`)
settings.register_profile("new-cases", deadline=None)
settings.register_profile("same-cases", deadline=None, derandomize=True)
settings.load_profile("same-cases")
# as in our command: a third of the time of a short test was a search for garbage among what imports made
gc.set_threshold(100_000, 50)
# mteb seeds with each of its 2,000 tasks, and torch keeps each seed of an absent device with the formatted stack
for devices in (torch.cuda, torch.xpu, torch.mtia):
    if not devices.is_available():
        devices.manual_seed_all = lambda seed: None
# each model of sentence-transformers asks for its card which packages are installed, and reads their metadata
packages.check_package_availability = cache(packages.check_package_availability)


@pytest.fixture
def empty_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackHub]:
    """A hub without repositories, which this process uses."""
    with LoopbackHub() as hub:
        hub.patch(monkeypatch, tmp_path / "hub")
        yield hub


@pytest.fixture
def online(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch, tmp_path_factory) -> LoopbackHub:
    """This process uses the room's own hub, and mteb knows nothing of its models yet."""
    hub.patch(monkeypatch, tmp_path_factory.getbasetemp() / "hf-home")
    monkeypatch.setenv("HF_TOKEN", "hf_of_a_test")
    hub.requests.clear()
    return hub


@pytest.fixture(autouse=True)
def no_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads what another has encoded, unless it names a cache."""
    monkeypatch.setenv("MTEB_LONGEMBED_CACHE", "0")


_bases: dict[str, Any] = {}


@pytest.fixture
def bases_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A base whose files stay as they are is loaded once in a process. Each call gets a copy."""
    load = build.load_base

    def loaded(base: Base, *settings: Any) -> Any:
        key = repr((base.files, base.revision, settings))
        if key not in _bases:
            _bases[key] = load(base, *settings)
        return copy.deepcopy(_bases[key])

    monkeypatch.setattr(build, "load_base", loaded)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT with prompts of two tokens and a card. No test may change it."""
    return tiny.saved("bert", tmp_path_factory.mktemp("base"), tiny.CARD, prompts=tiny.PROMPTS)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """One folder for all processes of a run."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if hasattr(request.config, "workerinput") else folder


@pytest.fixture(scope="session")
def wheel(shared: Path) -> Path:
    """Our wheel, built once for all processes; `sources` beside it is what it was built from.

    An earlier build has left a module behind that the sources no longer have.
    """
    folder = shared / "wheel"
    with FileLock(shared / "wheel.lock"):
        if not folder.exists():
            part = shared / "wheel.part"
            part.mkdir()
            sources = environments.copy_sources(part / "sources")
            left = sources / "build" / "lib" / "mteb_longembed" / "gone.py"
            left.parent.mkdir(parents=True)
            left.touch()
            environments.build(sources, part)
            part.rename(folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="session")
def stock(shared: Path, wheel: Path) -> environments.Environment:
    """An environment with our wheel and no other change, made once for all processes. No test may change it."""
    environment = environments.Environment(shared / "stock")
    with FileLock(shared / "stock.lock"):
        if not (shared / "stock.ready").exists():
            environments.create(environment.folder).install(wheel)
            (shared / "stock.ready").touch()
    return environment


def pytest_collection_finish() -> None:
    """What the imports have made is no garbage: `gc.collect()` would look at a million objects each time."""
    gc.freeze()
