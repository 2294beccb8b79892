"""What `mteb leaderboard` is given of ours: without its web framework, on a module of its shape."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import mteb
import pytest
from mteb.cache import ResultCache
from mteb.models import model_implementations
from mteb.models.get_model_meta import get_model_metas
from mteb.models.model_meta import ModelMeta

from mteb_longembed.errors import LongEmbedError
from mteb_longembed.plugin import after_import
from mteb_longembed.plugin.metadata import load_named
from mteb_longembed.plugin.registries import ModelRegistry
from tests.plugin.results import write_results

NAME = "org/base+pi@4096"


def describe(cache: Path, name: str, revision: str = "r1-le1", place: str = "results", **fields) -> Path:
    """The file that mteb writes next to the results of a model."""
    meta = ModelMeta.create_empty({"name": name, "revision": revision, "loader": load_named, **fields})
    file = cache / place / name.replace("/", "__") / revision / "model_meta.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(meta.to_dict()))
    return file


@pytest.fixture
def registry(monkeypatch) -> ModelRegistry:
    """A copy of mteb's registry in its place."""
    copy = ModelRegistry(model_implementations.MODEL_REGISTRY)
    plugin_sees = sys.modules["mteb.models.model_implementations"]
    monkeypatch.setattr(plugin_sees, "MODEL_REGISTRY", copy)
    monkeypatch.setattr(sys.modules["mteb.models.get_model_meta"], "MODEL_REGISTRY", copy)
    return copy


@pytest.fixture
def board(monkeypatch, tmp_path) -> ModuleType:
    """A stand-in for `mteb.leaderboard`, told as after its import; its app is the list of the models shown."""

    def get_leaderboard_app(cache=SimpleNamespace(cache_path=tmp_path), rebuild=False):  # noqa: B008
        """mteb's words."""
        return sorted(meta.name for meta in get_model_metas() if "+" in meta.name)

    package, app = ModuleType("mteb.leaderboard"), ModuleType("mteb.leaderboard.app")
    package.get_leaderboard_app = app.get_leaderboard_app = get_leaderboard_app
    monkeypatch.setitem(sys.modules, "mteb.leaderboard", package)
    monkeypatch.setitem(sys.modules, "mteb.leaderboard.app", app)
    after_import("mteb.leaderboard")
    return package


# ---- the menu ----------------------------------------------------------------------------------------------


def names(entries) -> list:
    return [names(entry.benchmarks) if hasattr(entry, "benchmarks") else entry.name for entry in entries]


def test_our_benchmark_is_on_the_menu_behind_mteb_own() -> None:
    from mteb.benchmarks import _leaderboard_menu as menu

    text = str(names(menu.R_BENCHMARK_ENTRIES))
    assert "'LongEmbed', 'LongEmbed+', 'BRIGHT'" in text and text.count("'LongEmbed+'") == 1
    after_import("mteb.benchmarks._leaderboard_menu")
    assert str(names(menu.R_BENCHMARK_ENTRIES)) == text, "told twice, it must stand there once"


@pytest.mark.parametrize("named", [[], [SimpleNamespace(name="LongEmbed", benchmarks=())]])
def test_a_menu_without_longembed_is_told_in_one_sentence(monkeypatch, named) -> None:
    from mteb.benchmarks import _leaderboard_menu as menu

    entry = SimpleNamespace(name="LongEmbed", benchmarks=named)  # an entry of this name is no benchmark
    monkeypatch.setattr(menu, "R_BENCHMARK_ENTRIES", [entry])
    with pytest.raises(LongEmbedError, match=r"^mteb 2\.[\d.]+ has no LongEmbed in .*R_BENCHMARK_ENTRIES"):
        after_import("mteb.benchmarks._leaderboard_menu")


# ---- the models --------------------------------------------------------------------------------------------


