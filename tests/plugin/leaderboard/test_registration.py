"""Models of a results cache in mteb's registry, and our rows in a benchmark's table."""

import json
import os
import sys
from pathlib import Path

import mteb
import pytest
from mteb.cache import ResultCache
from mteb.models import model_implementations
from mteb.models.get_model_meta import get_model_metas
from mteb.models.model_meta import ModelMeta

from mteb_longembed.plugin.leaderboard.registration import register_models
from mteb_longembed.plugin.metadata import load_named
from mteb_longembed.plugin.registries import ModelRegistry
from tests.plugin.results import write_results

NAME = "org/base+pi@4096"


def describe(cache: Path, name: str, revision: str = "r1-le1", **fields) -> Path:
    """The file that mteb writes next to the results of a model."""
    meta = ModelMeta.create_empty({"name": name, "revision": revision, "loader": load_named, **fields})
    file = cache / "results" / name.replace("/", "__") / revision / "model_meta.json"
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


def test_models_are_registered_as_they_describe_themselves(registry, tmp_path) -> None:
    """Extended models can be loaded, also one with a repository of its own. Nothing is asked of the hub."""
    describe(tmp_path, NAME, max_tokens=4096, embed_dim=768, adapted_from="org/base", framework=["PyTorch"])
    describe(tmp_path, "me/e5-base-se", "abc-le2")
    describe(tmp_path, "me/another", "r1")
    register_models(tmp_path)
    meta = registry[NAME]
    assert (meta.revision, meta.max_tokens, meta.embed_dim) == ("r1-le1", 4096, 768)
    assert (meta.adapted_from, meta.framework) == ("org/base", ["PyTorch"])
    assert (meta.loader.func, meta.loader.args) == (load_named, (NAME,))
    assert registry["me/e5-base-se"].loader.args == ("me/e5-base-se",)
    assert registry["me/another"].loader is None


def test_of_several_revisions_the_last_one_written_describes_the_model(registry, tmp_path) -> None:
    newer, older = describe(tmp_path, NAME, "a-le2"), describe(tmp_path, NAME, "b-le1")
    os.utime(older, (1, 1))
    os.utime(newer, (2, 2))
    register_models(tmp_path)
    assert registry[NAME].revision == "a-le2"


def test_an_entry_that_mteb_has_itself_stays(registry, tmp_path) -> None:
    registry[NAME] = entry = ModelMeta.create_empty({"name": NAME})
    describe(tmp_path, NAME)
    register_models(tmp_path)
    assert registry[NAME] is entry


NAMED = f'{{"name": "{NAME}"}}'


@pytest.mark.parametrize("text", ["{", "[1]", "{}", '{"name": 1}', NAMED, NAMED[:-1] + ', "new": 1}'])
def test_a_broken_description_is_named_and_the_others_are_registered(registry, tmp_path, text) -> None:
    describe(tmp_path, "org/a+rp@1024")
    file = describe(tmp_path, NAME)
    file.write_text(text)
    with pytest.warns(UserWarning, match="must describe a model as mteb writes it") as warned:
        register_models(tmp_path)
    (message,) = [str(warning.message) for warning in warned]
    assert message.startswith(str(file)) and "\n" not in message
    assert "org/a+rp@1024" in dict.keys(registry) and NAME not in dict.keys(registry)


def test_the_table_of_a_benchmark_lists_our_models_beside_mtebs(tmp_path):
    """Also after mteb has read its registry, which it does once in a process."""
    benchmark = mteb.get_benchmark("LongEmbed+")
    scores = {task.metadata.name: 0.5 for task in benchmark.tasks}
    names = ["intfloat/e5-base-v2", "intfloat/e5-base-v2+pi@4096", "local/mini-rope+ntk@1024"]

    def listed() -> list[str]:
        return sorted(ResultCache(tmp_path).load_results(tasks=benchmark).get_benchmark_result()["Model"])

    n_metas = len(get_model_metas())
    for number, name in enumerate(names, 1):
        write_results(tmp_path, name, scores)
        assert listed() == names[:number]
    assert len(get_model_metas()) == n_metas
