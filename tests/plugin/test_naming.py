"""One model, one name: however it is spelt or loaded, and another one for a model that was changed."""

from pathlib import Path
from typing import Any

import mteb
import pytest
import torch
from mteb.cache import ResultCache
from mteb.models.model_meta import ModelMeta

import mteb_longembed as longembed
from mteb_longembed.errors import InputError
from tests.metas import full_name


def test_embeddings_are_cut_to_the_requested_dimensions(tmp_path: Path) -> None:
    meta = mteb.get_model_meta("mini-ape+pi@1024")
    full_dim = meta.to_dict()["embed_dim"]
    encoder = mteb.get_model("mini-ape+pi@1024", device="cpu", embed_dim=16)
    described = encoder.mteb_model_meta
    assert (described.embed_dim, described.experiment_kwargs) == (
        16,
        {**meta.experiment_kwargs, "embed_dim": 16},
    )
    assert encoder.model.encode(["one"]).shape == (1, 16)
    assert mteb.get_model("mini-ape+pi@1024", device="cpu").model.encode(["one"]).shape == (1, full_dim)
    for wrong in (0, full_dim + 1):
        with pytest.raises(InputError, match=f"embed_dim must be 1 to {full_dim} dimensions, got {wrong}"):
            mteb.get_model("mini-ape+pi@1024", device="cpu", embed_dim=wrong)


# ---- models that change ------------------------------------------------------------------------------------

CHANGED_FROM = "mteb-longembed/mini-rope+ntk@1024"


@pytest.fixture
def evaluate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("MTEB_LONGEMBED_CACHE", str(tmp_path / "cache"))
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


def test_a_model_that_changes_after_an_evaluation_is_evaluated_again_under_its_own_name(evaluate):
    model = longembed.load("mini-rope+ntk@1k")
    name, revision, score = evaluate(model)
    assert name == "mteb-longembed/mini-rope" and score > 0.8
    noise(model)
    other, changed, low = evaluate(model)
    assert other == "local/mini-rope" and changed != revision and len(changed) == 40 and low < 0.3
    meta = ModelMeta.from_sentence_transformer_model(model)
    assert (meta.name, meta.revision, meta.adapted_from) == (other, changed, CHANGED_FROM)
    assert full_name(meta) == "local/mini-rope+ntk@1024"


@pytest.mark.parametrize("name", ["mini-rope+ntk@1k", "mini-rope+pcw@1k:vectors=window"])
def test_mtebs_object_for_a_name_is_refused_when_its_model_was_changed(name, evaluate: Any) -> None:
    changed: Any = mteb.get_model(name)
    noise(changed.scorer.shown.encoding.encoder.model if "vectors" in name else changed.model)
    message = "^the model was changed after it was loaded as mteb-longembed/mini-rope"
    with pytest.raises(InputError, match=message):
        evaluate(changed)
