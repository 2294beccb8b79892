"""One model, one name: however it is spelt or loaded, and another one for a model that was changed."""

import contextlib
import operator
from pathlib import Path
from typing import Any

import mteb
import pytest
import torch
from mteb.cache import ResultCache
from mteb.models.model_meta import ModelMeta

import mteb_longembed as longembed
from mteb_longembed.errors import InputError
from tests import tiny


def test_a_model_that_is_not_ours_keeps_its_name(tmp_path: Path) -> None:
    base = tiny.sentence_transformer("bert", tmp_path / "base", name="tiny/bert")
    assert ModelMeta.from_sentence_transformer_model(base).name == "tiny/bert"


def test_embeddings_are_cut_to_the_dimensions_asked_for(tmp_path: Path) -> None:
    meta = mteb.get_model_meta("mini-ape+pi@1024")
    full_dim = meta.to_dict()["embed_dim"]
    encoder = mteb.get_model("mini-ape+pi@1024", device="cpu", embed_dim=16)
    described = encoder.mteb_model_meta
    assert (described.embed_dim, described.experiment_kwargs) == (16, {"embed_dim": 16})
    assert encoder.model.encode(["one"]).shape == (1, 16)
    assert mteb.get_model("mini-ape+pi@1024", device="cpu").model.encode(["one"]).shape == (1, full_dim)
    for wrong in (0, full_dim + 1):
        with pytest.raises(InputError, match=f"embed_dim must be 1 to {full_dim} dimensions, got {wrong}"):
            mteb.get_model("mini-ape+pi@1024", device="cpu", embed_dim=wrong)


# ---- models that change ------------------------------------------------------------------------------------

CHANGED_FROM = "mteb-longembed/mini-rope+ntk@1024"


@pytest.fixture
def evaluate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("MTEB_LONGEMBED_STORE", str(tmp_path / "store"))
    cache = ResultCache(tmp_path / "results")

    def run(model: Any, **encode: Any) -> tuple[str, str, float]:
        task = mteb.get_task("LongEmbedPasskey-docs50", eval_splits=["test_256"])
        result = mteb.evaluate(model, task, cache=cache, show_progress_bar=False, encode_kwargs=encode)
        return result.model_name, result.model_revision, result.task_results[0].get_score()

    return run


def noise(model: Any) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.02)


@pytest.mark.parametrize("load", [longembed.load, mteb.get_model], ids=["load", "get_model"])
def test_a_model_that_changes_after_an_evaluation_is_evaluated_again_under_its_own_name(load, evaluate):
    model = load("mini-rope+ntk@1k")
    name, revision, score = evaluate(model)
    assert name == CHANGED_FROM and score > 0.8
    warned = pytest.warns(RuntimeWarning, match="store of embeddings is off")
    with warned if load is mteb.get_model else contextlib.nullcontext():
        noise(getattr(model, "model", model))
        other, changed, low = evaluate(model)
    assert other == "local/mini-rope+ntk@1024" and changed != revision and low < 0.3
    meta = ModelMeta.from_sentence_transformer_model(getattr(model, "model", model))
    assert (meta.name, meta.revision, meta.adapted_from) == (other, changed, CHANGED_FROM)


def test_results_of_a_changed_model_never_answer_for_the_unchanged_one(evaluate: Any) -> None:
    changed = mteb.get_model("mini-rope+ntk@1k")
    noise(changed.model)
    with pytest.warns(RuntimeWarning, match="store of embeddings is off"):
        assert evaluate(changed)[2] < 0.3
    name, _, score = evaluate(mteb.get_model("mini-rope+ntk@1k"))
    assert name == CHANGED_FROM and score > 0.8


def test_fewer_dimensions_keep_the_name_and_are_an_experiment(evaluate: Any, tmp_path: Path) -> None:
    model = mteb.get_model("mini-rope+ntk@1k")
    name, revision, score = evaluate(model)
    model.model.truncate_dim = 8
    second = evaluate(model)
    assert second[:2] == (name, revision) and second[2] < score
    meta = model.mteb_model_meta
    assert meta.experiment_kwargs == {"embed_dim": 8}
    assert list((tmp_path / "results").glob(f"**/{meta.experiment_name}/LongEmbedPasskey-docs50.json"))


@pytest.mark.parametrize(
    ("name", "inside", "setting", "value"),
    [
        ("mini-rope+none@512", "", "model_prompts", {"query": "query: ", "document": "x " * 20}),
        ("mini-rope+none@512:fuse=bm25", "", "weights", [1, 0]),
        ("mini-rope+none@512:fuse=bm25", "vectors", "model_prompts", {"query": "other: ", "document": ""}),
        ("mini-rope+none@512:fuse=bm25,index=flat", "vectors.encoder", "model_prompts", None),
        ("mini-rope+pcw@1k:vectors=window", "", "model_prompts", {"query": "other: ", "document": ""}),
    ],
)
def test_a_setting_of_mtebs_object_is_part_of_what_the_model_is(name, inside, setting, value) -> None:
    model = mteb.get_model(name)
    original = model.mteb_model_meta
    owner = operator.attrgetter(inside)(model) if inside else model
    known = getattr(owner, setting)
    setattr(owner, setting, value)
    now = model.mteb_model_meta
    assert now.name == f"local/{original.name.rpartition('/')[2]}" and now.adapted_from == original.name
    assert now.revision != original.revision
    setattr(owner, setting, known)
    assert model.mteb_model_meta == original


def test_a_search_that_embeds_with_a_changed_model_has_its_name_too() -> None:
    model = mteb.get_model("mini-rope+ntk@1k:index=flat")
    original = model.mteb_model_meta
    with torch.no_grad():
        next(model.embedder.parameters()).add_(1)
    now = model.mteb_model_meta
    assert now.name == "local/mini-rope+ntk@1024,index=flat" and now.adapted_from == original.name
    assert now.revision != original.revision and now.revision.endswith("-se2")
