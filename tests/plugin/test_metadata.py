"""A model's `ModelMeta` holds what mteb asks of a submission, wherever some file says it."""

import shutil
import warnings
from pathlib import Path

import mteb
import pytest
import torch
from mteb.models import model_implementations
from mteb.models.model_meta import ModelMeta, ScoringFunction

import mteb_longembed as longembed
from mteb_longembed.encoders.checkpoints.facts import facts
from mteb_longembed.encoders.checkpoints.opening import open_checkpoint
from mteb_longembed.encoders.checkpoints.spec import ModelSpec
from tests import tiny

#: What a submission must say; of training data only mteb's own entry of a base can know.
WANTED = {
    "name", "revision", "release_date", "languages", "n_parameters", "n_embedding_parameters", "memory_usage_mb",
    "max_tokens", "embed_dim", "license", "open_weights", "framework", "reference", "similarity_fn_name",
    "use_instructions", "adapted_from",
}  # fmt: skip


def unknown(meta: ModelMeta) -> set[str]:
    """mteb's own conditions for a new model, and what it wants that nobody knows."""
    assert meta.name != meta.adapted_from
    meta.get_training_datasets()
    return {name for name in WANTED if getattr(meta, name) in (None, [])}


def test_a_name_on_a_base_that_mteb_knows_is_complete(online) -> None:
    meta = mteb.get_model_meta("e5-base+pi@1k")
    e5 = mteb.get_model_meta("intfloat/e5-base-v2")
    assert unknown(meta) == set()
    assert (meta.n_parameters, meta.license, meta.languages) == (e5.n_parameters, e5.license, e5.languages)
    assert meta.training_datasets == e5.training_datasets is not None


def test_a_name_on_a_base_that_nobody_listed_is_complete(online) -> None:
    meta = mteb.get_model_meta("org/unlisted+pi@128")
    assert unknown(meta) == set()
    base = longembed.load("org/unlisted+none", device="cpu")
    assert meta.n_parameters == sum(p.numel() for p in base.parameters())
    assert meta.n_embedding_parameters == 32 * base[0].config.vocab_size
    assert max(meta.embed_dim) == 24, "the Dense decides"
    assert meta.similarity_fn_name == ScoringFunction.DOT_PRODUCT
    assert (meta.license, meta.languages, meta.open_weights) == ("mit", ["deu-Latn", "eng-Latn"], True)
    assert (meta.release_date, meta.use_instructions) == ("2024-04-18", False)
    assert meta.reference == "https://huggingface.co/org/unlisted"


def test_sizes_are_those_of_the_model_alone_whatever_else_lies_in_its_folder(tmp_path) -> None:
    base = tiny.sentence_transformer(
        "electra", tmp_path / "base", embedding_size=16, intermediate_size=32_768
    )
    base[0].model.to(torch.float8_e4m3fn)
    folder = tmp_path / "mine"
    base.save_pretrained(str(folder))
    (folder / "checkpoint-10").mkdir()
    shutil.copy(folder / "model.safetensors", folder / "checkpoint-10")
    found = facts(open_checkpoint(ModelSpec(str(folder))))
    n = sum(p.numel() for p in base.parameters())
    assert (found["n_parameters"], found["n_embedding_parameters"]) == (n, 16 * base[0].config.vocab_size)
    assert found["memory_usage_mb"] == round(n / 2**20) == 4


def test_weights_that_cannot_be_read_have_no_size(tmp_path) -> None:
    folder = tiny.saved("bert", tmp_path)
    header = b'{"a": 5}'
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    found = facts(open_checkpoint(ModelSpec(str(folder))))
    assert found["n_parameters"] is found["memory_usage_mb"] is None


ORIGINS = {"e5-base": "intfloat/e5-base-v2", "org/unlisted": "org/unlisted"}


@pytest.mark.parametrize(("base", "origin"), ORIGINS.items())
def test_a_saved_folder_keeps_its_base_and_describes_itself(online, tmp_path: Path, base, origin) -> None:
    model = longembed.load(f"{base}+pi@1024", device="cpu")
    model.save_pretrained(str(tmp_path / "saved"))
    meta = mteb.get_model_meta(str(tmp_path / "saved"))
    assert meta.adapted_from == origin
    assert meta.n_parameters == sum(p.numel() for p in model.parameters()), "with the added rows"
    assert max(meta.embed_dim) == model.get_embedding_dimension()
    assert meta.similarity_fn_name.value == model.similarity_fn_name
    # nobody has published it
    unpublished = set() if base == "e5-base" else {"open_weights", "reference", "release_date"}
    assert unknown(meta) == unpublished
    known = mteb.get_model_meta("intfloat/e5-base-v2").training_datasets if base == "e5-base" else None
    assert meta.training_datasets == known


@pytest.mark.parametrize(("base", "origin"), ORIGINS.items())
def test_a_repository_of_ours_is_complete(online, base, origin) -> None:
    repository = f"me/{origin.partition('/')[2]}-pi"
    model = longembed.load(f"{base}+pi@1024", device="cpu")
    model.push_to_hub(repository, token="hf_of_a_test")
    meta = mteb.get_model_meta(repository)
    assert unknown(meta) == set()
    assert (meta.name, meta.adapted_from, meta.max_tokens) == (repository, origin, 1024)
    assert meta.n_parameters == sum(p.numel() for p in model.parameters())
    assert meta.reference == f"https://huggingface.co/{repository}"
    assert meta.license == "mit" and "eng-Latn" in meta.languages


def test_several_vectors_are_compared_by_the_best(online, tmp_path) -> None:
    longembed.load("org/unlisted+pi@64:vectors=8", device="cpu").save_pretrained(str(tmp_path / "several"))
    for name in ("org/unlisted+pi@64:vectors=8", str(tmp_path / "several")):
        meta = mteb.get_model_meta(name)
        assert (meta.similarity_fn_name, meta.model_type) == (ScoringFunction.MAX_SIM, ["late-interaction"])


def test_a_hub_that_is_gone_costs_facts_and_no_error(online, monkeypatch) -> None:
    from huggingface_hub import constants

    mteb.get_model_meta("org/unlisted+rp@64")
    monkeypatch.setattr(model_implementations.MODEL_REGISTRY, "_made", {})
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    meta = mteb.get_model_meta("org/unlisted+rp@64")
    assert unknown(meta) == {"n_parameters", "memory_usage_mb", "release_date"}


def test_results_of_a_python_model_are_described_as_those_of_its_name(online, tmp_path) -> None:
    model = longembed.load("org/unlisted+pi@64", device="cpu")
    with warnings.catch_warnings(action="ignore"):
        meta = ModelMeta.from_sentence_transformer_model(model)
    same = mteb.get_model_meta("org/unlisted+pi@64")
    for name in WANTED - {"embed_dim"}:
        assert getattr(meta, name) == getattr(same, name), name
