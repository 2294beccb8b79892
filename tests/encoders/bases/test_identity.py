"""A model is what it was built as, until anything that determines its embeddings changes; then it is another one."""

import contextlib
import copy
import functools
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import mteb
import numpy as np
import peft
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize
from tokenizers import normalizers

import mteb_longembed as longembed
from mteb_longembed.encoders.bases.identity import digest
from mteb_longembed.encoders.bases.model_files import Files
from mteb_longembed.encoders.families import family_of
from mteb_longembed.encoders.strategies import STRATEGIES
from mteb_longembed.errors import ModelError
from tests import tiny
from tests.encoders.oracle_matrix.architectures import SPECIAL

TEXTS = [tiny.text(n) for n in (5, 40, 100)]
SIZES: dict[str, dict[str, Any]] = {
    "bert": {}, "mpnet": {}, "mistral": {"num_key_value_heads": 2, "head_dim": 8},
    "modernbert": {"local_attention": 8, "cls_token_id": 0, "sep_token_id": 2},
    "t5": SPECIAL["t5"], "roformer": SPECIAL["roformer"],
}  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    @functools.cache
    def folder(kind: str) -> Path:
        more = {"dense": True, "prompts": tiny.PROMPTS, **SIZES[kind]}
        return tiny.saved(kind, tmp_path_factory.mktemp(kind), **more)

    return folder


@contextlib.contextmanager
def attribute(owner: Any, name: str, value: Any) -> Any:
    old = getattr(owner, name)
    setattr(owner, name, value)
    yield
    setattr(owner, name, old)


@contextlib.contextmanager
def weight(tensor: torch.Tensor) -> Any:
    """The last bit of the last number, through `.data`, which autograd does not see."""
    bits = tensor.data.view(-1).view(torch.int32)
    bits[-1] ^= 1
    yield
    bits[-1] ^= 1


def nothing(*args: Any) -> None:
    """A hook that changes nothing."""


@contextlib.contextmanager
def appended(model: Any, module: torch.nn.Module) -> Any:
    model.append(module)
    yield
    del model[len(model) - 1]


def closure(k: float) -> Callable[..., None]:
    def stretched(module: Any, inputs: Any, features: Any) -> None:
        vectors = features["sentence_embedding"]
        features["sentence_embedding"] = vectors * torch.linspace(1, k, vectors.shape[-1])

    return stretched


class Stretched(torch.nn.Module):
    """A module that hides what it does in a private attribute."""

    def __init__(self, k: float) -> None:
        super().__init__()
        self._k = k

    def forward(self, features: Any, **kwargs: Any) -> Any:
        closure(self._k)(self, (), features)
        return features


def subclass(module: Any, k: float) -> type:
    return type("Other", (type(module),), {"forward": lambda *args, **kwargs: k})


def layer(model: Any) -> Any:
    return model[0].model.encoder.layer[1]


CHANGES: dict[str, Callable[[Any], Any]] = {
    "a bit of a weight": lambda m: weight(layer(m).attention.self.query.weight),
    "a bit of the last module": lambda m: weight(m[2].linear.bias),
    "a buffer": lambda m: weight(m[0].model.embeddings.position_ids),
    "a number of a module": lambda m: attribute(layer(m).output.LayerNorm, "eps", 0.5),
    "a setting of attention": lambda m: attribute(layer(m).attention.self, "scaling", 0.5),
    "an entry of the configuration": lambda m: attribute(m[0].model.config, "hidden_act", "relu"),
    "a list in a module": lambda m: attribute(m[0], "labels", [1, {"a": 2}]),
    "a dictionary in a module": lambda m: mock.patch.dict(m[0].modality_config, {"text": {"method": "x"}}),
    "a module of another class": lambda m: attribute(m[2], "activation_function", torch.nn.ReLU()),
    "a module more": lambda m: appended(m, Normalize()),
    "the strategy": lambda m: attribute(m[0], "strategy", STRATEGIES["gp"](trained_len=16, target_len=64)),
    "the pooling": lambda m: attribute(m[1], "pooling_mode", "cls"),
    "a hook": lambda m: layer(m).register_forward_hook(nothing),
    "a hook before": lambda m: layer(m).register_forward_pre_hook(nothing),
    "a hook of all modules": lambda m: torch.nn.modules.module.register_module_forward_hook(nothing),
    "an own forward": lambda m: mock.patch.object(layer(m), "forward", layer(m).forward),
    "a prompt": lambda m: mock.patch.dict(m.prompts, {"query": "Query: "}),
    "the default prompt": lambda m: attribute(m, "default_prompt_name", "query"),
    "the similarity": lambda m: attribute(m, "similarity_fn_name", "dot"),
    "the longest input": lambda m: attribute(m, "max_seq_length", 32),
    "the normaliser": lambda m: attribute(m.tokenizer.backend_tokenizer, "normalizer", normalizers.NFC()),
    "the side that is cut": lambda m: attribute(m.tokenizer, "truncation_side", "left"),
    "special tokens in texts": lambda m: attribute(m.tokenizer, "split_special_tokens", True),
    "a special token": lambda m: attribute(m.tokenizer, "mask_token", "[UNK]"),
}


