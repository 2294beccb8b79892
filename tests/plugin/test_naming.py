"""One model, one name: however it is spelt or loaded, and another one for a model that was changed."""

import contextlib
import operator
from pathlib import Path
from typing import Any

import mteb
import pytest
import torch
from mteb.cache import ResultCache
from mteb.models import CachedEmbeddingWrapper
from mteb.models.model_meta import ModelMeta

import mteb_longembed as longembed
from mteb_longembed.errors import InputError, UnknownNameError
from tests import tiny

from .results import write_results

NAME = "mteb-longembed/mini-rope+ntk@2048"
EARLIER = "org/base+gone@2048,x=1"


@pytest.mark.parametrize(
    ("stored", "asked", "names"),
    [
        *((NAME, name, [NAME]) for name in ("mini-rope+ntk@2048", "mini-rope+ntk@2k:short=scale", NAME)),
        *((NAME, name, []) for name in ("mini-rope+ntk@1024", "mini-rope+pi@2048", "org/other")),
        (EARLIER, EARLIER, [EARLIER]),
    ],
)
def test_results_are_found_by_any_spelling_of_a_name_and_by_no_other(tmp_path, stored, asked, names) -> None:
    write_results(tmp_path, stored, {"LongEmbedPasskey": 0.5})
    cache = ResultCache(tmp_path)
    results = cache.load_results(models=[asked], include_remote=False).model_results
    assert [result.model_name for result in results] == names
    assert bool(cache.get_cache_paths([asked, "org/none"], include_remote=False)) == bool(names)


@pytest.mark.parametrize("name", ["mini-rope+ntk@2k", NAME])
def test_a_description_is_found_by_any_spelling_of_a_name(name: str) -> None:
    stock = "sentence-transformers/all-MiniLM-L6-v2"
    metas = mteb.get_model_metas(model_names=[name, "mini-ape", stock])
    assert {meta.name for meta in metas} == {NAME, "mteb-longembed/mini-ape+none@512", stock}
    assert mteb.get_model_metas(model_names=[name], model_types=["cross-encoder"]) == []


def test_a_name_that_breaks_a_rule_is_told_instead_of_finding_nothing(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'ntk'"):
        ResultCache(tmp_path).load_results(models=["mini-rope+nkt@2048"], include_remote=False)


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


def test_an_argument_of_encode_is_an_experiment_and_never_answers_for_a_call_without_it(evaluate) -> None:
    low = evaluate(mteb.get_model("mini-rope+ntk@1k"), truncate_dim=4)
    name, revision, score = evaluate(mteb.get_model_meta("mini-rope+ntk@1k"), batch_size=8)
    assert low[:2] == (name, revision) and low[2] < score - 0.2
    assert evaluate(mteb.get_model_meta("mini-rope+ntk@1k"), truncate_dim=4) == low


@pytest.mark.parametrize(
    ("name", "inside", "setting", "value"),
    [
        ("mini-rope+none@512", "", "model_prompts", {"query": "query: ", "document": "x " * 20}),
        ("mini-rope+none@512:fuse=bm25", "", "weights", [1, 0]),
        ("mini-rope+none@512:fuse=bm25", "vectors", "model_prompts", {"query": "other: ", "document": ""}),
        ("mini-rope+none@512:center=corpus,fuse=bm25", "vectors.encoder", "model_prompts", None),
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
    model = mteb.get_model("mini-rope+ntk@1k:center=corpus")
    original = model.mteb_model_meta
    with torch.no_grad():
        next(model.embedder.parameters()).add_(1)
    now = model.mteb_model_meta
    assert now.name == "local/mini-rope+ntk@1024,center=corpus" and now.adapted_from == original.name
    assert now.revision != original.revision and now.revision.endswith("-se2")


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
