"""mteb keeps apart what a model was and what it is now, also when results of the other one are there already."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import mteb
import pytest
import torch
from mteb.cache import ResultCache
from mteb.models import CachedEmbeddingWrapper

import mteb_longembed as longembed

NAME = "mteb-longembed/mini-rope+ntk@1024"


@pytest.fixture
def evaluate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("MTEB_LONGEMBED_STORE", str(tmp_path / "store"))
    cache = ResultCache(tmp_path / "results")

    def run(model: Any) -> tuple[str, str, float]:
        task = mteb.get_task("LongEmbedPasskey-docs50", eval_splits=["test_256"])
        result = mteb.evaluate(model, task, cache=cache, show_progress_bar=False)
        return result.model_name, result.model_revision, result.task_results[0].get_score()

    return run


def noise(model: Any) -> None:
    for parameter in model.parameters():
        parameter.data.normal_(0, 0.02)


@pytest.mark.parametrize("load", [longembed.load, mteb.get_model], ids=["load", "get_model"])
def test_a_model_that_changes_after_an_evaluation_is_evaluated_again_under_its_own_name(load, evaluate):
    model = load("mini-rope+ntk@1k")
    name, revision, score = evaluate(model)
    assert name == NAME and score > 0.8
    with (
        pytest.warns(RuntimeWarning, match="store of embeddings is off")
        if load is mteb.get_model
        else contextlib.nullcontext()
    ):
        noise(getattr(model, "model", model))
        other, changed, low = evaluate(model)
    assert other == "local/mini-rope+ntk@1024" and changed != revision and low < 0.3
    meta = mteb.models.ModelMeta.from_sentence_transformer_model(getattr(model, "model", model))
    assert (meta.name, meta.revision, meta.adapted_from) == (other, changed, NAME)


def test_results_of_a_changed_model_never_answer_for_the_unchanged_one(evaluate: Any) -> None:
    changed = mteb.get_model("mini-rope+ntk@1k")
    noise(changed.model)
    with pytest.warns(RuntimeWarning, match="store of embeddings is off"):
        assert evaluate(changed)[2] < 0.3
    name, _, score = evaluate(mteb.get_model("mini-rope+ntk@1k"))
    assert name == NAME and score > 0.8


def test_fewer_dimensions_keep_the_name_and_are_an_experiment(evaluate: Any, tmp_path: Path) -> None:
    model = mteb.get_model("mini-rope+ntk@1k")
    name, revision, score = evaluate(model)
    model.model.truncate_dim = 8
    again = evaluate(model)
    assert again[:2] == (name, revision) and again[2] < score
    meta = model.mteb_model_meta
    assert meta.experiment_kwargs == {"embed_dim": 8}
    assert list((tmp_path / "results").glob(f"**/{meta.experiment_name}/LongEmbedPasskey-docs50.json"))


def test_a_search_that_embeds_with_a_changed_model_has_its_name_too() -> None:
    model = mteb.get_model("mini-rope+ntk@1k:center=corpus")
    before = model.mteb_model_meta
    with torch.no_grad():
        next(model.embedder.parameters()).add_(1)
    now = model.mteb_model_meta
    assert now.name == "local/mini-rope+ntk@1024,center=corpus" and now.adapted_from == before.name
    assert now.revision != before.revision and now.revision.endswith("-se2")


def test_mtebs_cache_of_embeddings_keeps_strategies_apart(tmp_path: Path) -> None:
    task = mteb.get_task("LongEmbedPasskey-docs50", eval_splits=["test_1024"])

    def score(name: str, *wrappers: Any) -> float:
        model = mteb.get_model(name)
        for wrapper in wrappers:
            model = wrapper(model, tmp_path / "cache")
        return mteb.evaluate(model, task, cache=None, show_progress_bar=False).task_results[0].get_score()

    names = ["mini-rope+ntk@1k", "mini-rope+none@512"]
    want = [score(name) for name in names]
    assert want[0] != want[1]
    assert [score(name, CachedEmbeddingWrapper) for name in names] == want
    assert [score(name, CachedEmbeddingWrapper) for name in names] == want  # from the cache
    assert len(list((tmp_path / "cache").glob("*/experiments/*"))) == 2