def test_the_leaderboard_shows_the_extended_models_of_its_cache_as_they_describe_themselves(
    registry, board, tmp_path
) -> None:
    """A model with a repository of its own is known by its revision. Nothing is asked of the hub."""
    describe(tmp_path, NAME, max_tokens=4096, embed_dim=768, adapted_from="org/base", framework=["PyTorch"])
    describe(tmp_path, "org/other+ntk@1024,logn=off", place="remote/results")
    describe(tmp_path, "me/e5-base-se", "abc-le2")
    for name in ("org/base", "org/c+1", "me/another"):
        describe(tmp_path, name, "r1")
    assert board.get_leaderboard_app() == [NAME, "org/other+ntk@1024,logn=off"]
    assert "me/e5-base-se" in dict.keys(registry) and "me/another" not in dict.keys(registry)
    meta = registry[NAME]
    assert (meta.revision, meta.max_tokens, meta.embed_dim) == ("r1-le1", 4096, 768)
    assert (meta.adapted_from, meta.framework) == ("org/base", ["PyTorch"])
    assert (meta.loader.func, meta.loader.args) == (load_named, (NAME,))


def test_the_cache_is_found_however_it_is_given(registry, board, tmp_path) -> None:
    describe(tmp_path / "mine", NAME)
    cache = mteb.ResultCache(tmp_path / "mine")
    assert board.get_leaderboard_app() == []
    assert board.get_leaderboard_app(cache, rebuild=True) == [NAME]
    assert sys.modules["mteb.leaderboard.app"].get_leaderboard_app(cache=cache) == [NAME]
    assert board.get_leaderboard_app.__doc__ == "mteb's words."


def test_of_several_revisions_the_last_one_written_describes_the_model(registry, board, tmp_path) -> None:
    import os

    newer, older = describe(tmp_path, NAME, "a-le2"), describe(tmp_path, NAME, "b-le1")
    os.utime(older, (1, 1))
    os.utime(newer, (2, 2))
    board.get_leaderboard_app()
    assert registry[NAME].revision == "a-le2"


def test_an_entry_that_mteb_has_itself_stays(registry, board, tmp_path) -> None:
    registry[NAME] = own = ModelMeta.create_empty({"name": NAME})
    describe(tmp_path, NAME)
    board.get_leaderboard_app()
    assert registry[NAME] is own


@pytest.mark.parametrize(
    "text", ["{", "[1]", "{}", '{"name": 1}', f'{{"name": "{NAME}"}}', f'{{"name": "{NAME}", "new": 1}}']
)
def test_a_broken_description_is_named_and_the_others_are_shown(registry, board, tmp_path, text) -> None:
    describe(tmp_path, "org/a+rp@1024")
    describe(tmp_path, "org/z+rp@1024")
    file = describe(tmp_path, NAME)
    file.write_text(text)
    with pytest.warns(UserWarning, match="must describe a model as mteb writes it") as told:
        assert board.get_leaderboard_app() == ["org/a+rp@1024", "org/z+rp@1024"]
    (message,) = [str(each.message) for each in told]
    assert message.startswith(str(file)) and "\n" not in message


def test_a_cache_of_another_kind_does_not_stop_the_leaderboard(registry, board) -> None:
    with pytest.warns(UserWarning, match="leaves extended models out .AttributeError"):
        assert board.get_leaderboard_app(object()) == []


# ---- without the extra -------------------------------------------------------------------------------------


def test_mteb_is_imported_without_the_leaderboard_and_its_own_error_stays() -> None:
    code = """
import sys
sys.modules["gradio"] = None
import mteb_longembed, mteb
assert not any(name.startswith("mteb.leaderboard") for name in sys.modules)
try:
    import mteb.leaderboard
except ImportError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", code],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "mteb-longembed" not in done.stderr
    assert "gradio" in done.stdout or "cachetools" in done.stdout


def test_the_table_of_a_benchmark_lists_our_models_beside_mtebs(tmp_path):
    """Also after mteb has read its registry, which it does once in a process."""
    benchmark = mteb.get_benchmark("LongEmbed+")
    scores = {task.metadata.name: 0.5 for task in benchmark.tasks}
    names = ["intfloat/e5-base-v2", "intfloat/e5-base-v2+pi@4096", "local/mini-rope+ntk@1024"]

    def listed() -> list[str]:
        return sorted(ResultCache(tmp_path).load_results(tasks=benchmark).get_benchmark_result()["Model"])

    before = len(get_model_metas())
    for number, name in enumerate(names, 1):
        write_results(tmp_path, name, scores)
        assert listed() == names[:number]
    assert len(get_model_metas()) == before