@pytest.fixture(scope="module")
def bert(folders: Callable[[str], Path]) -> Any:
    model = longembed.extend(folders("bert"), "pi", 64)
    model[0].labels = [1, {"a": 1}]
    model.remember(model.resolved)
    return model


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_makes_another_model_and_putting_it_back_the_old_one(bert: Any, change: str) -> None:
    original = bert.identity()
    assert (original.name, original.changed_from) == ("local/model+pi@64", None)
    with CHANGES[change](bert):
        now = bert.identity()
        assert now.changed_from == original.name and now.revision != original.revision
        assert now.name == "local/model+pi@64" and len(now.revision) == 44
    assert bert.identity() == original


HIDDEN: dict[str, Callable[[Any, float], Any]] = {
    "a closure as a hook": lambda m, k: m[1].register_forward_hook(closure(k)),
    "a private attribute": lambda m, k: appended(m, Stretched(k)),
    "a method of an instance": lambda m, k: mock.patch.object(m[1], "forward", closure(k)),
    "a method of a class": lambda m, k: mock.patch.object(type(m[1]), "forward", closure(k)),
    "a class": lambda m, k: attribute(m[1], "__class__", subclass(m[1], k)),
}


@pytest.mark.parametrize("part", HIDDEN)
def test_code_that_comes_later_makes_another_model_for_each_object(bert: Any, part: str) -> None:
    original, revisions = bert.identity(), set()
    for k in (1, 50):
        with HIDDEN[part](bert, k):
            assert bert.identity() == bert.identity() == copy.deepcopy(bert).identity()
            assert bert.identity().changed_from == original.name
            revisions.add(bert.identity().revision)
    assert len(revisions) == 2 and bert.identity() == original


def test_code_that_was_there_at_build_belongs_to_the_model_but_to_no_name_of_others(folders) -> None:
    revisions = set()
    for k in (1, 50):
        loaded = SentenceTransformer(str(folders("bert")), device="cpu")
        loaded.append(Stretched(k))
        model: Any = longembed.extend(loaded, "pi", 64)
        model.encode(TEXTS)
        assert model.identity() == copy.deepcopy(model).identity()
        assert model.identity().changed_from is None
        revisions.add(model.identity().revision)
        model[len(model) - 1] = Stretched(k)
        assert model.identity().changed_from is not None
    assert len(revisions) == 2


def test_an_adapter_that_is_switched_off_or_deleted_leaves_the_name(folders, tmp_path) -> None:
    model: Any = longembed.extend(folders("bert"), "pi", 64)
    original, vectors = model.identity(), model.encode(TEXTS)
    model.add_adapter(peft.LoraConfig(r=2, init_lora_weights=False))
    model.encode(TEXTS)
    assert model.identity().changed_from
    for rest in (model.disable_adapters, model.enable_adapters, lambda: model.delete_adapter("default")):
        rest()
        same = np.array_equal(model.encode(TEXTS), vectors)
        assert (model.identity() == original) == same
    assert same
    with weight(layer(model).attention.self.query.base_layer.weight):
        assert model.identity() != original


def test_dimensions_training_mode_and_the_store_are_no_part_of_it(bert: Any, tmp_path: Path) -> None:
    original = bert.identity()
    bert.train()
    bert.truncate_dim = 8
    bert.store = object()
    assert bert.identity() == original
    bert.eval()
    bert.truncate_dim = bert.store = None


@pytest.mark.parametrize("kind", SIZES)
def test_use_never_changes_it_and_made_again_it_is_equal(kind: str, folders: Callable[[str], Path]) -> None:
    plain = SentenceTransformer(str(folders(kind)), device="cpu")
    fitting = [key for key, strategy in STRATEGIES.items() if family_of(plain[0].config).fits(strategy)]
    for key in fitting:
        model: Any = longembed.extend(folders(kind), key, trained_len=16, logn=False)
        model.encode(TEXTS)
        model.encode_query(TEXTS, batch_size=1)
        assert model.identity().changed_from is None, key
        assert digest(longembed.extend(folders(kind), key, trained_len=16, logn=False)) == model.built[0]


def test_a_loaded_base_that_equals_its_files_keeps_their_name_and_a_changed_one_does_not(folders) -> None:
    loaded = SentenceTransformer(str(folders("bert")), device="cpu")
    by_name = longembed.extend(folders("bert"), "pi")
    same = longembed.extend(loaded, "pi")
    assert same.identity() == by_name.identity()
    with torch.no_grad():
        layer(loaded).output.dense.bias += 1
    other = longembed.extend(loaded, "pi")
    assert other.identity().revision not in (by_name.identity().revision, None)
    assert other.identity().name.startswith("local/") and other.resolved.base.entry is None


