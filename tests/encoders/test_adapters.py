"""Models with adapters (LoRA): saved, loaded, shared, merged and extended, with the same embeddings everywhere."""

from pathlib import Path

import pytest
import torch
from peft import LoraConfig
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer

import mteb_longembed as longembed
from mteb_longembed.encoders.built_model import identity_of
from mteb_longembed.encoders.families import Absolute, Rotary
from mteb_longembed.errors import ModelError
from tests import tiny
from tests.limits import same_vectors

from .test_training import LO, LT, MODELS, TEXTS, extended

#: Each family, with strategies that act in attention and on a table of positions.
FAMILIES = [
    pytest.param(family, key, id=f"{family.name}-{key}") for family, key in ((Rotary, "se"), (Absolute, "pi"))
]


def with_adapter(model: SentenceTransformer) -> SentenceTransformer:
    """The model with an adapter that changes its embeddings, as training would leave it."""
    model.add_adapter(LoraConfig(r=2, lora_alpha=4, init_lora_weights=False))
    return model


def stock_adapter(folder: Path, family: type) -> str:
    """A folder that plain sentence-transformers writes for a model with an adapter."""
    model_type, config = MODELS[family]
    base = with_adapter(tiny.sentence_transformer(model_type, folder, **config))
    base.save_pretrained(str(folder / "adapter"), create_model_card=False)
    assert not (folder / "adapter" / "model.safetensors").exists()
    return str(folder / "adapter")


@pytest.mark.parametrize(("family", "key"), FAMILIES)
@pytest.mark.usefixtures("empty_hub")
def test_a_saved_adapter_gives_its_embeddings_wherever_it_is_loaded(family, key, tmp_path):
    model = extended(family, key, tmp_path)
    original, bare = model.identity(), model.encode(TEXTS)
    want = with_adapter(model).encode(TEXTS)
    assert abs(want - bare).max() > 1e-2
    assert model.identity().name == f"local/{original.name.rpartition('/')[2]}"
    folder = tmp_path / "saved"
    model.save_pretrained(str(folder))
    assert "pip install 'mteb-longembed[peft]'" in (folder / "README.md").read_text()
    ours = longembed.load(folder)
    same_vectors(ours.encode(TEXTS), want)
    theirs = SentenceTransformer(str(folder), trust_remote_code=True, device="cpu")
    same_vectors(theirs.encode(TEXTS), want)
    assert identity_of(theirs) == ours.identity()
    assert ours.identity().name.startswith("local/saved+")
    model.push_to_hub("me/lora")
    shared = longembed.load("me/lora")
    same_vectors(shared.encode(TEXTS), want)
    assert shared.identity().name == "me/lora"
    ours.merge_adapters().save_pretrained(str(tmp_path / "merged"))
    assert not list((tmp_path / "merged").rglob("adapter*"))
    same_vectors(longembed.load(tmp_path / "merged").encode(TEXTS), want)


@pytest.mark.parametrize(("family", "key"), FAMILIES)
def test_an_adapter_folder_of_sentence_transformers_is_a_base(family, key, tmp_path):
    folder = stock_adapter(tmp_path, family)
    stock = SentenceTransformer(folder, device="cpu")
    plain = longembed.load(f"{folder}+none@{LO}:trained_len={LO}")
    model, *others = (longembed.extend(base, key, LT, LO) for base in (folder, stock, plain))
    want = model.encode(TEXTS)
    same_vectors(want[0], stock.encode(TEXTS[0]))
    for other in others:
        same_vectors(other.encode(TEXTS), want)
    model.save_pretrained(str(tmp_path / "saved"))
    same_vectors(longembed.load(tmp_path / "saved").encode(TEXTS), want)
    same_vectors(model.merge_adapters().encode(TEXTS), want)


def test_a_loaded_model_takes_a_second_adapter_and_keeps_both(tmp_path):
    with_adapter(extended(Absolute, "gp", tmp_path)).save_pretrained(str(tmp_path / "first"))
    model = longembed.load(tmp_path / "first")
    one = model.encode(TEXTS)
    model.add_adapter(LoraConfig(r=4, init_lora_weights=False), "second")
    model[0].model.set_adapter(["default", "second"])
    both, changed = model.encode(TEXTS), model.identity()
    model.save_pretrained(str(tmp_path / "both"))
    same_vectors(longembed.load(tmp_path / "both").encode(TEXTS), both)
    model.set_adapter("default")
    same_vectors(model.encode(TEXTS), one)
    assert model.identity() != changed
    model.disable_adapters()
    assert abs(model.encode(TEXTS) - one).max() > 1e-2


def test_the_revision_of_a_saved_adapter_covers_its_weights_and_its_base(tmp_path):
    def revision(folder: Path) -> str:
        return longembed.load(folder).identity().revision

    model = with_adapter(extended(Rotary, "gp", tmp_path))
    model.save_pretrained(str(tmp_path / "saved"))
    first = revision(tmp_path / "saved")
    with torch.no_grad():
        next(p for name, p in model.named_parameters() if "lora_A" in name).mul_(2)
    model.save_pretrained(str(tmp_path / "saved"))
    assert revision(tmp_path / "saved") != first
    folder = stock_adapter(tmp_path / "stock", Rotary)
    name = f"{folder}+gp@{LT}:trained_len={LO}"
    first = longembed.load(name).identity().revision
    base = tmp_path / "stock" / "model" / "model.safetensors"
    base.write_bytes(base.read_bytes()[:-4] + b"\0\0\0\1")
    assert longembed.load(name).identity().revision != first


def two_passes(model: SentenceTransformer) -> torch.Tensor:
    """Gradients of two batches, one after the other, before either goes backward: as queries and documents do."""
    torch.manual_seed(0)  # dropout
    passes = [model(model.preprocess(texts))["sentence_embedding"] for texts in (TEXTS, TEXTS[:1])]
    model.zero_grad()
    sum(vectors.pow(3).sum() for vectors in passes).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


@pytest.mark.parametrize(("family", "key"), FAMILIES)
@pytest.mark.parametrize("adapted", [False, True], ids=["all weights", "adapter"])
def test_gradient_checkpointing_changes_no_gradient(family, key, adapted, tmp_path):
    model = extended(family, key, tmp_path).train()
    if adapted:
        with_adapter(model)
    want = two_passes(model)
    model[0].model.gradient_checkpointing_enable()
    got = two_passes(model)
    assert torch.allclose(got, want, rtol=1e-4, atol=1e-6 * float(want.abs().max()))


def test_an_adapter_without_weights_or_peft_is_named(tmp_path, monkeypatch):
    model = with_adapter(extended(Rotary, "gp", tmp_path))
    model.save_pretrained(str(tmp_path / "saved"))
    [weights] = (tmp_path / "saved").rglob("adapter_model.safetensors")
    kept = dict(list(load_file(weights).items())[1:])
    save_file(kept, weights, metadata={"format": "pt"})
    with pytest.raises(ModelError, match="lacks weights"):
        longembed.load(tmp_path / "saved")
    monkeypatch.setattr("mteb_longembed.encoders.checkpoints.opening.is_peft_available", lambda: False)
    with pytest.raises(ModelError, match=r"pip install 'mteb-longembed\[peft\]'"):
        longembed.load(tmp_path / "saved")