def test_a_loaded_model_is_extended_though_its_files_are_damaged_since(tmp_path: Path) -> None:
    folder = tiny.saved("bert", tmp_path)
    loaded = SentenceTransformer(str(folder), device="cpu")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    assert longembed.extend(loaded, "pi").identity().name.startswith("local/")


def test_what_was_trained_with_none_and_extended_then_has_its_weights_and_prompts(folders) -> None:
    model: Any = longembed.extend(folders("bert"), "none")
    with torch.no_grad():
        layer(model).output.dense.bias += 1
    model.prompts["query"] = "Query : "
    extended: Any = longembed.extend(model, "gp")
    assert np.allclose(extended.encode(TEXTS[:1]), model.encode(TEXTS[:1]), atol=1e-6)
    assert extended.prompts["query"] == "Query : "
    assert extended.resolved.base.revision == model.identity().revision
    assert extended.identity().name == "local/model+gp@128"


def test_a_card_never_gives_a_changed_model_the_name_of_the_unchanged_one(bert: Any, tmp_path: Path) -> None:
    bert.save_pretrained(str(tmp_path / "same"))
    with weight(layer(bert).output.dense.bias):
        bert.save_pretrained(str(tmp_path / "changed"))
    assert "was changed after it was made" not in (tmp_path / "same" / "README.md").read_text()
    assert "was changed after it was made" in (tmp_path / "changed" / "README.md").read_text()
    revisions = [longembed.load(tmp_path / name).identity().revision for name in ("same", "changed")]
    assert revisions[0] != revisions[1]


def test_a_folder_that_sentence_transformers_loaded_itself_is_known_until_it_changes(tmp_path: Path) -> None:
    longembed.load("mini-rope+ntk@1k").save_pretrained(str(tmp_path / "mine"))
    stock = SentenceTransformer(str(tmp_path / "mine"), trust_remote_code=True, device="cpu")
    meta = mteb.models.ModelMeta.from_sentence_transformer_model(stock)
    ours = longembed.load(tmp_path / "mine").identity()
    assert (meta.name, meta.revision) == (ours.name, ours.revision) and meta.name == "local/mine+ntk@1024"
    with weight(stock[0].model.embeddings.word_embeddings.weight):
        meta = mteb.models.ModelMeta.from_sentence_transformer_model(stock)
    assert meta.name == ours.name and meta.revision != ours.revision and meta.adapted_from == ours.name


@pytest.fixture
def folder(folders: Callable[[str], Path], tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(folders("bert"), tmp_path / "model"))


def test_a_linked_folder_is_part_of_a_local_revision(folder: Path, tmp_path: Path) -> None:
    revision = Files.open(str(folder)).revision()
    (folder / "1_Pooling").rename(tmp_path / "pool")
    (folder / "1_Pooling").symlink_to(tmp_path / "pool")
    (folder / "loop").symlink_to(folder)
    assert Files.open(str(folder)).revision() == revision
    opened = Files.open(str(folder))
    config = tmp_path / "pool" / "config.json"
    config.write_text(config.read_text().replace("mean", "last"))  # as long as before
    assert Files.open(str(folder)).revision() != revision and not opened.are_unchanged()


def test_a_file_whose_name_is_no_text_counts_like_any_other(folder: Path) -> None:
    revision = longembed.load(f"{folder}+gp").identity().revision
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.txt")).write_text("one")
    assert longembed.load(f"{folder}+gp").identity().revision != revision


def test_a_tokenizer_without_its_files_is_refused_and_a_padded_table_is_not(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    name = "embeddings.word_embeddings.weight"
    table = weights[name]
    weights[name] = torch.cat([table, table.mean() + torch.zeros_like(table[:-1])])
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps({**config, "vocab_size": 2 * len(table) - 1}))
    longembed.load(f"{folder}+gp")
    for file in folder.glob("tokenizer*"):
        file.unlink()
    with pytest.raises(ModelError, match=r"half as many entries as the model's table has rows .* got 5:"):
        longembed.load(f"{folder}+gp")


def test_weights_that_a_model_needs_are_never_drawn_at_random(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    headless = {key: value for key, value in weights.items() if "pooler" not in key}
    save_file(headless, folder / "model.safetensors", {"format": "pt"})
    longembed.extend(folder, "gp")
    broken = {key: value for key, value in headless.items() if "layer.1.output" not in key}
    save_file(broken, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=r"lacks weights that the model needs: encoder\.layer\.1\.output"):
        longembed.extend(folder, "gp")
